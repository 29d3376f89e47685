"""What a course's `nbgrader_config.py` imports: preprocessors for releasing, and one function that sets up grading.

An instructor's own configuration needs two lines:

    from ampcourse.grading import nbgrader_hooks as hooks
    hooks.grade_with_ampcourse(c)

After them `nbgrader autograde`, formgrader and `ampcourse grade` do the same, and `nbgrader generate_feedback` makes
pages in which nothing runs. Nothing here imports TensorFlow.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from ampcourse.grading.cells import INTERPRETATION, tags
from ampcourse.grading.doors import patches
from ampcourse.grading.doors.clean import clean_html, markdown_filter
from ampcourse.grading.doors.exporter import FeedbackExporter, Harmless
from ampcourse.grading.place import find_alembic

__all__ = ["KERNELSPEC", "Normalise", "RemoveInterpretation", "grade_with_ampcourse", "use_this_environment"]

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_CELL_METADATA = ("tags", "nbgrader", "editable", "deletable")


def use_this_environment() -> None:
    """Let nbgrader find its helper programs beside the Python that runs it, whether or not that is activated."""
    find_alembic()


def grade_with_ampcourse(c: Any) -> None:
    """Grade, give feedback and show submissions in formgrader as this course does.

    Settings of your own that come after this call win. Students' code runs only where it can be isolated; whoever wants
    to go on without says so: `c.AmpGrade.unsafe_no_sandbox = True`, or AMPCOURSE_UNSAFE_NO_SANDBOX=1 for one command.

    Args:
        c: the configuration object that nbgrader gives to nbgrader_config.py.
    """
    use_this_environment()
    patches.install()
    c.AmpGrade.enabled = True
    c.GenerateFeedback.exporter_class = FeedbackExporter
    c.GenerateFeedback.preprocessors = []  # the exporter reads points and comments itself
    c.GenerateFeedback.force = True  # nbgrader keeps a page that was made before a regrade or a comment
    c.HTMLExporter.preprocessors = [Harmless]  # formgrader's page of a submission
    c.HTMLExporter.filters = {"markdown2html": markdown_filter, "clean_html": clean_html}
    c.HTMLExporter.sanitize_html = True


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
