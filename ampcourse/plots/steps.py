"""A picture of one training step: which of its parts are kept in which dtype."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Patch

from ampcourse.numerics import get_format
from ampcourse.plots.style import PALETTE, Picture, drawn, new_figure
from ampcourse.plots.words import listed

# Height of a box and how it is filled: fewer bits make a lower box, and no box differs by colour alone.
_LOOKS = {
    32: (0.9, PALETTE["sky blue"], ""),
    19: (0.7, PALETTE["yellow"], "\\\\"),
    16: (0.5, PALETTE["orange"], "//"),
    8: (0.3, PALETTE["purple"], "xx"),
}
MOST_STAGES = 6


@drawn
def step_dtypes(stages: Mapping[str, Any]) -> Picture:
    """One training step as a row of boxes, each with its dtype; the last leads back to the first.

    Args:
        stages: name of each part to its dtype, in the order of the step: 2 to 6 of them, such as
            `{"weights": "float32", "output": "float16", "loss": "float32", "gradient": "float32"}`.

    Raises:
        ValueError: for a dtype that is no format, or too few or too many stages.
    """
    if not isinstance(stages, Mapping) or not 2 <= len(stages) <= MOST_STAGES:
        raise ValueError(f"Give 2 to {MOST_STAGES} parts of a step as a dictionary from name to dtype.")
    parts = [(str(name), get_format(str(dtype))) for name, dtype in stages.items()]
    figure = new_figure(8.0, 2.9)
    axes = figure.subplots()
    for place, (name, fmt) in enumerate(parts):
        height, colour, hatch = _look(fmt.bits)
        box = FancyBboxPatch((place - 0.3, -height / 2), 0.6, height, boxstyle="round,pad=0.04", lw=1.2)
        box.set(facecolor=colour, edgecolor="black", hatch=hatch)
        axes.add_patch(box)
        label = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(place, 0, fmt.name, ha="center", va="center", bbox=label)
        axes.text(place, 0.62, name, ha="center", va="bottom", fontweight="bold")
    casts = [a.name != b.name for (_, a), (_, b) in pairwise(parts)]
    _arrows(axes, casts)
    axes.set(xlim=(-0.55, len(parts) - 0.45), ylim=(-1.25, 0.95), xticks=[], yticks=[])
    axes.set_axis_off()
    axes.set_title("One training step, and the dtype of each part")
    sizes = sorted({fmt.bits for _, fmt in parts}, reverse=True)
    handles = [Patch(facecolor=_look(b)[1], edgecolor="black", hatch=_look(b)[2], label=f"{b} bits") for b in sizes]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, handlelength=2.4, handleheight=1.1)
    words = listed(f"{name} in {fmt.name}" for name, fmt in parts)
    changes = f"The dtype changes {sum(casts)} times on the way, and the last part updates the first."
    return Picture(figure, f"One training step as a row of boxes, one a part: {words}. {changes}")


def _look(bits: int) -> tuple[float, str, str]:
    """The look of the nearest size that is not smaller."""
    return _LOOKS[min((size for size in _LOOKS if size >= bits), default=32)]


def _arrows(axes: Axes, casts: list[bool]) -> None:
    """From each box to the next, named where the dtype changes, and one back from the last to the first."""
    arrow = {"arrowstyle": "-|>", "color": "black", "lw": 1.3, "shrinkA": 0, "shrinkB": 0}
    for place, cast in enumerate(casts):
        axes.annotate("", (place + 0.65, 0), (place + 0.35, 0), arrowprops=arrow)
        if cast:
            axes.text(place + 0.5, 0.08, "cast", ha="center", va="bottom", fontsize=10)
    last = len(casts)
    axes.plot([last, last, 0], [-0.5, -0.95, -0.95], color="black", lw=1.3, solid_joinstyle="miter")
    axes.annotate("", (0, -0.5), (0, -0.96), arrowprops=arrow)
    axes.text(last / 2, -0.99, "update", ha="center", va="top", fontsize=10)
