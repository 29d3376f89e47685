"""What students get of a cell is what nbgrader gives them."""

from __future__ import annotations

import copy
import subprocess
import sys

import nbformat
import pytest
from nbgrader.preprocessors import ClearHiddenTests, ClearMarkScheme, ClearSolutions

from ampcourse.course import load_course
from ampcourse.grading.document.slots import lesson_of
from ampcourse.grading.document.stubs import released
from ampcourse.grading.model import GradingError

from .samples import source

SLUGS = ("mini", *(lesson.slug for lesson in load_course().lessons))


@pytest.mark.parametrize("slug", SLUGS)
def test_released_as_nbgrader_does_it(slug: str) -> None:
    notebook = copy.deepcopy(source(slug))
    for step in (ClearSolutions(), ClearHiddenTests(), ClearMarkScheme()):
        notebook, _ = step.preprocess(notebook, {})
    expected = [cell.source for cell in notebook.cells]
    got = {slot.place: slot.released for slot in lesson_of(source(slug)).slots}
    assert got == {place: expected[place] for place in got} and len(got) > 15


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("### BEGIN SOLUTION\n1", "without 'END SOLUTION'"),
        ("### BEGIN HIDDEN TESTS\n### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS", "inside another"),
    ],
)
def test_a_broken_source_is_the_instructors_matter(text: str, says: str) -> None:
    with pytest.raises(GradingError, match=says) as caught:
        released("code", text, False)
    assert caught.type is GradingError
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
    with pytest.raises(GradingError, match=says):
        lesson_of(notebook)


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, nbformat\nfrom ampcourse.grading.document import repair\n"
        "repair(b'{\"cells\": []}', nbformat.v4.new_notebook())\n"
        "print(sorted({'nbgrader', 'tensorflow', 'notebook', 'sqlalchemy', 'IPython'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
