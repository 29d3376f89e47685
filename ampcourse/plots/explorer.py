"""A slider over the loss scale for live notebooks, and a picture in its place wherever nothing can slide."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse import numerics
from ampcourse.numerics import get_format
from ampcourse.plots.gradients import (
    _gradients,
    as_scales,
    before_and_after,
    error_words,
    histogram_limits,
    histogram_words,
)
from ampcourse.plots.style import Picture, drawn
from ampcourse.plots.words import exponent_of, power

WIDGET = "application/vnd.jupyter.widget-view+json"


class Explorer:
    """A slider with its picture; where nobody can slide, the picture of the loss scale with the least error.

    Attributes:
        picture: the static `Picture`.
        scales: the loss scales that the slider offers.
        interactive: True or False to force the slider or the picture; None to find out when displayed.
    """

    def __init__(
        self, draw: Callable[[float], Picture], scales: np.ndarray, best: float, interactive: bool | None
    ) -> None:
        self._draw = draw
        self.scales = scales
        self.picture = draw(best)
        self.interactive = interactive
        self._widget: Any = None

    @property
    def alt(self) -> str:
        """The words of the static picture."""
        return self.picture.alt

    @property
    def figure(self) -> Any:
        """The static picture's matplotlib `Figure`."""
        return self.picture.figure

    def save(self, path: str | Path) -> Path:
        """Write the static picture to a file, as `Picture.save` does."""
        return self.picture.save(path)

    def __repr__(self) -> str:
        return f"Explorer: {self.alt}"

    @property
    def widget(self) -> Any:
        """The slider, its picture and its words as one ipywidget, made on first use."""
        if self._widget is None:
            self._widget = _slider(self._draw, self.scales)
        return self._widget

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = self.picture._repr_mimebundle_()
        if someone_can_slide() if self.interactive is None else self.interactive:
            data[WIDGET] = self.widget._repr_mimebundle_()[WIDGET]
        return data, metadata


def gradient_explorer(
    values: Any, format: Any = "float16", scales: Any = None, interactive: bool | None = None
) -> Explorer:
    """Move a loss scale and watch the gradients' histogram move out of the region that the format loses.

    In a live notebook: a slider, the histograms without and with the scale, and a sentence with the numbers. Where no
    one can move a slider (papermill, nbconvert, nbgrader, a printed page): the same picture at the scale with the
    least error. A notebook saved from a live session holds both, and whatever shows it takes what it can show.

    Args:
        values: gradients, any shape; a list of arrays is taken together.
        format: name or `Format` that the scaled gradients are stored in.
        scales: loss scales to choose from, rising; by default 2**0 to 2**30.
        interactive: True or False to force the slider or the picture.

    Raises:
        ValueError: if there is no finite non-zero value, the format is unknown, or the scales are not as described.
    """
    gradients, fmt = _gradients(values), get_format(format)
    scales = as_scales(2.0 ** np.arange(31) if scales is None else scales)
    fates = dict(zip(scales.tolist(), numerics.fate_by_scale(gradients, scales, fmt), strict=True))
    unscaled = numerics.fate(gradients, fmt)
    limits = histogram_limits([gradients, gradients * scales[-1]], fmt)

    @cache
    @drawn
    def draw(scale: float) -> Picture:
        figure = before_and_after(gradients, fmt, scale, limits, (unscaled, fates[scale]))
        above = f"Above, unscaled, the relative error is {error_words(unscaled.relative_error)}. Below: "
        return Picture(figure, above + histogram_words(gradients, fmt, scale, fates[scale]))

    best = min(fates, key=lambda scale: fates[scale].relative_error)
    return Explorer(draw, scales, best, interactive)


def _slider(draw: Callable[[float], Picture], scales: np.ndarray) -> Any:
    from ipywidgets import HTML, Layout, SelectionSlider, VBox

    def label(scale: float) -> str:
        k = exponent_of(scale)
        return power(scale) if k is None else f"2^{k} = {scale:,.0f}" if 0 <= k < 20 else f"2^{k}"

    slider = SelectionSlider(
        options=[(label(scale), scale) for scale in scales.tolist()],
        description="loss scale",
        description_allow_html=False,
        tooltip="Loss scale in powers of two. Arrow keys move it one step.",
        continuous_update=True,
        style={"description_width": "initial"},
        layout=Layout(width="min(720px, 95%)"),
    )
    picture, words = HTML(), HTML()

    def redraw(change: Any = None) -> None:
        shown = draw(slider.value)
        words.value = _status(shown.alt)
        picture.value = shown.html()

    slider.observe(redraw, names="value")
    redraw()
    return VBox([slider, picture, words])


def _status(words: str) -> str:
    """The words under the picture; a screen reader says them whenever they change."""
    return f'<p role="status" aria-live="polite" style="max-width: 880px; line-height: 1.4">{escape(words)}</p>'


def someone_can_slide() -> bool:
    """Whether the cell that runs now was sent by a browser or an editor that can show widgets.

    A kernel is not told who shows its output. But papermill, nbconvert, nbgrader and the terminal consoles all send
    their cells through the Python package jupyter_client, whose message ids end in process number and count
    (`<session>_<pid>_<n>`); the front ends that run in a browser use plain UUIDs.
    """
    try:
        from IPython import get_ipython

        message = get_ipython().kernel.get_parent("shell")["header"]["msg_id"]
    except (ImportError, AttributeError, KeyError, TypeError):
        return False
    return re.search(r"_\d+_\d+$", message) is None
