"""What was put right in a document, collected while it is done and told in whole sentences, each once."""

from __future__ import annotations

from collections import defaultdict

_NAMED = 6  # cells named in one sentence

_SENTENCES = {
    # kind: (for one cell, for several); {0} is the names
    "missing": (
        "The cell {0} was missing; it was put back.",
        "The cells {0} were missing; they were put back.",
    ),
    "copy": (
        "The cell {0} was there more than once; the copies were left out.",
        "The cells {0} were there more than once; the copies were left out.",
    ),
    "restored": (
        "The cell {0} must not be changed but was; the lesson's own text is used.",
        "The cells {0} must not be changed but were; the lesson's own text is used.",
    ),
    "both": (
        "The given cell {0} was changed; the lesson's own runs first, then the changed one.",
        "The given cells {0} were changed; the lesson's own run first, each followed by the changed one.",
    ),
    "kind": (
        "The cell {0} had become a cell of another kind; it was turned back.",
        "The cells {0} had become cells of another kind; they were turned back.",
    ),
    "marks": (
        "The metadata of the cell {0} was changed; the instructor's is used.",
        "The metadata of the cells {0} was changed; the instructor's is used.",
    ),
    "hints": (
        "The cell {0} carried tags or settings about how it is run; they are not obeyed.",
        "The cells {0} carried tags or settings about how they are run; they are not obeyed.",
    ),
    "joined": (
        "The answer {0} was split over several cells; they were joined.",
        "The answers {0} were each split over several cells; they were joined.",
    ),
    "several": (
        "The answer {0} is there more than once; as in Jupyter, the last before the check counts.",
        "The answers {0} are there more than once; as in Jupyter, the last before each check counts.",
    ),
    "below": (
        "The answer cell {0} was untouched and a cell of the student's own followed; that is taken as the answer.",
        "The answer cells {0} were untouched and cells of the student's own followed; those are taken as the answers.",
    ),
    "elsewhere": (
        "The answer cell {0} was missing; what it asks for is defined in another cell.",
        "The answer cells {0} were missing; what they ask for is defined in other cells.",
    ),
    "unmarked": (
        "The cell {0} had lost nbgrader's mark; it was recognised by what it holds and where it stands.",
        "The cells {0} had lost nbgrader's marks, as happens in editors and Colab; they were recognised by what they "
        "hold and where they stand.",
    ),
    "cleaned": (
        "Characters that cannot be stored were replaced in {0}.",
        "Characters that cannot be stored were replaced in {0}.",
    ),
    "setting": (
        "The cell {0} sets the lesson's parameters, which the grader does; it was left out.",
        "The cells {0} set the lesson's parameters, which the grader does; they were left out.",
    ),
}
_OTHERS = (
    "One other cell of the lesson was missing; it was put back.",
    "{0} other cells of the lesson were missing; they were put back.",
)
MOVED = "Some cells stood in another order than in the lesson; the lesson's order is used."


class Notes:
    """Collects what was done, by kind."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)
        self.others = 0
        self.moved = False

    def add(self, kind: str, name: str) -> None:
        """Note that this was done to a cell."""
        if name not in self._names[kind]:
            self._names[kind].append(name)

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each kind of thing that was done."""
        says = []
        for kind, (one, several) in _SENTENCES.items():
            if names := self._names.get(kind):
                says.append((one if len(names) == 1 else several).format(listed(names)))
            if kind == "missing" and self.others:
                says.append(_OTHERS[self.others > 1].format(self.others))
        return (*says, *([MOVED] if self.moved else []))


def listed(names: list[str]) -> str:
    """Names as the subject of a sentence, cut where there are many."""
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
