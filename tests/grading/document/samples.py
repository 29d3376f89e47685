"""Notebooks to try the repair on: a small one with every kind of cell, and real lessons; as plain data, like a file."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from ampcourse.course import course_root
from ampcourse.grading.cells import BEGIN, END, about
from ampcourse.grading.document import Repaired, repair

LESSONS = ("01_fp16_range", "04_custom_loops")
ALL = ("mini", *LESSONS)
STUB = "# YOUR CODE HERE\nraise NotImplementedError()"


def _marks(name: str, **kind: Any) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": plain | kind}


def _answer(name: str, signature: str, says: str, body: str) -> tuple[str, str]:
    """The source and the release of an answer cell."""
    head = f'def {name}({signature}):\n    """{says}"""\n'
    solved = f"{head}    ### {BEGIN}\n    {body}\n    ### {END}"
    return solved, head + "    # YOUR CODE HERE\n    raise NotImplementedError()"


_DOUBLE = _answer("double", "x", "Twice x.", "return 2 * x")
_TOTAL = _answer("total", "x", "The sum.", "return np.sum(x)")
_TEST = "assert list(double(np.arange(2))) == [0, 2]\nassert double(3) == 6\nassert double(4) == 8"
_HIDDEN = "\n### BEGIN HIDDEN TESTS\nassert double(21) == 42\n### END HIDDEN TESTS"
_TASK, _SCHEME = "Draw a picture of it, in cells of your own below.", "\n### BEGIN MARK SCHEME\n2\n### END MARK SCHEME"
MANUAL = "plot = [double(n) for n in range(3)]"

# (cell in the source, its text in the release; None if it is not released)
_MINI = [
    (new_markdown_cell("# Mini", id="title"), "# Mini"),
    (
        new_code_cell('profile = "cpu"\nseed = 0', id="parameters", metadata={"tags": ["parameters"]}),
        'profile = "cpu"\nseed = 0',
    ),
    (
        new_code_cell("import numpy as np\nfrom ampcourse import check", id="imports"),
        "import numpy as np\nfrom ampcourse import check",
    ),
    (
        new_code_cell(
            "LIMIT = 3\nnames = [n for n in range(LIMIT)]",
            id="given",
        ),
        "LIMIT = 3\nnames = [n for n in range(LIMIT)]",
    ),
    (new_markdown_cell("Do not touch this.", id="fixed", metadata=_marks("fixed", locked=True)), "Do not touch this."),
    (new_code_cell(_DOUBLE[0], id="double", metadata=_marks("double", solution=True)), _DOUBLE[1]),
    (
        new_code_cell(
            'check("mini.double", double)',
            id="double-check",
            metadata=_marks("double-check", grade=True, locked=True, points=2),
        ),
        'check("mini.double", double)',
    ),
    (new_markdown_cell("Twice is once and once.", id="twice", metadata={"tags": ["interpretation"]}), None),
    (new_code_cell("print(double(1))", id="shows"), "print(double(1))"),
    (new_code_cell(_TOTAL[0], id="total", metadata=_marks("total", solution=True)), _TOTAL[1]),
    (
        new_code_cell(
            'check("mini.total", total)',
            id="total-check",
            metadata=_marks("total-check", grade=True, locked=True, points=3),
        ),
        'check("mini.total", total)',
    ),
    (new_code_cell(_TEST + _HIDDEN, id="own", metadata=_marks("own", grade=True, locked=True, points=1)), _TEST),
    (
        new_code_cell(MANUAL, id="manual", metadata=_marks("manual", grade=True, solution=True, points=2)),
        STUB,
    ),
    (new_markdown_cell("Why twice?", id="question"), "Why twice?"),
    (
        new_markdown_cell(
            "Because of the model answer.", id="why", metadata=_marks("why", grade=True, solution=True, points=2)
        ),
        "YOUR ANSWER HERE",
    ),
    (new_markdown_cell(_TASK + _SCHEME, id="task", metadata=_marks("task", task=True, locked=True, points=1)), _TASK),
    (new_raw_cell("a raw cell", id="raw"), "a raw cell"),
]


@functools.cache
def source(lesson: str) -> nbformat.NotebookNode:
    if lesson != "mini":
        return nbformat.read(course_root() / "source" / lesson / f"{lesson}.ipynb", as_version=4)
    return new_notebook(cells=[copy.deepcopy(cell) for cell, _ in _MINI])


@functools.cache
def _release(lesson: str) -> str:
    if lesson != "mini":
        return (course_root() / "release" / lesson / f"{lesson}.ipynb").read_text("utf-8")
    cells = [copy.deepcopy(cell) | {"source": text} for cell, text in _MINI if text is not None]
    return nbformat.writes(nbformat.from_dict(dict(new_notebook(cells=cells))))


def release(lesson: str) -> dict[str, Any]:
    """What a student gets, as plain data with whole texts."""
    data = json.loads(_release(lesson))
    for cell in data["cells"]:
        cell["source"] = "".join(cell["source"])
    return data


def solutions(lesson: str) -> dict[str, str]:
    """A right answer for every answer cell, by grade id."""
    return {
        about(cell)["grade_id"]: "\n".join(
            line for line in cell.source.split("\n") if BEGIN not in line and END not in line
        )
        for cell in source(lesson).cells
        if about(cell).get("solution")
    }


def solved(lesson: str) -> dict[str, Any]:
    """A submission in which every answer is right."""
    data = release(lesson)
    for cell in data["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = solutions(lesson).get(name, cell["source"])
    return data


def at(data: dict[str, Any], name: str) -> int:
    """The place of the cell with this nbgrader name, or id."""
    return next(
        i
        for i, cell in enumerate(data["cells"])
        if name in (cell["metadata"].get("nbgrader", {}).get("grade_id"), cell.get("id"))
    )


def raw(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def code(text: str, **metadata: Any) -> dict[str, Any]:
    """A cell of the student's own."""
    return {"cell_type": "code", "source": text, "metadata": metadata, "outputs": [], "execution_count": None}


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": text, "metadata": {}}


def mended(data: Any, lesson: str = "mini") -> Repaired:
    """What the repair makes of a submission, valid and with the instructor's metadata in any case."""
    found = repair(data if isinstance(data, bytes) else raw(data), source(lesson))
    nbformat.validate(found.notebook)
    json.dumps(found.notebook, ensure_ascii=False).encode()
    kept = [i for i in found.origins if i is not None]
    released = [
        i for i, cell in enumerate(source(lesson).cells) if "interpretation" not in cell.metadata.get("tags", [])
    ]
    assert kept == released
    for cell, origin in zip(found.notebook.cells, found.origins, strict=True):
        assert cell.metadata == ({} if origin is None else source(lesson).cells[origin].metadata)
        assert origin is None or cell.cell_type == source(lesson).cells[origin].cell_type
        assert cell.cell_type != "code" or (cell.outputs == [] and cell.execution_count is None)
    return found


def answers(found: Repaired) -> dict[str, str]:
    cells = found.notebook.cells
    return {about(cell)["grade_id"]: cell.source for cell in cells if about(cell).get("solution")}


def cell_of(found: Repaired, name: str) -> nbformat.NotebookNode:
    return next(cell for cell in found.notebook.cells if name in (about(cell).get("grade_id"), cell.id))


def own_cells(found: Repaired) -> list[str]:
    """The texts of the student's own cells."""
    return [cell.source for cell, origin in zip(found.notebook.cells, found.origins, strict=True) if origin is None]


def order(found: Repaired) -> list[str]:
    """What stands where: ids of the lesson's cells, texts of the student's own."""
    pairs = zip(found.notebook.cells, found.origins, strict=True)
    return [cell.source if origin is None else cell.id for cell, origin in pairs]
