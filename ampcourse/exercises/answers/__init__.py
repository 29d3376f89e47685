"""The right answers and the known mistakes, one module a lesson, each with a tuple `EXERCISES`.

This package is not there where a learner's answer is observed for a grade, so only `check` and `judge` may import it.
A module (or package) is named after its lesson's slug without the number, and holds data::

    import numpy as np

    from ampcourse.exercises.model import Exercise, Inputs, Mistake

    def _inputs(rng: np.random.Generator) -> Inputs:
        return {"ordinary numbers": (rng.normal(size=8),), "tiny numbers": (rng.normal(size=8) * 1e-310,)}

    halve = Exercise(
        id="fp16_range.halve",
        inputs=_inputs,
        right=lambda x: x / 2,
        points={"ordinary numbers": 1, "tiny numbers": 1},
        also_right=(lambda x: x * 0.5, lambda x: [v / 2 for v in x]),
        mistakes=(
            Mistake(lambda x: x * 2, "That is the double: divide."),
            Mistake(lambda x: x // 2, "`//` rounds down to a whole number: use `/`."),
            Mistake(lambda x: np.ldexp(np.float32(x), -1), "float32 turns the tiny numbers into 0."),
        ),
        hints=("What undoes doubling?", "Divide by 2."),
        insight="Halving lowers a binary number's exponent by one, so it is exact until the number is subnormal.",
    )

    EXERCISES = (halve,)

Heavy libraries are imported inside the functions that need them. `tests/exercises/test_every_exercise.py` finds every
exercise: no registration, no test to write. It asks for at least three mistakes and two other right answers, for hints
and an insight, that right answers are right for many seeds and each mistake is recognised as itself, and that the
right facts of every criterion differ from seed to seed, so that a constant cannot be handed in.
"""
