"""What an attack or a fault is: a submission made from the released notebook, and the score it must get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RIGHT = {
    "double": "def double(x):\n    return 2 * x",
    "total": "def total(x):\n    return np.sum(x)",
    "triple": "def triple(x):\n    return 3 * x",
}
WRONG = {
    "double": "def double(x):\n    return x",
    "total": "def total(x):\n    return 0.0",
    "triple": "def triple(x):\n    return 0 * x",
}
NOTHING = {"double-check": 0.0, "total-check": 0.0}
FIRST_LOST = {"double-check": 0.0, "total-check": 3.0, "triple-test": 1.0}
ALL = {"double-check": 2.0, "total-check": 3.0, "triple-test": 1.0}


@dataclass(frozen=True)
class Attack:
    """One hostile or faulty submission.

    Attributes:
        name: what is tried.
        first: code in a cell of the student's own before the first answer.
        double: the first answer's text; by default wrong in an attack.
        others: the texts of the other answers, by grade_id.
        last: code in a cell at the very end.
        files: what lies beside the notebook.
        scores: what each graded cell must get.
        says: words that one of the reasons must hold.
        silent: words that must stand in no output.
        long: whether it is graded with the long tests only.
    """

    name: str
    first: str = ""
    double: str = WRONG["double"]
    others: Mapping[str, str] = field(default_factory=lambda: {"total": WRONG["total"], "triple": WRONG["triple"]})
    last: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    says: str = ""
    silent: tuple[str, ...] = ()
    long: bool = False


def fault(name: str, double: str = RIGHT["double"], **more: object) -> Attack:
    """A fault in the first question only: all other answers are right and keep their points."""
    others = {"total": RIGHT["total"], "triple": RIGHT["triple"]}
    return Attack(name, double=double, **{"others": others, "scores": FIRST_LOST, **more})  # type: ignore[arg-type]
