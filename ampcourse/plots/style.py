"""What all plots share: a colour-blind safe palette, a fixed look, and the picture that carries its words along.

Figures are built with matplotlib's object interface, never with pyplot: nothing is registered globally, so nothing
stays open and no notebook shows a picture twice.
"""

from __future__ import annotations

import base64
import functools
import html
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ampcourse.plots.words import raised

# Okabe and Ito, "Color Universal Design" (2008): told apart with every common kind of colour vision.
PALETTE = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky blue": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
}
GREY = "#5F5F5F"
DPI = 110
COLOURS = 128  # in a PNG: eight colours, and the shades at the edges of letters and lines
STYLE = {
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "grid.color": "#D9D9D9",
    "hatch.linewidth": 0.5,
    "lines.linewidth": 2.0,
}


@dataclass(frozen=True)
class Stroke:
    """How one series is drawn: colour, dashes and marker all differ, so any one of them is enough."""

    colour: str
    dashes: Any
    marker: str


STROKES = (
    Stroke(PALETTE["blue"], "-", "o"),
    Stroke(PALETTE["vermillion"], (0, (5, 2)), "s"),
    Stroke(PALETTE["green"], (0, (6, 2, 1, 2)), "^"),
    Stroke(PALETTE["black"], (0, (1, 1.3)), "D"),
    Stroke(PALETTE["purple"], (0, (3, 1, 1, 1, 1, 1)), "v"),
    Stroke(GREY, (0, (9, 3)), "P"),
)


class Picture:
    """A figure together with the sentence that says what it shows.

    Notebooks show it as an image; the sentence is the image's alternative text and the plain-text form.

    Attributes:
        figure: the matplotlib `Figure`.
        alt: the alternative text, with the numbers of this very figure.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        self.figure = figure
        self.alt = " ".join(alt.split())
        self._png: bytes | None = None

    def __repr__(self) -> str:
        return f"Picture: {self.alt}"

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on the page, in CSS pixels."""
        width, height = self.figure.get_size_inches()
        return round(width * DPI), round(height * DPI)

    def png(self) -> bytes:
        """The figure as PNG with two device pixels for each pixel on the page, so that it is sharp on any screen.

        Its few colours are stored as a palette, a third of the size: notebooks keep every picture they show.
        """
        if self._png is None:
            pixels, stream, info = io.BytesIO(), io.BytesIO(), PngInfo()
            with _look():
                self.figure.savefig(pixels, format="rgba", dpi=2 * DPI)
            image = Image.frombytes("RGBA", self._pixels(), pixels.getvalue()).convert("RGB")
            image = _with_palette(image)
            info.add_itxt("Description", self.alt)
            image.save(stream, "PNG", pnginfo=info, compress_level=6)
            self._png = stream.getvalue()
        return self._png

    def _pixels(self) -> tuple[int, int]:
        width, height = self.figure.get_size_inches()
        return round(width * 2 * DPI), round(height * 2 * DPI)

    def html(self) -> str:
        """An `<img>` that carries the alternative text; JupyterLab and nbconvert drop the text of a bare PNG output."""
        width, height = self.size
        source = base64.b64encode(self.png()).decode()
        return (
            f'<img src="data:image/png;base64,{source}" alt="{html.escape(self.alt)}" '
            f'width="{width}" height="{height}" style="max-width: 100%; height: auto; background: white">'
        )

    def save(self, path: str | Path) -> Path:
        """Write the figure to a file; the ending chooses the format: png, svg or pdf.

        Raises:
            ValueError: if the ending is another, or the folder does not exist.
        """
        path = Path(path)
        kind = path.suffix.lower().lstrip(".")
        if kind not in ("png", "svg", "pdf"):
            raise ValueError(f"A picture cannot be saved as '{path.name}': end the name in .png, .svg or .pdf.")
        if not path.parent.is_dir():
            raise ValueError(f"The folder '{path.parent}' does not exist: create it before saving '{path.name}'.")
        if kind == "png":
            path.write_bytes(self.png())
        else:
            with _look():
                self.figure.savefig(path, metadata={"Subject" if kind == "pdf" else "Description": self.alt})
        return path

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        if os.environ.get("AMPCOURSE_PROFILE") == "grade":
            return {"text/plain": self.alt}, {}  # no grade needs a picture, and drawing takes a third of a second
        width, height = self.size
        data = {
            "image/png": base64.b64encode(self.png()).decode(),
            "text/html": self.html(),
            "text/plain": self.alt,
        }
        return data, {"image/png": {"alt": self.alt, "width": width, "height": height}}


def _with_palette(image: Image.Image) -> Image.Image:
    image = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    palette, paper = image.getpalette() or [], image.getpixel((0, 0))
    palette[3 * paper : 3 * paper + 3] = [255, 255, 255]  # the paper's shade was averaged with the edges of letters
    image.putpalette(palette)
    return image


P = ParamSpec("P")
R = TypeVar("R")


def _look() -> Any:
    """Matplotlib's defaults and ours on top, whatever style the notebook has set for its own figures."""
    return matplotlib.style.context(["default", STYLE])


def drawn(plot: Callable[P, R]) -> Callable[P, R]:
    """Draw in the course's look, and leave the notebook's own matplotlib settings as they were."""

    @functools.wraps(plot)
    def in_our_look(*args: P.args, **kwargs: P.kwargs) -> R:
        with _look():
            return plot(*args, **kwargs)

    return in_our_look


def new_figure(width: float = 8.0, height: float = 4.0, margins: dict[str, float] | None = None) -> Figure:
    """An empty figure of this size in inches.

    Args:
        width: rounded to whole pixels.
        height: rounded to whole pixels.
        margins: as `subplots_adjust` takes them; by default a layout that keeps every label inside is worked out when
            the figure is drawn, which takes as long as the drawing.
    """
    layout = None if margins else ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.07)
    figure = Figure(figsize=(round(width * DPI) / DPI, round(height * DPI) / DPI), layout=layout)
    FigureCanvasAgg(figure)
    if margins:
        figure.subplots_adjust(**margins)
    return figure


def powers_of_two(axis: Axis, ticks: int = 10) -> None:
    """Label an axis of exponents with the numbers they stand for: powers of two, wherever one is in view."""

    def label(exponent: float, _: Any) -> str:
        return raised(f"2^{exponent:g}") if exponent == round(exponent) else f"{2**exponent:.3g}"

    axis.set_major_locator(MaxNLocator(nbins=ticks, integer=True, steps=[1, 2, 4, 5, 8, 10], min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(label))


def spread(wanted: list[float], sizes: list[float], low: float = 0.0, high: float = 1.0) -> list[float]:
    """Centres for things in a row, as near as may be to where they are wanted, without overlap and inside [low, high].

    Neighbours that would overlap are packed into one block, which takes the mean place of its members.

    Args:
        wanted: where each thing would like its centre, in rising order.
        sizes: extent of each thing.
        low: where the first may begin.
        high: where the last must end; if there is not room for all, they overlap evenly.
    """
    squeeze = min(1.0, (high - low) / sum(sizes)) if sizes else 1.0
    sizes = [size * squeeze for size in sizes]
    blocks: list[list[int]] = []
    for number in range(len(wanted)):
        blocks.append([number])
        while len(blocks) > 1 and _start(blocks[-2], wanted, sizes, low, high)[1] > (
            _start(blocks[-1], wanted, sizes, low, high)[0] + 1e-12
        ):
            last = blocks.pop()
            blocks[-1] += last
    places: list[float] = []
    for block in blocks:
        at = _start(block, wanted, sizes, low, high)[0]
        for number in block:
            places.append(at + sizes[number] / 2)
            at += sizes[number]
    return places


def _start(block: list[int], wanted: list[float], sizes: list[float], low: float, high: float) -> tuple[float, float]:
    """Where a block of things begins and ends."""
    offsets, total = [], 0.0
    for number in block:
        offsets.append(wanted[number] - total - sizes[number] / 2)
        total += sizes[number]
    begin = min(max(sum(offsets) / len(offsets), low), high - total)
    return begin, begin + total


@dataclass(frozen=True)
class End:
    """The last point of a series, in data units, and the name to write beside it."""

    x: float
    y: float
    text: str
    colour: str


def label_ends(axes: Axes, ends: list[End], gap: float = 0.085) -> None:
    """Name series to the right of the axes, each joined to its last point; names that would touch move apart.

    Args:
        axes: where the series are drawn; its limits must be final.
        ends: one a series.
        gap: height of a name, as a fraction of the height of the axes.
    """
    axes.autoscale_view()  # else the limits may still be pending
    to_fraction = axes.transScale + axes.transLimits
    points = sorted(((*to_fraction.transform((end.x, end.y)).clip(0, 1), end) for end in ends), key=lambda p: p[1])
    places = spread([point[1] for point in points], [gap] * len(points), -0.03, 1.03)
    for (x, y, end), place in zip(points, places, strict=True):
        axes.annotate(
            end.text,
            xy=(x, y),
            xytext=(1.03, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            color=end.colour,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": end.colour,
                "lw": 0.8,
                "ls": "-" if x > 0.99 else ":",
                "relpos": (0.0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def name_regions(axes: Axes, edges: list[float], names: list[str], height: float, width: float = 7.0) -> None:
    """Names at the top of the axes, each over its stretch of the x axis; where that is narrow, a line leads to it.

    Args:
        axes: where to write; its limits must be final.
        edges: where the stretches begin and end, in data units: one more than names.
        names: one a stretch; stretches outside the limits go unnamed.
        height: where the names begin, as a fraction of the height of the axes.
        width: of the axes in inches, about.
    """
    low, high = axes.get_xlim()
    inside = [(max(a, low), min(b, high), name) for a, b, name in zip(edges, edges[1:], names, strict=False)]
    inside = [(a, b, name) for a, b, name in inside if b > a]
    middles = [((a + b) / 2 - low) / (high - low) for a, b, _ in inside]
    sizes = [(max(map(len, name.split("\n"))) * 5.6 + 10) / 72 / width for _, _, name in inside]
    for (a, b, name), middle, place in zip(inside, middles, spread(middles, sizes), strict=True):
        lines = 1 + name.count("\n")
        axes.text(place, height, name, transform=axes.transAxes, ha="center", va="top", fontsize=10, linespacing=1.15)
        if abs(place - middle) > (b - a) / (high - low) / 2:
            axes.annotate(
                "",
                xy=(middle, height - 0.075 * lines - 0.07),
                xytext=(place, height - 0.075 * lines),
                xycoords="axes fraction",
                arrowprops={"arrowstyle": "-", "lw": 0.8, "color": GREY, "shrinkA": 0, "shrinkB": 0},
            )
