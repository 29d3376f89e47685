"""Exercises and their checkers: one half observes the learner's answer, the other half judges what was observed.

Adding an exercise is writing data in `answers/<lesson>.py`; `model` says what the fields mean and `answers` shows how.
"""
