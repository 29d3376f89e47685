"""Lesson 10, several devices: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.distributed.finite import update_on_all
from ampcourse.exercises.answers.distributed.losses import loss_shares
from ampcourse.exercises.answers.distributed.rate import learning_rate
from ampcourse.exercises.answers.distributed.reduction import sixteen_bit_mean
from ampcourse.exercises.answers.distributed.step import distributed_step
from ampcourse.exercises.answers.distributed.traffic import ring_bytes

EXERCISES = (loss_shares, update_on_all, ring_bytes, sixteen_bit_mean, learning_rate, distributed_step)
