"""Lesson 02, loss scaling: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.loss_scaling.dynamic import dynamic_update
from ampcourse.exercises.answers.loss_scaling.lost import fraction_lost
from ampcourse.exercises.answers.loss_scaling.masters import two_ways
from ampcourse.exercises.answers.loss_scaling.static import largest_scale, unscale
from ampcourse.exercises.answers.loss_scaling.step import scaled_step

EXERCISES = (fraction_lost, largest_scale, unscale, dynamic_update, two_ways, scaled_step)
