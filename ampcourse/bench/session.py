"""One start of the benchmark: the ceilings first, then model after model, saved after each stage."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ampcourse.bench import ceilings as roofs
from ampcourse.bench import files, largest, parts, speed
from ampcourse.bench.engine import Device, Engine, choose, driver, forget
from ampcourse.bench.plan import BenchError, Plan, Variant
from ampcourse.bench.shape import OK, Ceilings, Measured, Report, Row, Session
from ampcourse.bench.turns import Clock

MODELS = {
    "cpu": ("resnet8", "vit_tiny"),
    "gpu": ("resnet50", "vit_b16", "bert_base", "retinanet_r50", "swin_t", "ncf", "gnmt"),
}
"""What is measured where no models are named."""
SCALE = {"cpu": "small", "gpu": "full"}
SWITCH = "JAX always compiles with XLA: the switch is TensorFlow's."
Say = Callable[[str], None]


def run(
    plan: Plan,
    *later: Plan,
    find: Callable[[str, str], Any] | None = None,
    engine: Engine | None = None,
    sizes: tuple[int, int] | None = None,
    clock: Clock = time.perf_counter,
    say: Say = lambda _: None,
) -> Report:
    """Measure what the plan asks for, and save after every stage where it names a folder.

    What an earlier, interrupted run left in the folder is kept and gone on with, if it is of the same device, backend
    and seed. A variant that cannot run becomes a row with its reason, and the others go on.

    Args:
        plan: what to measure.
        later: what to measure afterwards on the same ceilings, for the same device, folder and seed.
        find: from a model's name and scale to its workload; by default `ampcourse.models.zoo.workload`.
        engine: the backend; by default the one that Keras runs on.
        sizes: of the ceilings' matrices and copied numbers, for tests.
        clock: seconds; another one is injected in tests.
        say: called with what is being done.

    Raises:
        BenchError: if there is no such device, the folder holds something else, Keras has another backend, or the
            plans do not agree.
        UserError: for a model that does not exist, or a folder that refuses.
    """
    plans = (plan, *later)
    if any(same(one) != same(plan) for one in later):
        raise BenchError("Plans that run one after the other have the same device, folder, seed and 'fresh'.")
    engine = engine or choose()
    device = engine.device(plan.device)
    if any(one.largest for one in plans) and device.kind == "cpu":
        raise BenchError(
            "The largest batch is looked for on a GPU only, since a system ends programs that use up its own memory: "
            "leave out '--largest'."
        )
    work = [(one, _workloads(one, device, find)) for one in plans]
    with _claimed(plan.out):
        start = clock()
        job = Job(plan, engine, device, clock, say)
        job.begin(sizes)
        for job.plan, workloads in work:
            job.until = start + 60 * (job.plan.minutes or math.inf)
            for workload in workloads:
                job.model(workload)
        return job.end()


def same(plan: Plan) -> tuple:
    """What plans of one run share."""
    return plan.device, plan.out, plan.seed, plan.fresh


def _workloads(plan: Plan, device: Device, find: Callable[[str, str], Any] | None) -> list[Any]:
    if find is None:
        from ampcourse.models.zoo import workload as find
    scale = plan.scale or SCALE[device.kind]
    return [find(name, scale) for name in plan.models or MODELS[device.kind]]


@contextlib.contextmanager
def _claimed(out: Path | None) -> Iterator[None]:
    """The folder, made if need be, and held so that no other run writes into it."""
    if out is None:
        yield
        return
    from ampcourse.reproduce.files import OutputError, claimed, explain

    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise OutputError(f"'{out}' is or lies under a file, not a folder: name another output folder.") from None
    except OSError as error:
        raise OutputError(explain(error, out)) from error
    with claimed(out):
        yield


@dataclass
class Job:
    """A run at work, and what it has so far."""

    plan: Plan
    engine: Engine
    device: Device
    clock: Clock
    say: Say
    until: float = math.inf
    report: Report = field(default_factory=Report)

    @property
    def _session(self) -> int:
        return len(self.report.sessions) - 1

    @property
    def _ceilings(self) -> Ceilings:
        return self.report.sessions[-1].ceilings

    def begin(self, sizes: tuple[int, int] | None) -> None:
        """Take up what is there, and measure the ceilings."""
        self.report = self._earlier() or Report()
        self.say("the machine's ceilings are measured")
        found = roofs.measure(
            self.engine,
            self.device.kind,
            tf32=self.device.has_tf32,
            turns=self.plan.turns,
            sizes=sizes,
            clock=self.clock,
        )
        sessions = (*self.report.sessions, describe(self.engine, self.device, found))
        self.report = replace(
            self.report, sessions=sessions, turns=self.plan.turns, seed=self.plan.seed, finished=False
        )
        self._save()

    def _earlier(self) -> Report | None:
        out = self.plan.out
        if out is None or not (out / files.RESULTS).exists():
            return None
        report = files.load(out)  # a foreign file stops us also with `fresh`: it is not ours to overwrite
        if self.plan.fresh:
            return None
        ours = (self.engine.name, self.device.name, self.plan.seed)
        for session in report.sessions:
            if (session.backend, session.device, report.seed) != ours:
                raise BenchError(
                    f"'{out}' holds results of {session.device} with {session.backend}, seed {report.seed}: "
                    "name another folder, or measure anew with '--fresh'."
                )
        return report

    def model(self, workload: Any) -> None:
        """Everything about one model that is not there yet."""
        batch = self.plan.batch or workload.batches[self.device.kind]
        scale = self.plan.scale or SCALE[self.device.kind]
        model = self.report.model(workload.name, scale, batch)
        if model is None or not complete(model, self.plan.variants(self.engine.name)):
            model = self._speed(workload, batch, scale)
            self._keep(model)
        if self.plan.parts and not any(one.shares for one in model.parts):
            model = replace(model, parts=tuple(self._parts(workload, model)))
            self._keep(model)
        wanted = self.device.kind == "gpu" if self.plan.largest is None else self.plan.largest
        if wanted and not any(one.batch for one in model.largest):
            self._keep(replace(model, largest=tuple(self._largest(workload, model))))

    def _speed(self, workload: Any, batch: int, scale: str) -> Measured:
        forget()
        return speed.measure(
            self.engine,
            self.device,
            workload,
            self.plan,
            self._ceilings,
            batch=batch,
            scale=scale,
            session=self._session,
            until=self.until,
            clock=self.clock,
            say=self.say,
        )

    def _parts(self, workload: Any, model: Measured) -> Iterator[parts.Parts]:
        for variant in parts.chosen(model):
            if self.clock() >= self.until:
                return
            forget()
            self.say(f"{workload.name}: {variant} is taken apart")
            common = {"batch": model.batch, "session": self._session, "until": self.until, "clock": self.clock}
            yield parts.measure(self.engine, workload, self.plan, self._ceilings, variant, **common)

    def _largest(self, workload: Any, model: Measured) -> Iterator[largest.Largest]:
        for variant in parts.chosen(model):
            if self.clock() >= self.until:
                return
            self.say(f"{workload.name}: the largest batch of {variant} is looked for")
            common = {"until": self.until, "clock": self.clock}
            yield largest.measure(self.engine, workload, self.plan, variant, model.batch, **common)
        forget()

    def _keep(self, model: Measured) -> None:
        key = (model.name, model.scale, model.batch)
        others = [one for one in self.report.models if (one.name, one.scale, one.batch) != key]
        places = [place for place, one in enumerate(self.report.models) if one not in others]
        place = places[0] if places else len(others)
        self.report = replace(self.report, models=(*others[:place], model, *others[place:]))
        self._save()

    def end(self) -> Report:
        """Everything asked for was looked at."""
        forget()
        self.report = replace(self.report, finished=self.clock() < self.until)
        self._save()
        return self.report

    def _save(self) -> None:
        if self.plan.out is not None:
            from ampcourse.bench.page import markdown
            from ampcourse.reproduce.files import write

            files.save(self.report, self.plan.out)
            write(self.plan.out / "report.md", markdown(self.report))


def complete(model: Measured, variants: list[Variant]) -> bool:
    """Whether every variant has a row that more time would not change."""
    rows: list[Row | None] = [model.row(variant) for variant in variants]
    return all(row is not None and (row.status == OK or row.reason != speed.NO_TIME) for row in rows)


def describe(engine: Engine, device: Device, ceilings: Ceilings) -> Session:
    """This machine, as far as it decides the results."""
    import importlib.metadata

    from ampcourse.reproduce import machine

    versions = engine.versions()
    if device.kind == "cpu":  # what a build could use elsewhere says nothing here
        versions = {name: version for name, version in versions.items() if name not in ("cuda", "cudnn")}
    for package in ("ampcourse", "keras", "keras-hub", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    facts = {"processor": machine.processor(), "cores": str(machine.cores()), "flags": " ".join(machine.flags())}
    with contextlib.suppress(ImportError):  # psutil
        facts["memory"] = f"{machine.memory() / 2**30:.1f} GiB"
    return Session(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        backend=engine.name,
        device=device.name,
        kind=device.kind,
        driver=driver() if device.kind == "gpu" else "",
        machine=facts,
        versions=versions,
        ceilings=ceilings,
        notes=(SWITCH,) if engine.name == "jax" else (),
    )
