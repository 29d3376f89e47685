"""Grading through nbgrader: making the release, and the preprocessors that `nbgrader` runs for this course."""
