"""The sandbox as a kernel provisioner: Jupyter's own way to say how kernels are started.

Whatever starts kernels by a kernelspec (nbclient, nbconvert, papermill, nbgrader) runs them in the sandbox when it is
given the kernelspec of this package: see `kernel_spec_manager`.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.provisioning import KernelProvisionerBase
from traitlets import Bool, Instance, Unicode

from ampcourse.grading.model import Box
from ampcourse.grading.sandbox.choosing import refuse_unless_isolated
from ampcourse.grading.sandbox.kernel import SandboxKernel
from ampcourse.grading.sandbox.starters import SandboxStarter
from ampcourse.grading.settings import Settings, load_settings

KERNEL_NAME = "ampcourse-sandbox"
KERNELS = Path(__file__).parent / "kernels"


def kernel_spec_manager() -> KernelSpecManager:
    """A manager that knows the sandbox's kernelspec and no other, whatever is installed or asked for."""
    return KernelSpecManager(kernel_dirs=[str(KERNELS)], ensure_native_kernel=False)


class SandboxProvisioner(KernelProvisionerBase):
    """Starts a kernel in a sandbox. The command of the kernelspec and the caller's environment are not used."""

    course = Unicode(help="The course directory whose settings (course.toml, table [grading]) apply.").tag(config=True)
    profile = Unicode("grade", help="The notebook's profile.").tag(config=True)
    box = Instance(Box, help="What is seen of the course; by default nothing.")
    check = Bool(True, help="Refuse to start where the machine does not isolate.").tag(config=True)

    _starter: SandboxStarter | None = None
    _kernel: SandboxKernel | None = None

    def _box_default(self) -> Box:
        return Box("", {"__init__.py": b""})

    @property
    def has_process(self) -> bool:
        """Whether there is a kernel, running or not yet cleaned up."""
        return self._kernel is not None

    async def poll(self) -> int | None:
        """None while the kernel runs, else its exit code."""
        return 0 if self._kernel is None else self._kernel.process.poll()

    async def wait(self) -> int | None:
        """Wait for the end."""
        while (code := await self.poll()) is None:
            await asyncio.sleep(0.02)
        self._stop()
        return code

    async def send_signal(self, signum: int) -> None:
        """End it; there is no other signal that bubblewrap could pass on. An interrupt comes as a message."""
        if signum not in (0, signal.SIGINT):
            await self.kill()

    async def kill(self, restart: bool = False) -> None:
        """End the kernel and everything that it started."""
        if self._kernel is not None:
            self._kernel.kill("it was stopped")

    async def terminate(self, restart: bool = False) -> None:
        """As `kill`: there is nobody inside who could tidy up."""
        await self.kill(restart)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """See that the machine isolates.

        Raises:
            GradingError: if it does not.
        """
        if self.check:
            refuse_unless_isolated()
        kwargs.pop("extra_arguments", None)
        return await super().pre_launch(cmd=[], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start a kernel and say how to reach it."""
        self._stop()
        if self._starter is None:
            settings = load_settings(Path(self.course)) if self.course else Settings()
            self._starter = SandboxStarter(self.box, settings)
        key = self.parent.session.key.decode() if self.parent is not None else None
        self._kernel = self._starter.launch({}, {"AMPCOURSE_PROFILE": self.profile}, key=key)
        self.connection_info = {**self._kernel.connection, "key": self._kernel.connection["key"].encode()}
        return self.connection_info

    async def cleanup(self, restart: bool = False) -> None:
        """Remove what is left."""
        self._stop()
        if not restart and self._starter is not None:
            self._starter.close()
            self._starter = None

    def _stop(self) -> None:
        if self._kernel is not None:
            self._kernel.stop()
            self._kernel = None
