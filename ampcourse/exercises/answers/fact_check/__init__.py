"""Lesson 12, the fact check: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.fact_check.capstone import mixed_program
from ampcourse.exercises.answers.fact_check.causes import split_speedup
from ampcourse.exercises.answers.fact_check.rows import check_row
from ampcourse.exercises.answers.fact_check.stopwatch import speed_ratio
from ampcourse.exercises.answers.fact_check.verdicts import verdict

EXERCISES = (check_row, split_speedup, verdict, speed_ratio, mixed_program)
