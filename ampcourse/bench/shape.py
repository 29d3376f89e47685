"""The shape of a benchmark's results, in memory as in `results.json`; docs/benchmark.md describes every field."""

from __future__ import annotations

from dataclasses import dataclass, field

from ampcourse.bench.plan import Variant

FORMAT, VERSION = "ampcourse benchmark", 1
OK, FAILED, NOT_RUN = "ok", "failed", "not run"


@dataclass(frozen=True)
class Rate:
    """Something a second: the median of the turns and the best of them; None, with the reason, where it failed."""

    median: float | None
    best: float | None
    reason: str = ""


@dataclass(frozen=True)
class Ceilings:
    """What the machine reaches at best: operations a second in square matrix products, and bytes a second copied.

    `matrix` has a rate for each of float32 (TF32 off), tf32, float16 and bfloat16; `size` is the side of the matrices.
    """

    size: int
    matrix: dict[str, Rate]
    copied_bytes: int
    copy: Rate

    def of(self, name: str) -> float | None:
        """The best rate of the matrix products of this name."""
        return self.matrix[name].best if name in self.matrix else None


@dataclass(frozen=True)
class Session:
    """One start of the program: when, on what, and the ceilings that were measured first."""

    started: str
    backend: str
    device: str
    kind: str
    driver: str
    machine: dict[str, str]
    versions: dict[str, str]
    ceilings: Ceilings
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One variant of one model; `status` "ok", or "failed" or "not run" with the reason."""

    policy: str
    xla: bool
    status: str
    reason: str = ""
    tf32: bool | None = None
    compute_dtypes: dict[str, int] = field(default_factory=dict)
    first_step_seconds: float | None = None
    steps_per_turn: int = 0
    seconds: tuple[float, ...] = ()
    median_seconds: float | None = None
    throughput: float | None = None
    flops_per_second: float | None = None
    share_of_ceiling: float | None = None
    bytes_moved: float | None = None
    memory_bytes: int | None = None
    memory_how: str = ""
    loss: float | None = None
    steps: int = 0
    updates: int | None = None

    @property
    def variant(self) -> Variant:
        """Policy and XLA."""
        return Variant(self.policy, self.xla)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast a variant is as its baseline: median and interval of the ratios within the turns."""

    policy: str
    xla: bool
    baseline_policy: str
    baseline_xla: bool
    median: float
    low: float
    high: float
    turns: int


@dataclass(frozen=True)
class Share:
    """A part of the time of one step; low and high are None where it was computed, not timed."""

    name: str
    share: float
    low: float | None
    high: float | None
    how: str


@dataclass(frozen=True)
class Parts:
    """Where the time of one step goes under one variant, and `fit` against the custom loop."""

    policy: str
    xla: bool
    session: int = 0
    step_seconds: float | None = None
    shares: tuple[Share, ...] = ()
    fit_seconds: float | None = None
    fit_over_custom: float | None = None
    fit_low: float | None = None
    fit_high: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Largest:
    """The largest batch that fits under one variant, and the throughput there; timed alone, not by turns."""

    policy: str
    xla: bool
    batch: int | None
    throughput: float | None
    reason: str = ""


@dataclass(frozen=True)
class Measured:
    """One model: its size, its variants and what was compared; `session` says which of the sessions measured it."""

    name: str
    title: str
    scale: str
    unit: str
    batch: int
    parameters: int | None
    flops_per_sample: float
    session: int
    rows: tuple[Row, ...]
    ratios: tuple[Ratio, ...] = ()
    parts: tuple[Parts, ...] = ()
    largest: tuple[Largest, ...] = ()
    accuracy_difference: float | None = None

    def row(self, variant: Variant) -> Row | None:
        """The row of a variant."""
        return next((row for row in self.rows if row.variant == variant), None)

    def ratio(self, variant: Variant, baseline: Variant) -> Ratio | None:
        """One variant against another, if that was compared."""
        wanted = (*variant, *baseline)
        return next((r for r in self.ratios if (r.policy, r.xla, r.baseline_policy, r.baseline_xla) == wanted), None)


@dataclass(frozen=True)
class Report:
    """Everything that was measured; `finished` is false while a run goes on or was stopped."""

    sessions: tuple[Session, ...] = ()
    models: tuple[Measured, ...] = ()
    turns: int = 0
    seed: int = 0
    finished: bool = False
    format: str = FORMAT
    version: int = VERSION

    def model(self, name: str, scale: str, batch: int) -> Measured | None:
        """What was measured of a model at this scale and batch."""
        wanted = (name, scale, batch)
        return next((one for one in self.models if (one.name, one.scale, one.batch) == wanted), None)

    def ceilings(self, model: Measured) -> Ceilings:
        """The ceilings that were measured in the session of this model."""
        return self.sessions[model.session].ceilings
