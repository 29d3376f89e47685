"""One submission's way: run in a kernel that is not trusted, its answers observed there and judged here."""

from ampcourse.grading.submission.grade import grade_submission
from ampcourse.grading.submission.replay import Explanation, Shown, replay
from ampcourse.grading.submission.run import Ran, run_notebook

__all__ = ["Explanation", "Ran", "Shown", "grade_submission", "replay", "run_notebook"]
