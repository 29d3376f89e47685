"""The report in words and tables: Markdown for people, and rows for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ampcourse.bench.parts import MATRICES, REST, amdahl
from ampcourse.bench.plan import CEILING, Variant
from ampcourse.bench.shape import OK, Ceilings, Measured, Parts, Ratio, Report, Row, Session

BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX"}
COLUMNS = ("policy", "XLA", "ms a step", "a second", "against float32", "against TF32", "by XLA", "of its ceiling")
WIDE = 2
"""An interval whose ends are further apart than this factor says more about the machine than about the variant."""
BASELINES = (
    'Each number is a ratio of times measured side by side in one run, with its 95 % interval. "Against float32": the '
    'baseline is float32 with TF32 off, with the same setting of XLA; "against TF32": float32 with TF32 on, with the '
    'same setting of XLA; "by XLA": the same policy without XLA. All at the same batch. Above 1 is faster.'
)
CPU_MEANS = (
    "What CPU numbers mean: they show how the measuring works and what this processor does, and nothing about a GPU. "
    "bfloat16 can be faster than float32 where the processor multiplies it itself (avx512_bf16, amx_bf16), and takes "
    "two to three times as long where it does not. float16 is slow without XLA: convolutional networks take 6 to 10 "
    "times as long as in float32. TF32 does not exist here. Small models spend much of a step outside matrix products, "
    "so their ratios are nearer to 1 than those of large ones."
)
ACCURACY = (
    "Accuracy parity is not measured by this benchmark, which trains for a few steps on random numbers: "
    "`ampcourse.amp.parity` measures it."
)


def markdown(report: Report) -> str:
    """The whole report as Markdown."""
    lines = ["# Benchmark of mixed precision", ""]
    if not report.finished:
        lines += ["**Not finished:** the run was stopped, or still goes on; start it again to go on.", ""]
    for session in report.sessions:
        lines += [*_session(session), ""]
    if report.models:
        lines += ["## Speed at the same batch", "", BASELINES, ""]
    for model in report.models:
        lines += [*_model(report, model), ""]
    if any(session.kind == "cpu" for session in report.sessions):
        lines += ["## What these numbers mean", "", CPU_MEANS, ""]
    return "\n".join([*lines, ACCURACY, ""])


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    made = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in made]


def _session(session: Session) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in session.versions.items())
    driver = f", driver {session.driver}" if session.driver else ""
    yield f"## Measured on {session.device}{driver}, with {BACKENDS[session.backend]}, {session.started}"
    yield ""
    yield f"Versions: {versions}. Machine: {', '.join(f'{k} {v}' for k, v in session.machine.items() if v)}."
    yield from session.notes
    yield ""
    yield f"Ceilings, measured first, of square matrix products of side {session.ceilings.size:,} and of a copy of "
    yield f"{session.ceilings.copied_bytes / 2**20:,.0f} MiB (read and written):"
    yield ""
    yield from table(("what", "best", "median"), list(ceiling_rows(session.ceilings)))


def ceiling_rows(ceilings: Ceilings) -> Iterator[tuple[str, str, str]]:
    """Each ceiling with its best and its median turn."""
    for name, rate in ceilings.matrix.items():
        words = f"{name} product{' (TF32 off)' if name == 'float32' else ''}"
        if rate.best is None:
            yield words, rate.reason, ""
        else:
            yield words, flops(rate.best), flops(rate.median)
    copy = ceilings.copy
    yield "copy", f"{copy.best / 1e9:,.4g} GB/s" if copy.best else copy.reason, f"{(copy.median or 0) / 1e9:,.4g} GB/s"


def flops(rate: float | None) -> str:
    """Operations a second, with a unit that suits."""
    if rate is None:
        return ""
    return f"{rate / 1e12:,.4g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:,.4g} GFLOP/s"


def ratio(found: Ratio | None) -> str:
    """A ratio with its interval; empty where there is none."""
    return "" if found is None else f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f})"


def variant_rows(model: Measured) -> Iterator[tuple[str, ...]]:
    """One row a variant, with the columns of `COLUMNS`; what did not run says so in the third."""
    for row in model.rows:
        switch = "on" if row.xla else "off"
        if row.status != OK or row.median_seconds is None:
            yield (row.policy, switch, row.status, *[""] * 5)
            continue
        baselines = (Variant("float32", row.xla), Variant("tf32", row.xla), Variant(row.policy, False))
        ratios = [ratio(model.ratio(row.variant, one)) for one in baselines]
        if row.policy == "float32":
            ratios[0] = "the baseline"
        share = "" if row.share_of_ceiling is None else f"{row.share_of_ceiling:.0%}"
        yield (row.policy, switch, f"{1000 * row.median_seconds:.4g}", f"{row.throughput:,.4g}", *ratios, share)


def _model(report: Report, model: Measured) -> Iterator[str]:
    weights = f", {model.parameters:,} parameters" if model.parameters else ""
    yield f"### {model.title} ({model.name}, {model.scale})"
    yield ""
    yield f"{model.batch} {model.unit} a step{weights}, {model.flops_per_sample:.3g} operations for each of them."
    if report.sessions[model.session].backend == "jax":
        yield "Measured with JAX."
    yield ""
    yield from table(
        (*COLUMNS, "memory"),
        [(*cells, _memory(row)) for cells, row in zip(variant_rows(model), model.rows, strict=True)],
    )
    if hows := dict.fromkeys(row.memory_how for row in model.rows if row.memory_how):
        yield ""
        yield f"Memory: {'; '.join(hows)}."
    yield from reasons(model)
    yield from remarks(model)
    for one in model.parts:
        yield from ("", *_parts(one))
    if said := gains(report, model):
        yield from ("", said)
    if model.largest:
        yield from ("", "The largest batch that fits, timed alone and not by turns:", "")
        rows = [(str(Variant(x.policy, x.xla)), _whole(x.batch), _speed(x.throughput), x.reason) for x in model.largest]
        yield from table(("variant", "batch", f"{model.unit} a second", "remark"), rows)
        yield from _gain_by_batch(model)


def reasons(model: Measured) -> Iterator[str]:
    """Why variants did not run, those with the same reason together; an empty line before each."""
    said: dict[str, list[str]] = {}
    for row in model.rows:
        if row.status != OK:
            said.setdefault(f"{row.status}: {row.reason}", []).append(str(row.variant))
    for reason, variants in said.items():
        yield from ("", f"{'; '.join(variants)}: {reason}.")


def _memory(row: Row) -> str:
    return "" if row.memory_bytes is None else f"{row.memory_bytes / 2**20:,.0f} MiB"


def _gain_by_batch(model: Measured) -> Iterator[str]:
    """The ratio with a batch that grew along, apart from the ratio at the same batch."""
    first, last = model.largest[0], model.largest[-1]
    if first is not last and first.throughput and last.throughput and first.batch and last.batch:
        both = f"{last.policy} at batch {last.batch:,} against {first.policy} at batch {first.batch:,}"
        yield from (
            "",
            f"With the largest batch of each, {both}: {last.throughput / first.throughput:.2f} times as fast.",
        )


def _whole(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _speed(number: float | None) -> str:
    return "" if number is None else f"{number:,.4g}"


def remarks(model: Measured) -> Iterator[str]:
    """What would make a row worth less than it looks; an empty line before each."""
    ran = [row for row in model.rows if row.status == OK]
    if skipped := [row for row in ran if row.updates is not None and row.updates < row.steps]:
        each = "; ".join(f"{row.variant}: {row.steps - row.updates} of {row.steps}" for row in skipped)
        yield from ("", f"Steps that loss scaling skipped, whose update costs nothing: {each}.")
    if odd := [str(row.variant) for row in ran if row.loss is None]:
        yield from ("", f"The loss was not finite under {', '.join(odd)}.")
    if over := [str(row.variant) for row in ran if (row.share_of_ceiling or 0) > 1]:
        says = "the machine was busier while the ceilings were measured, so no share of a ceiling counts here"
        yield from ("", f"Faster than its ceiling: {', '.join(over)}; {says}.")
    if any(one.high > WIDE * one.low for one in model.ratios):
        says = "other programs were probably running. Measure again on an idle machine, or with more turns"
        yield from ("", f"Some intervals reach over more than a factor of {WIDE}: {says}.")
    if ran and min(len(row.seconds) for row in ran) < 6:
        yield from ("", "With fewer than 6 turns an interval is the whole range of the ratios.")


def _parts(parts: Parts) -> Iterator[str]:
    variant = Variant(parts.policy, parts.xla)
    if parts.shares and parts.step_seconds:
        milliseconds = f"{1000 * parts.step_seconds:.4g} ms with its batch on the host"
        yield f"Where a step of {variant} ({milliseconds}) spends its time:"
        yield ""
        rows = [(x.name, f"{x.share:.1%}", _interval(x.low, x.high), x.how) for x in parts.shares]
        yield from table(("part", "share", "95 % interval", "how it is known"), rows)
    if parts.fit_over_custom is not None and parts.fit_low is not None and parts.fit_high is not None:
        yield ""
        interval = f"({parts.fit_low:.3f} to {parts.fit_high:.3f})"
        yield f"`fit` takes {parts.fit_over_custom:.3f} {interval} times as long for a step as the custom loop, both "
        yield "with the batch from the host."
    for reason in parts.reasons:
        yield from ("", f"Not measured: {reason}.")


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1%} to {high:.1%}"


def gains(report: Report, model: Measured) -> str:
    """Amdahl's law on what was measured: what the matrix products' gain alone would give, and what there was."""
    if len(model.parts) != 2 or not all(one.shares for one in model.parts):
        return ""
    base, best = model.parts
    ceilings = report.sessions[base.session].ceilings
    before, after = ceilings.of(CEILING[base.policy]), ceilings.of(CEILING[best.policy])
    there = model.ratio(Variant(best.policy, best.xla), Variant(base.policy, base.xla))
    share = sum(x.share for x in base.shares if x.name in (MATRICES, REST))
    if not before or not after or there is None or not 0 < share < 1:
        return ""
    bound = amdahl(share, after / before)
    times = f"{after / before:.2f} times as fast"
    return (
        f"Amdahl's law: of the step of {base.policy}, {share:.0%} is neither optimizer nor normalisation nor handing "
        f"over. If all that became {times}, as the matrix products do here, the step would become "
        f"{bound:.2f} times as fast; measured: {ratio(there)}."
    )
