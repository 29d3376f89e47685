"""Published numbers beside those of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampcourse.bench.page import ratio, table
from ampcourse.bench.plan import Variant
from ampcourse.bench.published import PUBLISHED, SOURCES, Published, utilisation
from ampcourse.bench.shape import OK, Measured, Report

COLUMNS = ("model", "what", "device", "baseline", "batch", "before", "after", "times as fast", "of the peak", "source")
INTRODUCTION = (
    "The published numbers come from other machines, frameworks and years. A ratio against TF32 and one against "
    'float32 are different things: compare only what has the same baseline. "Of the peak" is computed here from the '
    "throughput, the model's operations, and the maker's stated 16-bit peak."
)


def compare(report: Report | None = None, models: Iterable[str] = ()) -> str:
    """Markdown: what was published about the models of a report (or those named, or all), and what was measured here.

    Args:
        report: results to put beside; None shows the published numbers alone.
        models: names; by default those of the report, or all if there is none.
    """
    measured = report.models if report else ()
    wanted = set(models) or {model.name for model in measured} or {one.model for one in PUBLISHED}
    shown = [one for one in PUBLISHED if one.model in wanted]
    lines = ["## Beside published numbers", "", INTRODUCTION, ""]
    if ours := [row for model in measured if model.name in wanted for row in _measured(report, model)]:
        lines += ["Measured here:", "", *table(("model", "variant", "device", "baseline", "times as fast"), ours), ""]
    if unknown := sorted(wanted - {one.model for one in shown}):
        lines += [f"Nothing published was found for: {', '.join(unknown)}.", ""]
    if shown:
        lines += ["Published:", "", *table(COLUMNS, map(row, shown)), "", *_sources(shown), ""]
    return "\n".join(lines)


def row(one: Published) -> tuple[str, ...]:
    """One published pair, with the columns of `COLUMNS`."""
    batch = "" if one.batches is None else " to ".join(dict.fromkeys(map(str, one.batches)))
    before = "" if one.before is None else f"{one.before:,g} {one.unit}/s"
    used = utilisation(one)
    return (
        *(one.model, f"{one.what}{f' ({one.note})' if one.note else ''}", one.device, one.baseline or "none given"),
        *(batch, before, f"{one.after:,.5g} {one.unit}/s", "" if one.ratio is None else f"{one.ratio:.2f}"),
        *("" if used is None else f"{used:.0%}", one.source),
    )


def _measured(report: Report | None, model: Measured) -> Iterator[tuple[str, ...]]:
    """The mixed policies against each baseline with the same XLA."""
    assert report is not None
    device = report.sessions[model.session].device
    for one in model.rows:
        if one.status == OK and one.policy.startswith("mixed"):
            for baseline in ("float32", "tf32"):
                if found := model.ratio(one.variant, Variant(baseline, one.xla)):
                    yield f"{model.name} ({model.scale})", str(one.variant), device, baseline, ratio(found)


def _sources(shown: list[Published]) -> Iterator[str]:
    yield "Sources:"
    yield ""
    for name in dict.fromkeys(one.source for one in shown):
        yield f"- {name}: {SOURCES[name]}"
