"""The summary of a compiled function, as text and as an accessible HTML table."""

from __future__ import annotations

import html
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ampcourse.amp.xla import Hlo
    from ampcourse.amp.xla_module import HloModule

_CELL = "text-align:left;vertical-align:top;padding:0.25em 0.75em;border:1px solid currentColor"


def rows(hlo: Hlo) -> list[tuple[str, str, str]]:
    """What is counted, before and after."""
    sides = [_facts(hlo.before), _facts(hlo.after)]
    return [(name, *(side[name] for side in sides)) for name in sides[0]]


def _facts(module: HloModule) -> dict[str, str]:
    return {
        "instructions": f"{len(module.instructions):,}",
        "run as a step of their own": f"{len(module.kernels):,}",
        "fusions": f"{len(module.fusions):,}",
        "dots": _by_dtype(module.dots_by_dtype),
        "convolutions": _by_dtype(module.convolutions_by_dtype),
        "converts": _by_dtype(module.converts_by_dtype),
        "bytes moved, at most": in_bytes(module.bytes_moved),
    }


def _by_dtype(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {dtype}" for dtype, count in counts.most_common()) or "none"


def in_bytes(count: int) -> str:
    """A number of bytes with its unit: 1 kB is 1,000 bytes."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{count:,} bytes" if unit == "bytes" else f"{size:,.4g} {unit}"


def title(hlo: Hlo) -> str:
    """One line above the table."""
    return f"{hlo.name}, compiled by XLA for the {hlo.device}"


def closing(hlo: Hlo) -> str:
    """One sentence below the table."""
    largest = hlo.largest_fusion
    if largest is None:
        return "Nothing was fused."
    contained = ", ".join(f"{n} {op}" if n > 1 else op for op, n in largest.opcodes.most_common())
    return (
        f"The largest fusion, {largest.name}, contains {contained}: it moves {in_bytes(largest.bytes_moved)}, where "
        f"these operations one by one would move {in_bytes(largest.bytes_alone)}."
    )


def as_text(hlo: Hlo) -> str:
    """The summary for a terminal."""
    table = [("", "before", "after"), *rows(hlo)]
    widths = [max(len(row[column]) for row in table) for column in range(2)]
    lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in table]
    return "\n".join([title(hlo), *lines, closing(hlo)])


def as_html(hlo: Hlo) -> str:
    """The summary for a notebook."""
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in ("", "before", "after"))
    head = head.replace(f'<th scope="col" style="{_CELL}"></th>', f'<th scope="col" style="{_CELL}">what</th>', 1)
    body = "\n".join(_row(*row) for row in rows(hlo))
    return (
        '<table style="border-collapse:collapse;color:inherit;margin:0.5em 0">\n'
        f'<caption style="caption-side:top;text-align:left;color:inherit">{html.escape(title(hlo))}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n<p>{html.escape(closing(hlo))}</p>"
    )


def _row(name: str, before: str, after: str) -> str:
    data = "".join(f'<td style="{_CELL}">{html.escape(value)}</td>' for value in (before, after))
    return f'<tr><th scope="row" style="{_CELL}">{html.escape(name)}</th>{data}</tr>'
