"""The models that `train` knows by name, and the size of picture that each wants. Imports no Keras until one is built.

The networks themselves are written out in `ampcourse.models`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ampcourse.training.errors import TrainingError

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Entry:
    """One model: what it is called in words, how it is built, and which pictures it takes.

    Attributes:
        title: for people.
        build: from the shape of a picture and the number of classes to a model under the global dtype policy.
        multiple: height and width must be multiples of this many pixels.
        large: the side, in pixels, to which larger pictures are cut; None leaves them as they are.
    """

    title: str
    build: Callable[[Shape, int], Any]
    multiple: int = 1
    large: int = 64


def _small_resnet(depth: int) -> Callable[[Shape, int], Any]:
    def build(shape: Shape, classes: int) -> Any:
        from ampcourse.models.resnet import small_resnet

        return small_resnet(depth, shape, classes)

    return build


def _resnet50(shape: Shape, classes: int) -> Any:
    from ampcourse.models.resnet import resnet50

    return resnet50(shape, classes)


def _vit(size: str, **settings: Any) -> Callable[[Shape, int], Any]:
    def build(shape: Shape, classes: int) -> Any:
        from ampcourse.models.vit import vit

        return vit(size, shape, classes, **settings)

    return build


MODELS = {
    "resnet8": Entry("ResNet-8 for small pictures", _small_resnet(8)),
    "resnet20": Entry("ResNet-20 for small pictures", _small_resnet(20)),
    "resnet56": Entry("ResNet-56 for small pictures", _small_resnet(56)),
    "resnet50": Entry("ResNet-50 v1.5", _resnet50, 32, 224),
    "vit_tiny": Entry("ViT with a stem of convolutions, patches of 4", _vit("tiny", stem="convolutions"), 4),
    "vit_s16": Entry("ViT-S/16", _vit("s16"), 16, 224),
    "vit_b16": Entry("ViT-B/16", _vit("b16"), 16, 224),
    "vit_l16": Entry("ViT-L/16", _vit("l16"), 16, 224),
}


def models() -> tuple[str, ...]:
    """The names of the models that can be trained on pictures."""
    return tuple(MODELS)


def entry(name: str) -> Entry:
    """One model by name.

    Raises:
        TrainingError: if there is none; the sentence suggests the nearest name.
    """
    if name in MODELS:
        return MODELS[name]
    near = difflib.get_close_matches(name, MODELS, n=1, cutoff=0.5)
    end = f"did you mean '{near[0]}'?" if near else f"choose from: {', '.join(MODELS)}."
    raise TrainingError(f"No model for pictures is called '{name}'; {end}")


def picture_side(name: str, side: int) -> int:
    """The height and width, in pixels, that pictures of `side` pixels are brought to for a model.

    Small pictures keep their size or grow to the next multiple that the model can divide; large ones are scaled down.
    """
    known = entry(name)
    wanted = min(side, known.large)
    return -(-wanted // known.multiple) * known.multiple
