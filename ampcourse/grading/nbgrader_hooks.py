"""What this course adds to nbgrader: preprocessors for releasing and for autograding, named in `nbgrader_config.py`.

nbgrader decides a graded cell's points from its outputs: an error or any text on stderr is worth nothing, a number that
is the cell's result is worth itself, and everything else (no result, text, NaN) is worth full points. The preprocessors
here keep the first rule from punishing warnings, and the last from rewarding a check that gave no number.

Nothing here imports TensorFlow, and nbgrader is imported in this module and in `release` alone.
"""

from __future__ import annotations

import math
import os
import re
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from sqlalchemy.exc import SAWarning

from ampcourse.grading.cells import INTERPRETATION, PARAMETERS, checked_exercise, tags

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
STDERR_MARK = "[stderr] "

_PARAMETER_TAGS = {PARAMETERS, "injected-parameters"}
_CELL_METADATA = ("tags", "nbgrader", "editable", "deletable")
_PROFILE_LINE = re.compile(r"^profile\s*=.*$", re.MULTILINE)


def use_this_environment() -> None:
    """Let nbgrader find its helper programs beside the Python that runs it, whether or not that is activated.

    nbgrader starts `alembic` from PATH when it makes a gradebook; where it is not found, a gradebook without a version
    stays behind. Also silences warnings about nbgrader's own use of its database, which no instructor can mend.
    """
    places = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*places, *path]))
    warnings.filterwarnings("ignore", category=SAWarning)


def graded_parameters(source: str) -> str:
    """The text of a parameters cell with the profile set to "grade"; everything else stays."""
    line = 'profile = "grade"'
    return _PROFILE_LINE.sub(line, source) if _PROFILE_LINE.search(source) else f"{source}\n{line}".lstrip("\n")


class RemoveInterpretation(NbGraderPreprocessor):
    """At release: take out the cells that interpret a solution and so give it away."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Keep every cell without the tag."""
        nb.cells = [cell for cell in nb.cells if INTERPRETATION not in tags(cell)]
        return nb, resources


class Normalise(NbGraderPreprocessor):
    """At release, last: only the metadata that means something, so that the same source gives the same bytes."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Reduce the metadata of the notebook and of its cells."""
        nb.metadata = NotebookNode(kernelspec=NotebookNode(KERNELSPEC), language_info=NotebookNode(name="python"))
        for cell in nb.cells:
            cell.metadata = NotebookNode({key: cell.metadata[key] for key in _CELL_METADATA if key in cell.metadata})
            cell.source = cell.source.rstrip("\n")
        return nb, resources


class CourseRules(NbGraderPreprocessor):
    """At autograde, first: the course's kernel, parameters and nothing that a submission says about how it is run.

    A submission's tags are dropped, because nbconvert would obey `skip-execution`, and a check that did not run counts
    as right; so are its execution hints. The parameters cell is the source's, with the profile "grade".
    """

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Set the kernel, drop tags and hints, put the parameters cell in its place."""
        nb.metadata = NotebookNode(kernelspec=NotebookNode(KERNELSPEC))
        given, index = self._parameters(resources["nbgrader"])
        for cell in nb.cells:
            cell.metadata["was_parameters"] = given is not None and _is_parameters(cell, given)
        places = [i for i, cell in enumerate(nb.cells) if cell.metadata.pop("was_parameters")]
        for cell in nb.cells:
            cell.metadata = NotebookNode({k: v for k, v in cell.metadata.items() if k == "nbgrader"})
        if given is not None and not places:
            self.log.warning("The parameters cell was missing from the submission; it was put back.")
            nb.cells.insert(min(index, len(nb.cells)), nbformat.v4.new_code_cell(id="parameters"))
            places = [min(index, len(nb.cells) - 1)]
        for place in places:
            nb.cells[place].source = graded_parameters(given or "")
            nb.cells[place].metadata["tags"] = [PARAMETERS]
        return nb, resources

    def _parameters(self, about: dict[str, str]) -> tuple[str | None, int]:
        """Text and place of the parameters cell in the instructor's notebook; (None, 0) if that has none."""
        course = self.parent.parent.coursedir
        for step in (course.source_directory, course.release_directory):
            path = Path(course.format_path(step, ".", about["assignment"])) / f"{about['notebook']}.ipynb"
            if not path.is_file():
                continue
            cells = nbformat.read(path, as_version=4).cells
            found = [(cell.source, i) for i, cell in enumerate(cells) if PARAMETERS in tags(cell)]
            return found[0] if found else (None, 0)
        self.log.warning("Neither source nor release of this notebook is here: its parameters stay as they are.")
        return None, 0


def _is_parameters(cell: NotebookNode, given: str) -> bool:
    if cell.cell_type != "code" or cell.metadata.get("nbgrader", {}).get("grade_id"):
        return False
    return bool(tags(cell) & _PARAMETER_TAGS) or cell.source.strip() == given.strip()


class GradeExecute(Execute):
    """Run a submission with the Python that runs nbgrader, and tell its code that this is for a grade."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The kernel's own remark about unencrypted local ports would stand in the instructor's terminal every time.
        kwargs.setdefault("extra_arguments", ["--IPKernelApp.log_level=40"])
        super().__init__(*args, **kwargs)

    def create_kernel_manager(self) -> AsyncKernelManager:
        """A manager that knows one kernel, this Python's: what is installed as `python3` elsewhere does not matter."""
        self.km = AsyncKernelManager(
            kernel_name=KERNELSPEC["name"], kernel_spec_manager=KernelSpecManager(kernel_dirs=[]), config=self.config
        )
        return self.km

    def start_new_kernel(self, **kwargs: Any) -> None:
        """Start it with the grading profile in its environment and in nobody else's."""
        # nbclient binds this name to its asynchronous twin when the class is made: overriding the twin has no effect.
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "AMPCOURSE_PROFILE": "grade"}
        super().start_new_kernel(env=environment, **kwargs)


class CalmStderr(NbGraderPreprocessor):
    """After the run: text on stderr stays readable in graded cells, but as ordinary output, which costs no point."""

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Turn each stderr output of a graded code cell into marked stdout."""
        if cell.cell_type == "code" and utils.is_grade(cell):
            for output in cell.outputs:
                if output.output_type == "stream" and output.name == "stderr":
                    output.name = "stdout"
                    output.text = "".join(STDERR_MARK + line for line in output.text.splitlines(keepends=True))
        return cell, resources


class RequireScore(NbGraderPreprocessor):
    """After the run: a check that gave no number from 0 to the cell's points is worth 0, and the cell says so.

    Ordinary nbgrader test cells, with `assert` and without a result, are left alone.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Put an error before the outputs of a check cell that has no score.

        Raises:
            RuntimeError: if the exercise itself is broken; nobody's score may be written then.
        """
        if cell.cell_type != "code" or not utils.is_grade(cell) or not checked_exercise(cell.source):
            return cell, resources
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if broken := [error for error in errors if error.ename == "BrokenExercise"]:
            raise RuntimeError(f"an exercise of the course is broken, so nothing is graded: {broken[0].evalue}")
        if not errors and not has_score(cell):
            says = "The check gave no score: something in this notebook keeps `check` from working."
            cell.outputs.insert(
                0, nbformat.v4.new_output("error", ename="NoScore", evalue=says, traceback=[f"NoScore: {says}"])
            )
        return cell, resources


def has_score(cell: NotebookNode) -> bool:
    """Whether a graded cell's result is a number that nbgrader will take as its points."""
    results = [output for output in cell.outputs if output.output_type == "execute_result"]
    try:
        score = float(results[0].data["text/plain"])
    except (IndexError, KeyError, TypeError, ValueError):
        return False
    return math.isfinite(score) and 0 <= score <= float(cell.metadata.nbgrader["points"])
