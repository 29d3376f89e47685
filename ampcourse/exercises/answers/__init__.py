"""The right answers and the known mistakes, one module a lesson, each with a tuple `EXERCISES`.

This package is not there where a learner's answer is observed for a grade, so nothing outside `check` and `judge`
may import it. A module is named after its lesson's slug without the number, and holds data only::

    from ampcourse.exercises.model import Exercise, Inputs, Mistake

    def _inputs(rng) -> Inputs:
        return {"a few numbers": (rng.normal(size=8),)}

    halve = Exercise(
        id="fp16_range.halve",
        inputs=_inputs,
        right=lambda x: x / 2,
        points={"a few numbers": 2},
        also_right=(lambda x: x * 0.5, lambda x: [v / 2 for v in x]),
        mistakes=(Mistake(lambda x: x * 2, "That is the double. Divide, do not multiply."), ...),
        hints=("What undoes doubling?",),
        insight="Halving a binary number only lowers its exponent, so it is exact.",
    )
    EXERCISES = (halve,)

`tests/exercises/test_every_exercise.py` finds it there: no registration, no test to write. It asks for at least three
mistakes and two other right answers, for hints and an insight, and that the right facts of every criterion differ from
seed to seed, so that a constant cannot be handed in.
"""
