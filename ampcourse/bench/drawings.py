"""The report's pictures: bars of the ratios with their intervals, and rooflines with the models on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ampcourse.bench.plan import CEILING, POLICIES, Variant
from ampcourse.bench.shape import OK, Measured, Report, Session

BASELINES = {"float32": "float32 with TF32 off", "tf32": "float32 with TF32 on"}


def pictures(report: Report) -> dict[str, Any]:
    """File name without its ending to `plots.Picture`: what the report has enough numbers for.

    Bars show ratios at the same batch with the same setting of XLA. Models stand on the roofline of their policy with
    the bytes that XLA's program moves at most, so only compiled variants without loops are there.
    """
    found = dict(_bars(report))
    for place, session in enumerate(report.sessions):
        models = [model for model in report.models if model.session == place]
        found |= _roofs(session, models, f"-{place + 1}" if len(report.sessions) > 1 else "")
    return found


def save(report: Report, out: Path) -> list[Path]:
    """Write the pictures as PNG, and their alternative texts into pictures.md; returns the paths."""
    from ampcourse.reproduce.files import write

    made = pictures(report)
    paths = [picture.save(out / f"{name}.png") for name, picture in made.items()]
    lines = [f"![{picture.alt}]({name}.png)\n" for name, picture in made.items()]
    if lines:
        write(out / "pictures.md", "# Pictures of the benchmark\n\n" + "\n".join(lines))
    return paths


def _bars(report: Report) -> Iterator[tuple[str, Any]]:
    from ampcourse.plots import speedups
    from ampcourse.plots.speeds import MOST_GROUPS

    for baseline, words in BASELINES.items():
        groups: dict[str, dict[str, tuple[float, float, float]]] = {}
        for model in report.models[:MOST_GROUPS]:
            if row := _against(model, baseline):
                groups[f"{model.name}, batch {model.batch}"] = row
        if groups:
            where = dict.fromkeys(session.device for session in report.sessions)
            label = " and ".join(dict.fromkeys(_backend(session) for session in report.sessions))
            title = f"Speed at the same batch and the same setting of XLA\n({label}, {', '.join(where)})"
            yield f"speed-against-{baseline}", speedups(groups, words, title)


def _against(model: Measured, baseline: str) -> dict[str, tuple[float, float, float]]:
    found = {}
    for row in model.rows:
        ratio = model.ratio(row.variant, Variant(baseline, row.xla))
        if ratio and row.policy != "float32":
            found[str(row.variant)] = (ratio.median, ratio.low, ratio.high)
    return found


def _roofs(session: Session, models: list[Measured], ending: str) -> dict[str, Any]:
    from ampcourse.plots import roofline
    from ampcourse.plots.roofs import MOST_POINTS

    found = {}
    for policy in POLICIES:
        peak, bandwidth = session.ceilings.of(CEILING[policy]), session.ceilings.copy.best
        points = {}
        for model in models:
            row = model.row(Variant(policy, True))
            if row and row.status == OK and row.bytes_moved and row.flops_per_second:
                intensity = model.flops_per_sample * model.batch / row.bytes_moved
                points.setdefault(f"{model.name}, batch {model.batch}", (intensity, row.flops_per_second))
        points = dict(list(points.items())[:MOST_POINTS])
        if points and peak and bandwidth:
            title = f"Models under {policy}, on the roof measured here\n({_backend(session)}, {session.device})"
            found[f"roofline-{policy}{ending}"] = roofline(peak, bandwidth, points, title)
    return found


def _backend(session: Session) -> str:
    return {"tensorflow": "TensorFlow", "jax": "JAX"}[session.backend]
