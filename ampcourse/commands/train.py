"""`ampcourse train`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ampcourse.commands.options import Place, Whole, nearest
from ampcourse.quiet import quietly
from ampcourse.terminal import say
from ampcourse.training.catalogue import MODELS
from ampcourse.training.config import LOOPS, OPTIMIZERS, POLICIES, SCHEDULES, Config
from ampcourse.training.errors import TrainingError

RUNS = Path("runs")
STOPPED = 1  # the exit code of a run that the gradient monitor ended


class Known(click.ParamType):
    """A word out of a list that is read when it is needed; completes to it."""

    def __init__(self, what: str, words: Callable[[], dict[str, str]]) -> None:
        self.name, self.words = what, words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word; an unknown one is a usage error with a suggestion."""
        known = list(self.words())
        if value not in known:
            end = nearest(str(value), known) or f"; choose from: {', '.join(known)}."
            raise click.UsageError(f"There is no {self.name} '{value}'{end}", ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words that begin with what was typed."""
        return [CompletionItem(word, help=says) for word, says in self.words().items() if word.startswith(incomplete)]


class Number(click.types.FloatParamType):
    """Which numbers an option may be, the configuration says."""

    name = "number"


def _models() -> dict[str, str]:
    return {name: entry.title for name, entry in MODELS.items()}


def _data() -> dict[str, str]:
    from ampcourse.data import sources

    return {name: source.title for name, source in sources().items()}


DEFAULTS = {field.name: field.default for field in dataclasses.fields(Config)}


def _option(name: str, says: str, **settings: Any) -> Callable[[Any], Any]:
    """An option for a field of `Config`. It has no default here, so that one that was typed can be told apart."""
    default = DEFAULTS[name]
    shown = "" if default in (None, False) else f" [default: {default:g}]" if not isinstance(default, str) else None
    shown = f" [default: {default}]" if shown is None else shown
    return click.option(f"--{name.replace('_', '-')}", name, default=None, help=says + shown, **settings)


class Train(click.Command):
    """Lists the models and the data at the end of the help; reading the data's list costs time, so only then."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Two lists."""
        for title, words in (("Models", _models()), ("Data", _data())):
            with formatter.section(title):
                formatter.write_dl(list(words.items()))


@click.command(cls=Train, short_help="Train a model in mixed precision.")
@click.argument("model", metavar="[MODEL]", type=Known("model", _models), required=False)
@_option("data", "The pictures; see below.", metavar="NAME", type=Known("data set", _data))
@_option("policy", "What is computed in which dtype.", type=click.Choice(POLICIES))
@_option("batch", "Pictures in one pass, over all devices.", metavar="N", type=Whole(min=1))
@_option("epochs", "Passes over the pictures.", metavar="N", type=Whole(min=1))
@_option("steps", "Stop after this many updates.", metavar="N", type=Whole(min=1))
@_option("optimizer", "SGD with momentum, or AdamW.", type=click.Choice(list(OPTIMIZERS)))
@_option("learning_rate", "The highest; default: the optimizer's.", metavar="X", type=Number())
@_option("warmup", "Epochs in which the learning rate grows.", metavar="X", type=Number())
@_option("schedule", "How it goes on.", type=click.Choice(SCHEDULES))
@_option("weight_decay", "Decoupled; on matrices and filters alone.", metavar="X", type=Number())
@_option("momentum", "Of SGD; AdamW's beta_1.", metavar="X", type=Number())
@_option("label_smoothing", "Share of the target spread over all classes.", metavar="X", type=Number())
@_option("clip", "The highest global norm of the gradients.", metavar="X", type=Number())
@_option("accumulate", "Batches whose gradients make one update.", metavar="N", type=Whole(min=1))
@_option("ema", "Decay of the moving average of the weights; 0 is none.", metavar="X", type=Number())
@_option("loss_scale", "Where the loss scale begins (mixed_float16).", metavar="X", type=Number())
@_option("xla", "Compile the step with XLA.", is_flag=True, flag_value=True, type=bool)
@_option("loop", "Keras's fit, or the loop written out.", type=click.Choice(LOOPS))
@_option("seed", "Of weights, order and augmentation.", metavar="N", type=Whole(min=0, max=2**31 - 1))
@_option("deterministic", "The same bits in every run; slower on a GPU.", is_flag=True, flag_value=True, type=bool)
@_option("devices", "Devices that share each batch; 0: every GPU.", metavar="N", type=Whole(min=0))
@_option("size", "Height and width of the pictures in pixels.", metavar="N", type=Whole(min=8))
@_option("limit", "Use only this many training pictures.", metavar="N", type=Whole(min=1))
@_option("checkpoint_every", "Updates between two checkpoints.", metavar="N", type=Whole(min=1))
@click.option("--no-monitor", is_flag=True, help="Do not watch the gradients.")
@click.option("--download", is_flag=True, help="Fetch the data from the network if it is not here.")
@click.option("--out", metavar="DIR", type=Place(), help="Checkpoints and logs; default: runs/MODEL-DATA-POLICY.")
@click.option("--resume", is_flag=True, help="Go on with the run in DIR, with its own settings.")
@click.option("--fresh", is_flag=True, help="Throw away the run that is in DIR.")
def train(
    model: str | None,
    out: Path | None,
    resume: bool,
    fresh: bool,
    download: bool,
    no_monitor: bool,
    **options: Any,
) -> int:
    """Train MODEL on pictures, test it after every epoch, and keep checkpoints that a killed run goes on from.

    DIR gets checkpoints (the last two), config.json, log.csv, logs for TensorBoard, and at the end model.keras.
    Data that does not travel with the course is fetched only with --download. With a batch that does not fit into
    memory, the largest that does is found and named. Exit code 1 if the run collapsed or diverged.

    \b
    Examples:
      ampcourse train resnet20
      ampcourse train resnet50 --data imagenette --policy mixed_float16 --download
      ampcourse train vit_tiny --policy mixed_bfloat16 --optimizer adamw --weight-decay 0.05
      ampcourse train resnet8 --limit 5000 --epochs 6 --loop custom --out runs/first
      ampcourse train --resume --out runs/first
    """
    typed = {name: value for name, value in options.items() if value is not None}
    if no_monitor:
        typed["monitor"] = False
    if resume and fresh:
        raise click.UsageError("--resume and --fresh exclude each other.", click.get_current_context())
    config = _config(model, typed, out, resume, download)

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # warnings of TensorFlow's C++ are for those who build it
    with quietly():
        from ampcourse.training.run import train

    result = train(config, resume=resume, fresh=fresh)
    say(str(result))
    if result.out:
        say(f"Everything is in '{result.out}'.")
    return STOPPED if result.stopped else 0


def _config(model: str | None, typed: dict[str, Any], out: Path | None, resume: bool, download: bool) -> Config:
    """What was asked for; with --resume, the run's own settings, which what was typed must not contradict.

    Raises:
        UsageError: if there is neither a model nor a run to go on with.
        TrainingError: if the settings contradict each other or the run.
    """
    if model is None and not (resume and out):
        raise click.UsageError(
            f"Name a model: {', '.join(MODELS)}; or a run to go on with: --resume --out DIR.",
            click.get_current_context(),
        )
    named = typed if model is None else typed | {"model": model}
    if out is None:
        parts = (named.get(name, DEFAULTS[name]) for name in ("model", "data", "policy"))
        out = RUNS / "-".join(parts)
    if not resume:
        return Config(**named, out=str(out), download=download)
    stored = Config.load(out).replace(out=str(out), download=download)
    if different := stored.replace(**named).differences(stored):
        raise TrainingError(
            f"The run in '{out}' is another one ({'; '.join(different)}): leave these options out, or name another "
            "folder with --out."
        )
    return stored.replace(**named)
