"""`ampcourse bench`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ampcourse.bench.plan import DEVICES, FEWEST_TURNS, MOST_TURNS, POLICIES, SCALES, Plan
from ampcourse.commands.options import Place, Whole, nearest
from ampcourse.quiet import quietly
from ampcourse.terminal import say, table, waiting

OUT = Path("results-bench")
SWITCHES = {"on": True, "off": False}


def _models() -> Sequence[str]:
    from ampcourse.models.zoo import names

    return names()


class Several(click.ParamType):
    """Words out of a list, with commas between them; completes the last."""

    def __init__(self, what: str, words: Callable[[], Sequence[str]]) -> None:
        self.name, self.words = what, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Each word once; an unknown one is a usage error with a suggestion."""
        known, given = list(self.words()), [word.strip() for word in str(value).split(",") if word.strip()]
        if not given:
            raise click.UsageError(f"No {self.name} was named: choose from {', '.join(known)}.", ctx)
        for word in given:
            if word not in known:
                end = nearest(word, known) or f"; choose from: {', '.join(known)}."
                raise click.UsageError(f"There is no {self.name} '{word}'{end}", ctx)
        return tuple(dict.fromkeys(given))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What was typed up to the last comma, and every word that may follow."""
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        fitting = [word for word in self.words() if word.startswith(last) and word not in taken]
        return [CompletionItem(f"{before}{comma}{word}") for word in fitting]


class Positive(click.FloatRange):
    """A number above 0."""

    name = "number above 0"

    def __init__(self, highest: float) -> None:
        super().__init__(min=0, max=highest, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; NaN, which lies in every range for click, is refused."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a {self.name}.", param, ctx)
        return number


@click.command(short_help="Measure what mixed precision and XLA gain here.")
@click.option(
    "--models", metavar="NAME,...", type=Several("model", _models), help="What to train; default: by the device."
)
@click.option(
    "--policies",
    metavar="NAME,...",
    type=Several("policy", lambda: POLICIES),
    help=f"Some of {', '.join(POLICIES)}; default: all. In float32, TF32 is off.",
)
@click.option(
    *("--xla", "switches"),
    metavar="on,off",
    type=Several("setting of XLA", lambda: tuple(SWITCHES)),
    help="With XLA, without, or both (default). JAX always compiles.",
)
@click.option("--device", type=click.Choice(DEVICES), default="auto", show_default=True, help="Where to run.")
@click.option("--scale", type=click.Choice(SCALES), help="Full size or cut down; default: full on a GPU, else small.")
@click.option("--batch", metavar="N", type=Whole(1, 2**20), help="Samples a step; default: by the model.")
@click.option(
    "--turns", metavar="N", type=Whole(FEWEST_TURNS, MOST_TURNS), default=Plan.turns, show_default=True,
    help="How often each variant has its turn.",
)  # fmt: skip
@click.option(
    "--turn-seconds", metavar="S", type=Positive(3600), default=Plan.turn_seconds, show_default=True,
    help="About how long a turn is.",
)  # fmt: skip
@click.option("--parts/--no-parts", default=True, help="Also where a step's time goes, and 'fit'.  [default: parts]")
@click.option("--largest/--no-largest", default=None, help="Also the largest batch; default: on a GPU only.")
@click.option("--minutes", metavar="M", type=Positive(10_000), help="Begin nothing new after this time.")
@click.option("--out", metavar="DIR", type=Place(), help=f"Results, report and pictures; default: {OUT}.")
@click.option("--fresh", is_flag=True, help="Measure again what DIR holds already.")
@click.option("--show", is_flag=True, help="Measure nothing: show what DIR holds, and draw it anew.")
@click.option("--compare", "beside", is_flag=True, help="Put published numbers and their sources beside.")
@click.option("--seed", metavar="N", type=Whole(0, 2**32 - 1), default=0, show_default=True)
def bench(
    models: tuple[str, ...] | None,
    policies: tuple[str, ...] | None,
    switches: tuple[str, ...] | None,
    out: Path | None,
    show: bool,
    beside: bool,
    **options: Any,
) -> int:
    """Measure side by side what a dtype policy and XLA gain on this machine.

    First the machine's ceilings: matrix products in each dtype, and a copy. Then each model trains under each policy,
    with and without XLA, by turns, so that a busy moment strikes all alike. DIR gets results.json, report.md and
    pictures, saved after each model; an interrupted run goes on where it stopped. What cannot run here is a row with
    its reason. On a CPU this takes a few minutes, and says little about a GPU.

    \b
    Examples:
      ampcourse bench
      ampcourse bench --models resnet50,vit_b16 --device gpu --out results-bench-gpu
      ampcourse bench --models resnet8 --policies float32,mixed_bfloat16 --xla on --turns 15
      ampcourse bench --show --compare
    """
    from ampcourse.bench import load

    out = out or OUT
    if show:
        report = load(out)
    else:
        plan = Plan(
            models=models or (),
            policies=policies or POLICIES,
            xla=tuple(SWITCHES[one] for one in switches or ("off", "on")),
            out=out,
            **options,
        )
        report = _measure(plan)
    _draw(report, out)
    _print(report, beside, models or ())
    if not report.finished:
        say("Not finished: the time was up, or the run was stopped. The same command goes on.")
    say(f"The whole report is in '{out / 'report.md'}'.")
    return 0 if report.finished else 1


def _measure(plan: Plan) -> Any:
    from ampcourse.bench import run
    from ampcourse.bench.engine import choose

    with quietly():  # TensorFlow and CUDA greet on stderr
        engine = choose()
        engine.device(plan.device)
    with waiting("the benchmark begins") as change:
        return run(plan, engine=engine, say=change)


def _draw(report: Any, out: Path) -> None:
    from ampcourse.bench.drawings import save
    from ampcourse.bench.page import markdown
    from ampcourse.reproduce.files import write

    write(out / "report.md", markdown(report))
    with quietly():  # matplotlib may build its list of fonts
        save(report, out)


def _print(report: Any, beside: bool, models: Sequence[str]) -> None:
    from ampcourse.bench import compare, page

    for session in report.sessions:
        say(f"{session.device}, {page.BACKENDS[session.backend]}, {session.started}")
        table(("ceiling", "best", "median"), list(page.ceiling_rows(session.ceilings)))
    for model in report.models:
        say()
        say(f"{model.title} ({model.name}, {model.scale}): {model.batch} {model.unit} a step")
        table(page.COLUMNS, list(page.variant_rows(model)))
        for line in (*page.reasons(model), *page.remarks(model)):
            if line:
                say(line)
    say()
    say(page.BASELINES)
    if any(session.kind == "cpu" for session in report.sessions):
        say()
        say(page.CPU_MEANS)
    if beside:
        say()
        say(compare(report, models))
    say()
