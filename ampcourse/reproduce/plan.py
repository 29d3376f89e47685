"""How many notebooks at once, with how many threads, and for how long at most."""

from __future__ import annotations

import math
import os

from ampcourse.course import Lesson, UserError
from ampcourse.reproduce import machine

_MEMORY_EACH = 2 * 2**30  # bytes: TensorFlow, its data and the libraries of one lesson
_SLOW_BFLOAT16 = 2.5  # without its own instructions a processor takes two to three times as long


class PlanError(UserError):
    """The run is asked for something that makes no sense."""


def workers(jobs: int | None, profile: str, notebooks: int) -> int:
    """How many notebooks run at once: as asked, else one on a GPU, else what cores and free memory allow.

    Raises:
        PlanError: if fewer than one is asked for.
    """
    if jobs is not None and jobs < 1:
        raise PlanError(f"{jobs} notebooks at once makes no sense: give --jobs a number from 1.")
    if jobs is None:
        # Two lessons on one GPU would spoil each other's timings and share its memory.
        fitting = machine.memory(available=True) // _MEMORY_EACH
        jobs = 1 if profile == "gpu" else max(1, min(machine.cores(), fitting))
    return max(1, min(jobs, notebooks))


def threads(at_once: int) -> int:
    """Threads a notebook may compute with, so that those running at once do not fight over the cores."""
    return max(1, machine.cores() // at_once)


def patience() -> float:
    """By how much the environment variable AMPCOURSE_PATIENCE multiplies every time limit (1 if it is not set).

    Raises:
        PlanError: if it is not a positive number.
    """
    text = os.environ.get("AMPCOURSE_PATIENCE", "1")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        raise PlanError(f"AMPCOURSE_PATIENCE is '{text}': set it to a positive number, for example 3, or unset it.")
    return value


def time_limit(lesson: Lesson, profile: str, fast_bfloat16: bool | None = None) -> float:
    """Seconds after which a notebook is stopped: twice its budget, more for slow bfloat16 and a patient person."""
    if fast_bfloat16 is None:
        fast_bfloat16 = machine.fast_bfloat16()
    slow = profile == "cpu" and lesson.bfloat16_heavy and not fast_bfloat16
    return 2 * lesson.budget(profile) * (_SLOW_BFLOAT16 if slow else 1) * patience()
