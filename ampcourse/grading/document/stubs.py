"""What nbgrader makes of an instructor's cell when it releases it; without nbgrader, whose import takes half a second.

A test holds this against nbgrader's own ClearSolutions, ClearHiddenTests and ClearMarkScheme.
"""

from __future__ import annotations

from ampcourse.grading.model import GradingError

CODE, TEXT = "# YOUR CODE HERE\nraise NotImplementedError()", "YOUR ANSWER HERE"
_SOLUTION, _HIDDEN, _SCHEME = "SOLUTION", "HIDDEN TESTS", "MARK SCHEME"


def released(kind: str, text: str, solution: bool) -> str:
    """The text of a cell as students get it.

    Args:
        kind: the cell's type.
        text: the instructor's text.
        solution: whether the cell is marked as an answer.

    Raises:
        GradingError: if a region is not closed, or opened twice.
    """
    stub = CODE if kind == "code" else TEXT
    cleared = _without(text, _SOLUTION, stub)
    if solution and cleared == text and f"BEGIN {_SOLUTION}" not in text:
        cleared = stub
    return _without(_without(cleared, _HIDDEN, ""), _SCHEME, "")


def _without(text: str, region: str, instead: str) -> str:
    """A text with other lines, indented alike, in the place of what stands between the markers of a region."""
    begin, end = f"BEGIN {region}", f"END {region}"
    if begin not in text and end not in text:
        return text
    lines, inside = [], False
    for line in text.split("\n"):
        if begin in line:
            if inside:
                raise GradingError(f"The instructor's notebook has '{begin}' inside another: nothing can be graded.")
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + stub for stub in instead.split("\n")] if instead else []
        elif end in line:
            inside = False
        elif not inside:
            lines.append(line)
    if inside:
        raise GradingError(f"The instructor's notebook has '{begin}' without '{end}': nothing can be graded.")
    return "\n".join(lines)
