"""The names of the zoo, and what lies behind each."""

from __future__ import annotations

import difflib
from functools import lru_cache

from ampcourse.models.zoo.workload import SCALES, Workload, ZooError

_RESNETS = ("resnet8", "resnet20", "resnet56", "resnet50")
_VITS = ("vit_tiny", "vit_s16", "vit_b16", "vit_l16")
_OTHERS = ("bert_base", "retinanet_r50", "swin_t", "ncf", "gnmt")
Shape = tuple[int, int, int]


def names() -> tuple[str, ...]:
    """All models of the zoo; Keras is not imported."""
    return _RESNETS + _VITS + _OTHERS


def workload(name: str, scale: str = "full", *, shape: Shape | None = None, classes: int | None = None) -> Workload:
    """A model of the zoo and all that a training run of it needs; nothing is built yet.

    Args:
        name: one of `names()`.
        scale: "full" or "small".
        shape: height, width and channels of a picture, for the classifiers of pictures; None for the usual ones.
        classes: how many classes they tell apart; None for the usual number.

    Raises:
        ZooError: for a name, a scale or a shape that there is not.
    """
    if name not in names():
        close = difflib.get_close_matches(str(name).lower(), names(), 1, 0.4)
        end = f": did you mean '{close[0]}'?" if close else f"; choose from: {', '.join(names())}."
        raise ZooError(f"There is no model '{name}'{end}")
    if scale not in SCALES:
        raise ZooError(f"The scale of {name} is 'full' or 'small', not {scale!r}.")
    pictures = name in (*_RESNETS, *_VITS, "swin_t")
    if not pictures and (shape, classes) != (None, None):
        raise ZooError(f"{name} is no classifier of pictures: leave out shape and classes.")
    return _made(name, scale, None if shape is None else tuple(shape), classes)


@lru_cache
def _made(name: str, scale: str, shape: Shape | None, classes: int | None) -> Workload:
    # Inside, because the modules need Keras or each other.
    from ampcourse.models.zoo import bert, gnmt, ncf, pictures, retinanet

    if name in _VITS:
        return pictures.vit(name, scale, shape, classes)
    if name == "resnet50":
        return pictures.resnet50(scale, shape, classes)
    if name in _RESNETS:
        return pictures.small_resnet(int(name.removeprefix("resnet")), scale, shape, classes)
    if name == "swin_t":
        return pictures.swin(scale, shape, classes)
    return {"bert_base": bert, "retinanet_r50": retinanet, "ncf": ncf, "gnmt": gnmt}[name].workload(scale)
