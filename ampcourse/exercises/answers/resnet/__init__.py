"""Lesson 07, ResNet: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.resnet.amdahl import speed_up
from ampcourse.exercises.answers.resnet.channels import padded_work
from ampcourse.exercises.answers.resnet.input import pipeline
from ampcourse.exercises.answers.resnet.intervals import paired_interval
from ampcourse.exercises.answers.resnet.noise import noise
from ampcourse.exercises.answers.resnet.normalisation import batch_norm

EXERCISES = (padded_work, speed_up, noise, paired_interval, pipeline, batch_norm)
