"""What a benchmark is to measure: models, policies, XLA on and off, and how long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

from ampcourse.course import UserError

KERAS_POLICY = {
    "float32": "float32",
    "tf32": "float32",
    "mixed_float16": "mixed_float16",
    "mixed_bfloat16": "mixed_bfloat16",
}
"""Our names to Keras's dtype policies: float32 has TF32 off, and tf32 is the same dtypes with TF32 on."""
CEILING = {"float32": "float32", "tf32": "tf32", "mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}
"""Which measured matrix product is a policy's ceiling."""
POLICIES = tuple(KERAS_POLICY)
DEVICES = ("auto", "cpu", "gpu")
SCALES = ("small", "full")
FEWEST_TURNS, MOST_TURNS = 3, 1000


class BenchError(UserError):
    """A benchmark that cannot run as asked, or a file that holds none."""


class Variant(NamedTuple):
    """One way to run a model: a policy, with or without XLA."""

    policy: str
    xla: bool

    def __str__(self) -> str:
        return f"{self.policy}{', XLA' if self.xla else ''}"


@dataclass(frozen=True)
class Plan:
    """What to measure; everything has a default that suits the device.

    Attributes:
        models: names of `ampcourse.models.zoo`; by default two small ones on a CPU, the large ones on a GPU.
        policies: some of `POLICIES`. "float32" is the baseline: TF32 off.
        xla: which settings of `jit_compile`, always given explicitly. JAX always compiles, whatever stands here.
        device: "auto" takes a GPU if there is one.
        scale: "full", or "small" for the same architectures cut down; by default full on a GPU, small on a CPU.
        batch: samples a step; by default what the model's entry says for the device.
        turns: how often every variant has its turn. With fewer than 6, an interval is the whole range of the ratios.
        turn_seconds: about how long a turn is.
        parts: also measure where the time of a step goes, and the custom loop against `fit`.
        largest: also look for the largest batch that fits; by default on a GPU only.
        minutes: begin nothing new after this time.
        out: folder for results.json, report.md and the pictures; nothing is written if None.
        fresh: measure again what the folder holds already.
        seed: of weights and samples.

    Raises:
        BenchError: for a value that makes no sense, in one sentence.
    """

    models: tuple[str, ...] = ()
    policies: tuple[str, ...] = POLICIES
    xla: tuple[bool, ...] = (False, True)
    device: str = "auto"
    scale: str | None = None
    batch: int | None = None
    turns: int = 9
    turn_seconds: float = 0.25
    parts: bool = True
    largest: bool | None = None
    minutes: float | None = None
    out: Path | None = None
    fresh: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("models", "policies", "xla"):
            object.__setattr__(self, name, _several(getattr(self, name), name))
        _among(self.policies, POLICIES, "policy")
        _among((self.device,), DEVICES, "device")
        if self.scale is not None:
            _among((self.scale,), SCALES, "scale")
        if not self.policies or not self.xla or not all(isinstance(one, bool) for one in self.xla):
            raise BenchError("A benchmark needs at least one policy, and XLA as True, False or both.")
        _whole(self.turns, "turns", FEWEST_TURNS, MOST_TURNS)
        _whole(self.seed, "seed", 0, 2**32 - 1)
        if self.batch is not None:
            _whole(self.batch, "batch", 1, 2**20)
        _positive(self.turn_seconds, "turn_seconds")
        if self.minutes is not None:
            _positive(self.minutes, "minutes")
        if self.out is not None:
            object.__setattr__(self, "out", Path(self.out))

    def variants(self, backend: str) -> list[Variant]:
        """Every policy with every setting of XLA; on JAX, which always compiles, with XLA alone."""
        switches = (True,) if backend == "jax" else self.xla
        return [Variant(policy, xla) for xla in switches for policy in self.policies]


def _several(given: Any, name: str) -> tuple:
    """Each once, in their order."""
    if isinstance(given, str | bool):
        given = (given,)
    if not isinstance(given, Iterable):
        raise BenchError(f"{name} takes several values, such as a list, not {given!r}.")
    return tuple(dict.fromkeys(given))


def _among(given: Sequence[Any], known: Sequence[str], what: str) -> None:
    for one in given:
        if one not in known:
            raise BenchError(f"There is no {what} {one!r}: choose from {', '.join(known)}.")


def _whole(value: Any, name: str, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
        raise BenchError(f"{name} is a whole number from {low} to {high:,}, not {value!r}.")


def _positive(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < math.inf:
        raise BenchError(f"{name} is a number above 0, not {value!r}.")
