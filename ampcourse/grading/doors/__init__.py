"""The doors through which nbgrader comes to this course's grading: commands, formgrader, feedback and the exchange."""
