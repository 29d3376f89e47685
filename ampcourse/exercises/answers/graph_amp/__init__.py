"""Lesson 05, graph-rewrite mixed precision: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.graph_amp.casts import count_casts
from ampcourse.exercises.answers.graph_amp.energy import energy
from ampcourse.exercises.answers.graph_amp.paint import paint
from ampcourse.exercises.answers.graph_amp.settings import matmul_dtype
from ampcourse.exercises.answers.graph_amp.step import rewritten_step

EXERCISES = (matmul_dtype, paint, count_casts, energy, rewritten_step)
