"""The variables of a run as a table: text, and HTML with headers that a screen reader can use."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from ampcourse.amp.health.facts import Facts

COLUMNS = (
    "variable",
    "dtype (compute)",
    "non-finite steps",
    "gradient norm",
    "zero (flushed, or by right)",
    "subnormal",
    "update / weight",
    "in unit roundoffs",
    "unmoved",
)
_CELL = "text-align:left;padding:0.2em 0.7em;border:1px solid currentColor"


@dataclass(frozen=True)
class VariableRow:
    """What was seen of one variable.

    Attributes:
        name: path of the variable.
        dtype: dtype it is stored in.
        compute: compute dtype of its layer.
        nonfinite_steps: steps in which its gradient held a NaN or an infinity.
        norm: 2-norm of its unscaled gradient, mean over the latest clean steps; NaN if there was none.
        flushed: fraction of its scaled gradient that is zero in the compute dtype, likewise: what was flushed, and
            what is zero by right, as behind an inactive ReLU or for an input of zero.
        subnormal: fraction of its scaled gradient that is subnormal in the compute dtype, likewise.
        update_ratio: 2-norm of a step's change over the 2-norm of the weights, mean over the latest updates.
        roundoffs: `update_ratio` in units of the unit roundoff of `dtype`; below 1 most updates round away.
        unmoved: fraction of its elements that a step left exactly as they were, likewise.
    """

    name: str
    dtype: str
    compute: str
    nonfinite_steps: int
    norm: float
    flushed: float
    subnormal: float
    update_ratio: float
    roundoffs: float
    unmoved: float


class VariableTable:
    """One row a variable, in the order of the model; prints as text and shows as HTML."""

    def __init__(self, rows: tuple[VariableRow, ...], caption: str) -> None:
        self.rows, self.caption = rows, caption

    def row(self, name: str) -> VariableRow:
        """The row of one variable; raises KeyError with the names there are."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"There is no variable '{name}': there are {', '.join(r.name for r in self.rows)}.")

    def __str__(self) -> str:
        cells = [COLUMNS, *map(_cells, self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        return "\n".join([self.caption, *(line.rstrip() for line in lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="{_CELL}">{html.escape(c)}</th>' for c in COLUMNS)
        body = "\n".join(_html_row(_cells(row)) for row in self.rows)
        return (
            '<table style="border-collapse:collapse;color:inherit">\n'
            f'<caption style="caption-side:top;text-align:left;color:inherit">{html.escape(self.caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        )


def variable_table(facts: Facts, headline: str) -> VariableTable:
    """The table of what is known."""
    v = facts.variables
    rows = []
    for i, watched in enumerate(facts.watched):
        clean, updates = bool(v["clean"][i]), bool(v["updates"][i])
        ratio = _or_nan(v["update_ratio"][i], updates)
        rows.append(
            VariableRow(
                watched.name,
                watched.dtype,
                watched.compute,
                int(v["nonfinite_steps"][i]),
                _or_nan(v["norm"][i], clean),
                _or_nan(v["flushed"][i], clean),
                _or_nan(v["subnormal"][i], clean),
                ratio,
                ratio / watched.unit_roundoff,
                _or_nan(v["unmoved"][i], updates),
            )
        )
    return VariableTable(tuple(rows), headline)


def _or_nan(value: np.floating, known: bool) -> float:
    return float(value) if known else float("nan")


def _cells(row: VariableRow) -> tuple[str, ...]:
    return (
        row.name,
        row.dtype if row.dtype == row.compute else f"{row.dtype} ({row.compute})",
        f"{row.nonfinite_steps:,}",
        _number(row.norm),
        _share(row.flushed),
        _share(row.subnormal),
        _number(row.update_ratio),
        _number(row.roundoffs),
        _share(row.unmoved),
    )


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3g}"


def _share(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.1%}" if not 0 < value < 0.001 else "<0.1%"


def _html_row(cells: tuple[str, ...]) -> str:
    name, *rest = (html.escape(cell) for cell in cells)
    data = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in rest)
    return f'<tr><th scope="row" style="{_CELL}">{name}</th>{data}</tr>'
