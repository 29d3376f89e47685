"""Lesson 04, custom loops: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.custom_loops.accumulation import accumulated
from ampcourse.exercises.answers.custom_loops.clipping import clip_and_apply
from ampcourse.exercises.answers.custom_loops.counts import nonfinite_counts
from ampcourse.exercises.answers.custom_loops.loop import training_loop
from ampcourse.exercises.answers.custom_loops.rates import learning_rates
from ampcourse.exercises.answers.custom_loops.step import train_step

EXERCISES = (train_step, learning_rates, clip_and_apply, accumulated, nonfinite_counts, training_loop)
