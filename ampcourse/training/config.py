"""`Config`: everything that decides a training run, in one frozen dataclass, checked when it is made."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampcourse.training.errors import TrainingError

POLICIES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
OPTIMIZERS = {"sgd": 0.1, "adamw": 2e-3}  # with the learning rate that each gets if none is given
SCHEDULES = ("cosine", "constant")
LOOPS = ("fit", "custom")
FILE_NAME = "config.json"

# What may differ between a run and its continuation, because no weight hangs on it.
FREE = ("out", "download", "checkpoint_every", "monitor")


@dataclass(frozen=True)
class Config:
    """One training run.

    Attributes:
        model: a name of `training.models()`.
        data: a name of `ampcourse.data.sources()`.
        policy: "float32" (TF32 off), "tf32" (float32 with TF32 matrix products on GPUs that have them),
            "mixed_float16" (with dynamic loss scaling) or "mixed_bfloat16".
        batch: pictures in one forward and backward pass, over all devices together.
        epochs: passes over the training pictures.
        steps: stop after this many updates, whatever `epochs` says; the schedule then ends there too.
        optimizer: "sgd" (with momentum) or "adamw".
        learning_rate: the highest of the schedule; None takes the optimizer's own default.
        warmup: epochs in which the learning rate grows in a straight line; at most half of the run.
        schedule: "cosine" (down to 0 at the end) or "constant".
        weight_decay: decoupled, multiplied by the learning rate; not on biases, normalizations and places.
        momentum: of SGD; AdamW has its beta_1 from it.
        label_smoothing: the share of the target that is spread over all classes.
        clip: the highest global norm of the gradients, after unscaling; None does not clip.
        accumulate: batches whose gradients are averaged for one update.
        ema: decay of the exponential moving average of the weights, which is then what is tested; 0 is none.
        loss_scale: where the dynamic loss scale begins under mixed_float16.
        xla: whether the step is compiled by XLA. (JAX always compiles.)
        loop: "fit" (Keras's, with callbacks) or "custom" (written out). They end with the same weights, but for one
            thing: where one of several accumulated batches overflows, fit leaves out that batch, custom the update.
        seed: of the weights, the order of the pictures and their augmentation.
        deterministic: use only operations that give the same bits in every run; slower on a GPU.
        devices: how many devices share each batch; 0 takes every GPU there is.
        size: height and width of the pictures in pixels; None takes what suits the model.
        limit: use only this many training pictures; None takes all.
        download: allow the data to be fetched from the network.
        out: the folder for checkpoints and logs; None writes nothing.
        checkpoint_every: updates between two checkpoints within an epoch; there is one at the end of every epoch.
        monitor: watch the gradients, and stop a run that has collapsed or diverged.
    """

    model: str = "resnet20"
    data: str = "fashion_mnist_subset"
    policy: str = "float32"
    batch: int = 64
    epochs: int = 15
    steps: int | None = None
    optimizer: str = "sgd"
    learning_rate: float | None = None
    warmup: float = 1.0
    schedule: str = "cosine"
    weight_decay: float = 5e-3
    momentum: float = 0.9
    label_smoothing: float = 0.0
    clip: float | None = None
    accumulate: int = 1
    ema: float = 0.0
    loss_scale: float = 2.0**15
    xla: bool = False
    loop: str = "fit"
    seed: int = 0
    deterministic: bool = False
    devices: int = 0
    size: int | None = None
    limit: int | None = None
    download: bool = False
    out: str | None = None
    checkpoint_every: int = 500
    monitor: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", None if self.out is None else str(self.out))
        for name, kind in _KINDS.items():
            _check_kind(name, getattr(self, name), kind)
        self._check_choices()
        self._check_ranges()

    def _check_choices(self) -> None:
        from ampcourse.training.catalogue import entry

        entry(self.model)
        choices = {"policy": POLICIES, "optimizer": tuple(OPTIMIZERS), "schedule": SCHEDULES, "loop": LOOPS}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise TrainingError(f"{name} is {getattr(self, name)!r}: choose from {', '.join(known)}.")

    def _check_ranges(self) -> None:
        for name, (low, high, words) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise TrainingError(f"{name} is {value}: it must be {words}.")
        if self.warmup and self.steps is None and self.warmup >= self.epochs > 1:
            raise TrainingError(
                f"warmup is {self.warmup:g} epochs, which leaves nothing of a run of {self.epochs}: make it shorter."
            )

    @property
    def peak(self) -> float:
        """The highest learning rate of the schedule."""
        return OPTIMIZERS[self.optimizer] if self.learning_rate is None else self.learning_rate

    @property
    def keras_policy(self) -> str:
        """The name of the Keras dtype policy."""
        return "float32" if self.policy == "tf32" else self.policy

    def replace(self, **changes: Any) -> Config:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        """As text, one field a line."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], where: str = "The configuration") -> Config:
        """From named fields; those that are missing keep their defaults.

        Raises:
            TrainingError: for a field that does not exist, or a value that cannot be.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := [name for name in fields if name not in known]:
            raise TrainingError(f"{where} has a field '{unknown[0]}' that does not exist; known: {', '.join(_KINDS)}.")
        return cls(**fields)

    @classmethod
    def load(cls, folder: Path) -> Config:
        """The configuration of the run in a folder.

        Raises:
            TrainingError: if there is none, or it cannot be read.
        """
        path = Path(folder) / FILE_NAME
        try:
            fields = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise TrainingError(f"'{folder}' holds no run to go on with: there is no {FILE_NAME} in it.") from None
        except (OSError, ValueError) as error:
            raise TrainingError(f"'{path}' cannot be read: {error}.") from None
        if not isinstance(fields, dict):
            raise TrainingError(f"'{path}' does not hold the fields of a configuration.")
        return cls.from_dict(fields, f"'{path}'")

    def differences(self, other: Config) -> list[str]:
        """The fields on which the weights hang and in which the other run differs, as "name: here, there"."""
        names = [field.name for field in dataclasses.fields(self) if field.name not in FREE]
        pairs = [(name, getattr(self, name), getattr(other, name)) for name in names]
        return [f"{name} {there!r} there, {here!r} here" for name, here, there in pairs if here != there]


_KINDS: dict[str, Any] = {
    "model": str,
    "data": str,
    "policy": str,
    "batch": int,
    "epochs": int,
    "steps": (int, None),
    "optimizer": str,
    "learning_rate": (float, None),
    "warmup": float,
    "schedule": str,
    "weight_decay": float,
    "momentum": float,
    "label_smoothing": float,
    "clip": (float, None),
    "accumulate": int,
    "ema": float,
    "loss_scale": float,
    "xla": bool,
    "loop": str,
    "seed": int,
    "deterministic": bool,
    "devices": int,
    "size": (int, None),
    "limit": (int, None),
    "download": bool,
    "out": (str, None),
    "checkpoint_every": int,
    "monitor": bool,
}
_BELOW_ONE = math.nextafter(1.0, 0.0)
_ABOVE_ZERO = math.nextafter(0.0, 1.0)
_RANGES = {
    "batch": (1, 2**24, "a whole number from 1"),
    "epochs": (1, 100_000, "a whole number from 1 to 100,000"),
    "steps": (1, 2**31 - 1, "a whole number from 1"),
    "learning_rate": (_ABOVE_ZERO, 1e6, "above 0"),
    "warmup": (0.0, 100_000.0, "0 or more epochs"),
    "weight_decay": (0.0, 1e3, "0 or more"),
    "momentum": (0.0, _BELOW_ONE, "from 0 to below 1"),
    "label_smoothing": (0.0, _BELOW_ONE, "from 0 to below 1"),
    "clip": (_ABOVE_ZERO, 1e30, "above 0"),
    "accumulate": (1, 100_000, "a whole number from 1"),
    "ema": (0.0, _BELOW_ONE, "from 0 (none) to below 1"),
    "loss_scale": (1.0, 2.0**60, "from 1 to 2**60"),
    "seed": (0, 2**31 - 1, "a whole number from 0 to 2**31 - 1"),
    "devices": (0, 1024, "0 (every GPU) or a number of devices"),
    "size": (8, 4096, "a whole number of pixels from 8 to 4096"),
    "limit": (1, 2**31 - 1, "a whole number from 1"),
    "checkpoint_every": (1, 2**31 - 1, "a whole number from 1"),
}


def _check_kind(name: str, value: Any, kind: Any) -> None:
    """Whole numbers pass for numbers; True does not pass for 1."""
    kind, optional = (kind[0], True) if isinstance(kind, tuple) else (kind, False)
    if value is None and optional:
        return
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        words = {str: "a word", int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise TrainingError(f"{name} is {value!r}: it must be {words}.")
    if kind is float and not math.isfinite(value):
        raise TrainingError(f"{name} is {value!r}: it must be a finite number.")
