"""On PYTHONPATH in these tests: adds the lesson "mini" to the answers, in nbgrader's process and in its kernels."""

from pathlib import Path

from ampcourse.exercises import answers

answers.__path__.append(str(Path(__file__).resolve().parent.parent / "answers"))
