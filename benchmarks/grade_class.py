"""The class that `bench_grade` lets both grade: a small notebook with judged and ordinary test cells, several answers.

No benchmark by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

KINDS = ("tensorflow", "training", "numpy")
LESSON = "bench"

IMPORTS = {
    "numpy": "import numpy as np\n\nfrom ampcourse import check",
    "tensorflow": "import keras\nimport numpy as np\nimport tensorflow as tf\n\nfrom ampcourse import check",
}
IMPORTS["training"] = IMPORTS["tensorflow"]
LITTLE = {
    "numpy": "values = np.random.default_rng(0).normal(size=(200, 200))\nround(float((values @ values.T).trace()), 3)",
    "tensorflow": "values = tf.reshape(tf.range(12.0), (3, 4))\nfloat(tf.reduce_sum(values @ tf.transpose(values)))",
}
FIT = """\
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
inputs = rng.normal(size=(2000, 32)).astype("float32")
labels = (inputs[:, 0] > 0).astype("int32")
model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(inputs, labels, batch_size=50, epochs={epochs}, verbose=0)
history.history["accuracy"][-1] > 0.5"""

# Answers as students give them: the points for the judged cells (2 and 2) and for the ordinary test (1).
MEGABYTES = {
    "right": "return math.prod(shape) * bits / 8 / 1e6",
    "bytes": "return math.prod(shape) * bits / 8",
    "narrow": "return math.prod(shape[:2]) * bits / 8 / 1e6",
    "untouched": "raise NotImplementedError",
}
CHANGED = {
    "right": "return float(np.mean(values.astype(np.float16) != values))",
    "wrong": "return -1.0",
    "untouched": "raise NotImplementedError",
}
TEST = "assert double(21) == 42"
VARIANTS = (
    ("right", "right", "return 2 * x"),
    ("right", "wrong", "return 2 * x"),
    ("narrow", "right", "return x + x"),
    ("bytes", "untouched", "return x ** 2"),
    ("right", "right", "return 2 * x"),
)


def notebook(kind: str, epochs: int, answers: tuple[str, str, str], remark: str = "") -> nbformat.NotebookNode:
    """The notebook with these answers in it."""
    little = [FIT.format(epochs=epochs)] if kind == "training" else []
    little.append(LITTLE["numpy" if kind == "numpy" else "tensorflow"])
    megabytes, changed, double = MEGABYTES[answers[0]], CHANGED[answers[1]], answers[2]
    cells = [
        new_markdown_cell("# A small lesson", id="title"),
        new_code_cell(f"import math\n\n{IMPORTS[kind]}", id="imports"),
        *(new_code_cell(text, id=f"little-{number}") for number, text in enumerate(little)),
        _answer("megabytes", f"def megabytes(shape, bits):\n    {megabytes}{remark}"),
        _graded("megabytes-check", 'check("start_here.megabytes", megabytes)', 2),
        _answer("changed", f"def fraction_changed(values):\n    {changed}"),
        _graded("changed-check", 'check("start_here.fraction_changed", fraction_changed)', 2),
        _answer("double", f"def double(x):\n    {double}"),
        _graded("double-test", TEST, 1),
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _answer(name: str, text: str) -> nbformat.NotebookNode:
    return new_code_cell(text, id=name, metadata=_about(name, solution=True))


def _graded(name: str, text: str, points: int) -> nbformat.NotebookNode:
    return new_code_cell(text, id=name, metadata=_about(name, grade=True, locked=True, points=points))


def _about(name: str, **more: Any) -> dict[str, Any]:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": plain | more}


def make_class(root: Path, kind: str, count: int, epochs: int) -> None:
    """A course directory with the source and so many submissions; nothing is configured."""
    source = root / "source" / LESSON
    source.mkdir(parents=True)
    stub = notebook(kind, epochs, ("untouched", "untouched", "raise NotImplementedError"))
    for cell in stub.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            head, _, _ = cell.source.partition("\n")
            cell.source = f"{head}\n    ### BEGIN SOLUTION\n    {_solution(cell.id)}\n    ### END SOLUTION"
    nbformat.write(stub, source / f"{LESSON}.ipynb")
    (root / "nbgrader_config.py").write_text(f'c = get_config()\nc.CourseDirectory.course_id = "{LESSON}"\n', "utf-8")
    for number in range(count):
        folder = root / "submitted" / f"student{number:04}" / LESSON
        folder.mkdir(parents=True)
        filled = notebook(kind, epochs, VARIANTS[number % len(VARIANTS)], f"  # my own words, number {number}")
        nbformat.write(filled, folder / f"{LESSON}.ipynb")


def _solution(name: str) -> str:
    return {"megabytes": MEGABYTES["right"], "changed": CHANGED["right"], "double": "return 2 * x"}[name]


def sized_fit(base: Path, environment: dict[str, str]) -> int:
    """How many epochs of the fit take about a second, all of it, in a process that has imported TensorFlow."""
    code = (
        f"import json, time, numpy as np, keras, tensorflow as tf\n"
        f"def run(epochs):\n"
        f"    began = time.perf_counter()\n"
        f"    exec(FIT.replace('{{epochs}}', str(epochs)), {{'keras': keras, 'np': np}})\n"
        f"    return time.perf_counter() - began\n"
        f"FIT = {FIT!r}\n"
        f"first, more, many = run(1), run(2), run(22)\n"
        f"print(json.dumps([first, (many - more) / 20]))\n"
    )
    tried = [_tried(code, base, environment) for _ in range(3)]  # the quickest is the least disturbed
    first, each = (min(column) for column in zip(*tried, strict=True))
    return max(1, round((1.0 - first) / each) + 1)


def _tried(code: str, base: Path, environment: dict[str, str]) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=base)
    if done.returncode:
        raise SystemExit(f"The fit could not be tried:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def check_same_scores(plain: Path, ours: Path, lesson: str) -> None:
    """Every student must have the same points for every cell in both gradebooks, and not all of them the same."""
    one, other = (_scores(root, lesson) for root in (plain, ours))
    if one != other:
        differ = [
            (who, one.get(who), other.get(who)) for who in one.keys() | other.keys() if one.get(who) != other.get(who)
        ]
        raise SystemExit(f"The scores differ: {differ[:3]}")
    if len({tuple(sorted(cells.items())) for cells in one.values()}) < min(len(one), 3):
        raise SystemExit(f"All have the same points, so nothing was checked: {one}")


def _scores(root: Path, lesson: str) -> dict[str, dict[str, float | None]]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}") as book:
        return {
            submission.student.id: {grade.name: grade.score for part in submission.notebooks for grade in part.grades}
            for submission in book.assignment_submissions(lesson)
        }
