"""Lesson 11, the NaN clinic: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.nan_clinic.loudness import loudness
from ampcourse.exercises.answers.nan_clinic.masked import masked_weights
from ampcourse.exercises.answers.nan_clinic.search import first_sick
from ampcourse.exercises.answers.nan_clinic.silent import diagnose
from ampcourse.exercises.answers.nan_clinic.step import healed_step
from ampcourse.exercises.answers.nan_clinic.triage import triage

EXERCISES = (triage, first_sick, masked_weights, loudness, diagnose, healed_step)
