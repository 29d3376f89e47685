"""A clock that only work moves, an engine whose steps take the seconds that a test says, and small models."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ampcourse.bench import Plan, Report, load, run
from ampcourse.bench.engine import Device
from ampcourse.bench.plan import Variant


class Clock:
    """Seconds that pass only when something works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeStep:
    def __init__(self, engine: FakeEngine, seconds: float, planned: int | None = None) -> None:
        self.engine, self.seconds, self.planned, self.done = engine, seconds, planned, 0
        self.run(1)

    def run(self, steps: int) -> None:
        self.done += steps
        self.engine.clock.now += steps * self.seconds

    def run_from_host(self, steps: int) -> None:
        self.run(steps)
        self.engine.clock.now += steps * 0.1 * self.seconds

    def facts(self) -> dict[str, Any]:
        return {"loss": 1.0, "updates": self.done}

    def bytes_moved(self) -> float | None:
        return 1e6

    def planned_bytes(self) -> int | None:
        return self.planned


class FakeEngine:
    """Everything but the building of models is made up; `seconds` says how long a step of a variant takes.

    `trouble` holds the error that a variant meets while it is built. `built` says what was built, in order.
    """

    name = "tensorflow"

    def __init__(self, clock: Clock, seconds: dict[Variant, float] | None = None, device: Device | None = None) -> None:
        self.clock, self.seconds, self.trouble = clock, seconds or {}, {}
        self.built: list[tuple[str, Variant]] = []
        self.tf32: list[bool] = []
        self.on = device or Device("cpu", "a made-up processor")

    def device(self, wanted: str) -> Device:
        return self.on

    @contextmanager
    def precision(self, tf32: bool) -> Any:
        self.tf32.append(tf32)
        yield
        self.tf32.pop()

    def step(self, model: Any, loss: Any, optimizer: Any, samples: Any, xla: bool) -> FakeStep:
        import keras

        name = keras.config.dtype_policy().name
        variant = Variant("tf32" if name == "float32" and self.tf32[-1] else name, xla)
        self.built.append((model.name, variant))
        if variant in self.trouble:
            raise self.trouble[variant]
        return FakeStep(self, self.seconds.get(variant, 0.01))

    def optimizer_alone(self, model: Any, optimizer: Any, xla: bool) -> Callable[[int], None]:
        return self.takes(0.001)

    def feed(self, samples: Any) -> Any:
        raise NotImplementedError("no fit here")

    def takes(self, seconds: float) -> Callable[[int], None]:
        def work(steps: int) -> None:
            self.clock.now += steps * seconds

        return work

    def product(self, size: int, dtype: str) -> Callable[[int], None]:
        return self.takes(2e-3 if dtype == "float32" and not self.tf32[-1] else 1e-3)

    def copy(self, numbers: int) -> Callable[[int], None]:
        return self.takes(1e-3)

    def wait(self) -> None: ...

    def memory(self) -> None: ...

    def reset_peak(self) -> bool:
        return False

    def ran_out(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    def versions(self) -> dict[str, str]:
        return {"made up": "1"}


def toy(name: str = "toy", scale: str = "small") -> SimpleNamespace:
    """A workload as the zoo makes them: two dense layers with a normalisation between."""
    import keras

    def build() -> Any:
        wide = keras.Sequential(
            [
                keras.Input((8,)),
                keras.layers.Dense(16, activation="relu"),
                keras.layers.LayerNormalization(),
                keras.layers.Dense(4, dtype="float32"),
            ],
            name=name,
        )
        return wide

    def samples(batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        return rng.normal(size=(batch, 8)).astype("float32"), rng.integers(0, 4, batch)

    return SimpleNamespace(
        name=name,
        title=f"Toy {name}",
        unit="rows",
        build=build,
        samples=samples,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        flops=6 * (8 * 16 + 16 * 4),
        batches={"cpu": 4, "gpu": 8},
        source="made up",
        optimizer=lambda: keras.optimizers.SGD(0.01, 0.9),
        obstacle=lambda policy: None,
    )


def quick(**settings: Any) -> Plan:
    """A plan of few and short turns."""
    return Plan(**{"models": ("toy",), "turns": 3, "turn_seconds": 0.01, **settings})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(clock: Clock) -> FakeEngine:
    return FakeEngine(clock)


@pytest.fixture
def _no_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collecting garbage between made-up models takes most of a test's time."""
    import keras

    monkeypatch.setattr("ampcourse.bench.session.forget", lambda: keras.utils.clear_session(free_memory=False))


@pytest.fixture
def measure(engine: FakeEngine, clock: Clock, _no_garbage_collection: None) -> Callable[..., Report]:
    """Runs a quick plan on the made-up engine."""

    def measured(*plans: Plan, find: Callable = toy, **settings: Any) -> Report:
        plans = plans or (quick(**settings),)
        return run(*plans, find=find, engine=engine, clock=clock, sizes=(8, 8))

    return measured


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of a results.json, made once."""
    folder, clock = tmp_path_factory.mktemp("results"), Clock()
    run(quick(out=folder), find=toy, engine=FakeEngine(clock), clock=clock, sizes=(8, 8))
    assert load(folder).finished
    return (folder / "results.json").read_text("utf-8")


@pytest.fixture
def saved(results: str, tmp_path: Path) -> Path:
    """A folder with results."""
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "results.json").write_text(results, "utf-8")
    return tmp_path / "saved"
