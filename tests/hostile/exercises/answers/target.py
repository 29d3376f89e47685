"""What the hostile submissions are asked. The word in the hints must never come out of a student's process."""

from __future__ import annotations

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

CANARY_ANSWER = "canary-in-the-answers"


def _signs(rng: np.random.Generator) -> Inputs:
    values = np.abs(rng.normal(size=8)) + 0.1
    return {"positive": (values,), "negative": (-values,)}


double = Exercise(
    id="target.double",
    inputs=_signs,
    right=lambda x: 2 * x,
    points={"positive": 1, "negative": 1},
    mistakes=(Mistake(lambda x: 2 * np.abs(x), "The sign is lost."),),
    hints=(CANARY_ANSWER,),
)
total = Exercise(
    id="target.total",
    inputs=lambda rng: {"few": (rng.normal(size=3),), "many": (rng.normal(size=300),)},
    right=lambda x: np.sum(x),
    points={"few": 2, "many": 1},
    rtol=1e-9,
    atol=1e-9,
    hints=(CANARY_ANSWER,),
)
EXERCISES = (double, total)
