"""The instructor's desk: who has what, exports, checks before term, explanations, decisions. It reads; it runs nothing
of a student's outside the sandbox."""
