"""A table as plain text and as HTML that a screen reader can read: how everything in `ampcourse.amp` shows itself."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

_CELL = "text-align:left;vertical-align:top;white-space:normal;padding:0.25em 0.75em;border:1px solid currentColor"


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns side by side, as wide as their widest cell, without a space at the end of a line."""
    lines = [tuple(map(str, columns)), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(f"{c:<{w}}" for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A real table: a caption, a `scope` on every header, the first cell of a row being the row's header."""
    head = "".join(f'<th scope="col" style="{_CELL}">{html.escape(str(column))}</th>' for column in columns)
    body = "\n".join(_row(tuple(map(str, row))) for row in rows)
    return (
        '<table style="border-collapse:collapse;color:inherit;margin:0.5em 0">\n'
        f'<caption style="caption-side:top;text-align:left;color:inherit">{html.escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def html_list(items: Iterable[str]) -> str:
    """Sentences as a list."""
    return f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</ul>"


def _row(cells: Sequence[str]) -> str:
    data = "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in cells[1:])
    return f'<tr><th scope="row" style="{_CELL}">{html.escape(cells[0])}</th>{data}</tr>'
