"""The ward: every patient with the policy it runs under."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from dataclasses import dataclass, replace
from typing import Any

from ampcourse.clinic import loud, silent
from ampcourse.clinic.chart import Chart, Make, examine, follow
from ampcourse.clinic.program import Program, as_compiled, under


@dataclass(frozen=True)
class Patient:
    """One patient: the function that makes its program, and the dtype policy it is run under."""

    make: Make
    policy: str = "mixed_float16"

    @property
    def name(self) -> str:
        """What the program is called in the ward."""
        return self.make.__name__


WARD: dict[str, Patient] = {
    patient.name: patient
    for patient in (
        Patient(silent.baker),
        Patient(silent.climber),
        Patient(loud.sprinter),
        Patient(loud.forecaster),
        Patient(loud.reader),
        Patient(loud.postman),
        Patient(loud.listener),
        Patient(loud.surveyor),
        Patient(loud.veteran),
        Patient(loud.saver, "float16"),
        Patient(silent.gardener),
        Patient(silent.barber),
        Patient(silent.doorman),
        Patient(silent.commuter),
        Patient(silent.bookseller),
        Patient(silent.sculptor),
        Patient(silent.sleeper, "bfloat16"),
        Patient(silent.photographer),
    )
}


@functools.lru_cache(maxsize=32)
def _chart(name: str, seed: int, steps: int | None) -> Chart:
    patient = WARD[name]
    return examine(patient.make, patient.policy, seed, steps=steps)


def admit(name: str, seed: int = 0, steps: int | None = None) -> Chart:
    """Examine one patient of the ward: its chart from a real run, with the numbers that this seed draws.

    A chart that was drawn before is kept, and given again.

    Raises:
        ValueError: if there is no such patient.
    """
    return _chart(_patient(name).name, seed, steps)


def monitored(name: str, seed: int = 0, steps: int | None = None) -> Any:
    """Run one patient under its own policy with a `GradientMonitor` attached, which is returned; raises as `admit`."""
    from ampcourse.amp import GradientMonitor

    patient, monitor = _patient(name), GradientMonitor(verbose=0)
    follow(patient.make, patient.policy, seed, monitor, steps)
    return monitor


def prepared(name: str, seed: int = 0) -> Program:
    """One patient's program, ready to be audited or trained: the optimizer is the one that would train.

    Raises:
        ValueError: if there is no such patient.
    """
    patient = _patient(name)
    with under(patient.policy, seed) as rng, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = patient.make(rng)
        return replace(program, optimizer=as_compiled(program, patient.policy))


def audited(name: str, seed: int = 0) -> Any:
    """The `AuditReport` on a patient's model, optimizer and step, with a batch from the middle; raises as `admit`."""
    from ampcourse.amp import audit

    program = prepared(name, seed)
    x, y = program.batches[len(program.batches) // 2]

    def step(x: Any, y: Any) -> Any:
        return program.step(program.model, program.optimizer, x, y, program.loss)

    with under(_patient(name).policy, seed):
        return audit(program.model, program.optimizer, (x, y), step=step)


def code(name: str) -> Source:
    """A patient's program as it is written, with the layers and steps that it uses.

    Raises:
        ValueError: if there is no such patient.
    """
    make = _patient(name).make
    module = inspect.getmodule(make)
    wanted = _names(make.__code__) | {getattr(one, "__name__", "") for one in make.__defaults__ or ()}
    used = [value for key, value in vars(module).items() if key in wanted and _is_own(value, module)]
    return Source("\n\n".join(inspect.getsource(one).rstrip() for one in (*used, make)))


@dataclass(frozen=True)
class Source:
    """Program text that a notebook shows with colours, and `print` plainly."""

    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text}\n```"


def _patient(name: Any) -> Patient:
    if not isinstance(name, str) or name not in WARD:
        raise ValueError(f"There is no patient {name!r} in the ward: it is one of {', '.join(WARD)}.")
    return WARD[name]


def _names(code: types.CodeType) -> set[str]:
    """Every name that a function, or a function inside it, looks up."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def _is_own(value: Any, module: Any) -> bool:
    """Whether it is a layer or a step written in this module, and not the plumbing that several patients share."""
    ours = inspect.isclass(value) or inspect.isfunction(value)
    return ours and value.__module__ == module.__name__ and value.__name__ not in ("_small", "_classes")
