"""Grading a class: who needs it, many at a time, on this machine or on a cluster, and one process that writes."""

from ampcourse.grading.batch.grade import grade_lesson
from ampcourse.grading.batch.summary import Result, Summary, Watcher

__all__ = ["Result", "Summary", "Watcher", "grade_lesson"]
