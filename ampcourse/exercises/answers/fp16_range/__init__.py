"""Lesson 01, what float16 can hold: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.fp16_range.bits import decode, ulp
from ampcourse.exercises.answers.fp16_range.choice import choose_format
from ampcourse.exercises.answers.fp16_range.means import safe_mean
from ampcourse.exercises.answers.fp16_range.rounding import to_float16
from ampcourse.exercises.answers.fp16_range.swamping import swamped

EXERCISES = (decode, ulp, to_float16, swamped, safe_mean, choose_format)
