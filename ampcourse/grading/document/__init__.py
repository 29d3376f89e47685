"""Whatever a student hands in becomes a notebook that can be graded, or one sentence. Nothing here runs student code."""

from ampcourse.grading.document.reading import Unreadable
from ampcourse.grading.document.repairing import KERNELSPEC, Repaired, repair

__all__ = ["KERNELSPEC", "Repaired", "Unreadable", "repair"]
