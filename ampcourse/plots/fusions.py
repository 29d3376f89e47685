"""A picture of one XLA fusion: what goes in, the operations inside, and what comes out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle

from ampcourse.plots.layers import Box, arrange
from ampcourse.plots.style import GREY, PALETTE, Picture, drawn, new_figure
from ampcourse.plots.words import listed

MOST_OPS, MOST_INPUTS = 12, 6
"""What is drawn one by one; in a larger fusion the first operations, and the last inputs, share one box each."""
_WIDTH, _ROW, _HEIGHT, _ABOVE, _BELOW = 8.0, 0.66, 0.40, 0.5, 0.95  # inches
_LETTER, _PADDING = 0.084, 0.18
_LOOKS = {64: (PALETTE["green"], "||"), 32: (PALETTE["sky blue"], ""), 16: (PALETTE["orange"], "//")}
_LOOKS[8] = (PALETTE["purple"], "xx")
_INPUT, _INSIDE, _OUTPUT = range(3)
_MORE_OPS, _MORE_INPUTS = "/operations", "/inputs"
_THROUGH = ("broadcast", "reshape", "bitcast", "get-tuple-element")
_HIDDEN = (*_THROUGH, "constant", "parameter", "tuple")
_SHAPING = ("reduce", "dot", "convolution", "transpose", "slice", "dynamic-slice", "pad", "concatenate", "gather")


@dataclass(frozen=True)
class _Node:
    """One box: its text, the size of its numbers in bits, and the part of the picture where it stands."""

    text: str
    bits: int
    part: int


@drawn
def fusion(fusion: Any) -> Picture:
    """One fusion of a compiled function: its inputs above, the operations inside one frame, the result below.

    Args:
        fusion: one of the fusions that `amp.hlo(...)` found, such as `amp.hlo(f, x).largest_fusion`.

    Raises:
        ValueError: for anything that is not a fusion.
    """
    if not all(hasattr(fusion, name) for name in ("inside", "ops", "inputs", "bytes_moved", "bytes_alone")):
        raise ValueError(f"This is no fusion but {type(fusion).__name__}: give one of hlo(...).fusions.")
    nodes, edges = _graph(fusion)
    boxes = [Box(key, _room(node.text), node.part) for key, node in nodes.items()]
    layout = arrange(boxes, edges, _WIDTH - 0.5)
    height = layout.rows * _ROW + _ABOVE + _BELOW
    figure = new_figure(_WIDTH, height, {"left": 0, "right": 1, "bottom": 0, "top": 1})
    axes = figure.subplots()
    axes.set(xlim=(0, _WIDTH), ylim=(0, height))
    axes.set_axis_off()
    title = f"The fusion {_short(fusion.name, 60)}"
    figure.suptitle(title, x=0.2 / _WIDTH, y=1 - 0.28 / height, ha="left", va="center", fontsize=13)
    axes.text(0.2, 0.68, _traffic(fusion), va="center", fontsize=11)

    def at(place: tuple[int, float]) -> tuple[float, float]:
        return place[1] + 0.25, height - _ABOVE - (place[0] + 0.5) * _ROW

    middles = {key: at(place) for key, place in layout.place.items()}
    _frame(axes, [middles[key][1] for key, node in nodes.items() if node.part == _INSIDE])
    for (start, end), bends in layout.bends.items():
        _arrow(axes, [middles[start], *map(at, bends), middles[end]])
    for box in boxes:
        _draw(axes, nodes[box.key], middles[box.key], box.width)
    sizes = sorted({node.bits for node in nodes.values()}, reverse=True)
    handles = [Patch(facecolor=_look(b)[0], hatch=_look(b)[1], edgecolor="black", label=f"{b} bits") for b in sizes]
    figure.legend(handles=handles, loc="lower left", ncols=5, handlelength=2.4, handleheight=1.1)
    return Picture(figure, _words(fusion))


def _graph(fusion: Any) -> tuple[dict[str, _Node], list[tuple[str, str]]]:
    """The boxes, from above to below, and the arrows between them."""
    shown = [i for i in fusion.inside if i.opcode not in _HIDDEN or (i.root and i.opcode != "tuple")]
    first, shown = shown[: max(0, len(shown) - MOST_OPS)], shown[-MOST_OPS:]
    box_of = {i.name: _MORE_OPS for i in first} | {i.name: i.name for i in shown}
    nodes, parameters = {}, [i for i in fusion.inside if i.opcode == "parameter"]
    for number, parameter in enumerate(parameters):
        few = len(parameters) <= MOST_INPUTS or number < MOST_INPUTS - 1
        box_of.setdefault(parameter.name, parameter.name if few else _MORE_INPUTS)
        nodes.setdefault(box_of[parameter.name], _Node(f"input\n{_array(parameter)}", _bits(parameter.dtype), _INPUT))
    if _MORE_INPUTS in nodes:
        rest = sum(name == _MORE_INPUTS for name in box_of.values())
        nodes[_MORE_INPUTS] = _Node(f"{rest} more\ninputs", max(node.bits for node in nodes.values()), _INPUT)
    if first:
        nodes[_MORE_OPS] = _Node(f"{len(first)} operations\nbefore these", _bits(first[-1].dtype), _INSIDE)
    nodes |= {i.name: _Node(_label(i), _bits(i.dtype), _INSIDE) for i in shown}
    edges = [(box_of[s], box_of[i.name]) for i in (*first, *shown) for s in _sources(i) if s in box_of]
    for number, result in enumerate(_results(fusion.inside)):
        if result.name in box_of:
            nodes[f"result {number}"] = _Node(f"result\n{_array(result)}", _bits(result.dtype), _OUTPUT)
            edges.append((box_of[result.name], f"result {number}"))
    return nodes, [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]


def _results(inside: tuple[Any, ...]) -> list[Any]:
    (root,) = [i for i in inside if i.root] or inside[-1:]
    return list(root.operands[:MOST_INPUTS]) if root.opcode == "tuple" else [root]


def _behind(instruction: Any) -> Any:
    """The instruction itself, or the one whose result it only spreads out or re-labels."""
    while instruction.opcode in _THROUGH and instruction.operands:
        instruction = instruction.operands[0]
    return instruction


def _sources(instruction: Any) -> list[str]:
    return [_behind(operand).name for operand in instruction.operands]


def _label(i: Any) -> str:
    """An operation as few words: with the constant that it takes, the dtype that it changes to, or its new shape."""
    if i.opcode == "convert":
        return f"convert to\n{i.dtype}"
    numbers = [_behind(o).literal for o in i.operands if _behind(o).opcode == "constant" and _behind(o).shape == ()]
    what = " ".join([i.opcode, *map(_number, numbers)])
    return f"{what}\nto {_shape(i)}" if i.opcode in _SHAPING else what


def _number(literal: str) -> str:
    try:
        return f"{float(literal):.4g}"
    except ValueError:
        return _short(literal, 10)


def _array(i: Any) -> str:
    return f"{i.dtype} {_shape(i)}".strip()


def _shape(i: Any) -> str:
    return "×".join(map(str, i.shape)) if i.shape else "one number"


def _bits(dtype: str) -> int:
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 8


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _room(text: str) -> float:
    """The width of a box, in inches."""
    return max(map(len, text.split("\n"))) * _LETTER + _PADDING


def _look(bits: int) -> tuple[str, str]:
    return _LOOKS[min((size for size in _LOOKS if size >= bits), default=64)]


def _draw(axes: Axes, node: _Node, middle: tuple[float, float], width: float) -> None:
    x, y = middle
    style = "round,pad=0,rounding_size=0.12" if node.part == _INSIDE else "square,pad=0"
    box = FancyBboxPatch((x - width / 2, y - _HEIGHT / 2), width, _HEIGHT, boxstyle=style, lw=1.2, zorder=3)
    colour, hatch = _look(node.bits)
    box.set(facecolor=colour, edgecolor="black", hatch=hatch)
    axes.add_patch(box)
    label = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if hatch else None
    axes.text(x, y, node.text, ha="center", va="center", fontsize=9, linespacing=1.1, bbox=label, zorder=4)


def _frame(axes: Axes, heights: list[float]) -> None:
    low, high = min(heights) - _ROW / 2 + 0.03, max(heights) + _ROW / 2 - 0.03
    style = {"facecolor": "#F4F4F4", "edgecolor": GREY, "lw": 1.2, "ls": "--"}
    axes.add_patch(Rectangle((0.1, low), _WIDTH - 0.2, high - low, **style))
    label = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    axes.text(0.2, high, "one kernel", va="center", fontsize=9, bbox=label)


def _arrow(axes: Axes, way: list[tuple[float, float]]) -> None:
    """A line through the bends, from the lower edge of one box to the upper edge of another."""
    (x0, y0), (x1, y1) = way[0], way[-1]
    points = [(x0, y0 - _HEIGHT / 2), *way[1:-1], (x1, y1 + _HEIGHT / 2)]
    axes.plot(*zip(*points, strict=True), color="black", lw=1.0, zorder=1, solid_joinstyle="round")
    arrow = {"arrowstyle": "-|>", "color": "black", "lw": 1.0, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", points[-1], points[-2], arrowprops=arrow, zorder=2)


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


def _traffic(fusion: Any) -> str:
    return f"As one kernel: {_size(fusion.bytes_moved)} read and written. One by one: {_size(fusion.bytes_alone)}."


def _words(fusion: Any) -> str:
    inputs = _counted(_array(i) for i in fusion.inside if i.opcode == "parameter")
    contained = _counted(i.opcode for i in fusion.ops) if fusion.ops else fusion.inside[-1].opcode
    result = _counted(map(_array, _results(fusion.inside)))
    return f"The fusion {fusion.name} reads {inputs}; contains {contained}; and gives {result}. {_traffic(fusion)}"


def _counted(names: Iterable[str]) -> str:
    """Names with how often each comes: "2 times multiply and add"."""
    counts = Counter(names).most_common()
    return listed(f"{n} times {name}" if n > 1 else name for name, n in counts) if counts else "nothing"
