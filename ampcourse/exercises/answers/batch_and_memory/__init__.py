"""Lesson 09, batch size and memory: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.batch_and_memory.accumulation import combined
from ampcourse.exercises.answers.batch_and_memory.batches import largest_batch
from ampcourse.exercises.answers.batch_and_memory.costs import run_cost
from ampcourse.exercises.answers.batch_and_memory.rates import warmed_rate
from ampcourse.exercises.answers.batch_and_memory.state import state_bytes
from ampcourse.exercises.answers.batch_and_memory.units import utilisation

EXERCISES = (utilisation, state_bytes, largest_batch, warmed_rate, combined, run_cost)
