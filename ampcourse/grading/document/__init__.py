"""Whatever a student hands in becomes a notebook that can be graded, or one sentence. No student code runs here."""

from ampcourse.grading.document.banner import banner, text_for_people
from ampcourse.grading.document.folder import read_submission
from ampcourse.grading.document.names import acceptable_student, shown
from ampcourse.grading.document.reading import Unreadable
from ampcourse.grading.document.repairing import KERNELSPEC, Repaired, repair

__all__ = [
    "KERNELSPEC",
    "Repaired",
    "Unreadable",
    "acceptable_student",
    "banner",
    "read_submission",
    "repair",
    "shown",
    "text_for_people",
]
