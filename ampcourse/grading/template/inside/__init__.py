"""What runs inside bubblewrap: the template that loads once, and what becomes of each of its forks.

The files of this folder are bound there alone, without the rest of the package: standard library only, until the
template loads what its plan names.
"""
