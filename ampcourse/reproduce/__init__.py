"""Run the course's notebooks, collect what they record, and compare it with what is expected.

Import the modules themselves; nothing is loaded here, so that `record` costs a lesson nothing.
"""
