"""Lesson 03, dtype policies: questions, right answers, and the wrong ones that people give."""

from ampcourse.exercises.answers.policies.follow import follow
from ampcourse.exercises.answers.policies.layer import safe_layer
from ampcourse.exercises.answers.policies.models import classifier
from ampcourse.exercises.answers.policies.program import what_keras_does
from ampcourse.exercises.answers.policies.reloading import reload
from ampcourse.exercises.answers.policies.softmax import masked_softmax

EXERCISES = (follow, what_keras_does, classifier, masked_softmax, safe_layer, reload)
