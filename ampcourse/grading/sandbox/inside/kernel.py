"""The kernel: ipykernel on sockets that were opened outside and handed in.

So there is no folder that the kernel and the grader share: none to fill, and no socket in it to replace.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import zmq

if "debugpy" not in sys.modules:  # ipykernel then has no debugger, which takes longer to load than all the rest
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]

from ipykernel.heartbeat import Heartbeat
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp


class Kernel(IPythonKernel):
    """As ipykernel's, without the debugger."""

    async def poll_stopped_queue(self) -> None:
        """Nothing stops."""


def handed_in(sockets: dict[int, int]) -> type[IPKernelApp]:
    """An application that listens on descriptors.

    Args:
        sockets: by the number that the connection file gives the channel.
    """

    def listen(ip: str, socket: Any, port: int) -> int:
        socket.setsockopt(zmq.USE_FD, sockets[port])
        socket.bind(f"ipc://{ip}-{port}")
        return port

    class Application(IPKernelApp):
        def _try_bind_socket(self, s: Any, port: int) -> int:
            return listen(self.ip, s, port)

        def init_path(self) -> None:
            """Modules beside the notebook can be imported, but do not take the place of others: behind all the rest."""
            sys.path.append("")

        def init_control(self, context: Any) -> None:
            super().init_control(context)
            # ipykernel dials its own shell for the debugger; there is no path to it here, and it would try for ever.
            self.debug_shell_socket.disconnect(self.shell_socket.getsockopt(zmq.LAST_ENDPOINT))

    Heartbeat._try_bind_socket = lambda self: listen(self.ip, self.socket, self.port)
    return Application


def main() -> None:
    """Arguments: the connection file and the descriptors, as JSON; then the kernel's own."""
    connection_file, sockets, *rest = sys.argv[1:]
    application = handed_in({int(port): number for port, number in json.loads(sockets).items()})
    sys.argv = sys.argv[:1]
    application.launch_instance(
        kernel_class=Kernel, argv=["-f", connection_file, "--HistoryManager.hist_file=:memory:", *rest]
    )


if __name__ == "__main__":
    main()
