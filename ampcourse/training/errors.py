"""The one error of training: everything in this folder may raise it."""

from __future__ import annotations

from ampcourse.course import UserError


class TrainingError(UserError):
    """A training run cannot be done as asked, or cannot go on."""
