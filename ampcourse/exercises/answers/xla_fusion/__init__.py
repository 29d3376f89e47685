"""Lesson 06, XLA and fusion: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.xla_fusion.converts import count_converts
from ampcourse.exercises.answers.xla_fusion.once import traced_once
from ampcourse.exercises.answers.xla_fusion.programs import count_programs
from ampcourse.exercises.answers.xla_fusion.roofline import least_time
from ampcourse.exercises.answers.xla_fusion.standard import standardise
from ampcourse.exercises.answers.xla_fusion.traffic import chain_bytes

EXERCISES = (chain_bytes, least_time, count_converts, count_programs, traced_once, standardise)
