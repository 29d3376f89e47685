"""How many of several kinds there are, as bars with their numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ampcourse.plots.style import PALETTE, Picture, drawn, new_figure
from ampcourse.plots.words import listed

MOST = 12


@drawn
def tally(counts: Mapping[str, int], title: str, what: str = "things") -> Picture:
    """A bar for each kind, in the order given, with its number at the end.

    Args:
        counts: name of the kind to how many there are; at most twelve kinds.
        title: of the figure.
        what: what is counted, for the axis.

    Raises:
        ValueError: for no kind, too many, or a count that is not a whole number from 0 on.
    """
    if not isinstance(counts, Mapping) or not 1 <= len(counts) <= MOST:
        raise ValueError(f"Give 1 to {MOST} kinds as a dictionary from name to count.")
    numbers = list(counts.values())
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 0 for n in numbers):
        raise ValueError(f"Counts are whole numbers from 0 on, not {numbers!r}.")
    figure = new_figure(8.0, 0.9 + 0.4 * len(numbers))
    axes = figure.subplots()
    places = range(len(numbers))
    axes.barh(places, numbers, color=PALETTE["sky blue"], edgecolor="black", lw=0.6, height=0.65)
    for place, number in zip(places, numbers, strict=True):
        axes.annotate(f"{number:,}", (number, place), (6, 0), textcoords="offset points", va="center")
    axes.set(yticks=places, yticklabels=list(counts), ylim=(len(numbers) - 0.4, -0.6))
    axes.set(xlabel=f"number of {what}", xlim=(0, max(*numbers, 1) * 1.12))
    axes.tick_params(axis="y", length=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(title)
    words = listed(f"{name} {number:,}" for name, number in counts.items())
    return Picture(figure, f"{title}. Of {sum(numbers):,} {what}: {words}.")
