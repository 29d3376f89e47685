"""Lesson 08, vision transformers: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.vit.attend import attention
from ampcourse.exercises.answers.vit.compare import compare
from ampcourse.exercises.answers.vit.patches import patches
from ampcourse.exercises.answers.vit.paths import softmax_path
from ampcourse.exercises.answers.vit.scores import scaled_scores
from ampcourse.exercises.answers.vit.softmax import softmax

EXERCISES = (patches, scaled_scores, softmax, attention, softmax_path, compare)
