"""What `similar` compares of one submission: what the student added to each answer, as a row of tokens."""

from __future__ import annotations

from nbformat import NotebookNode

from ampcourse.grading.desk.published import published
from ampcourse.grading.desk.tokens import Alphabet, code_tokens, names_in, prose_tokens
from ampcourse.grading.document import Unreadable, repair
from ampcourse.grading.document.slots import ANSWER, Slot, lesson_of
from ampcourse.grading.model import Submission

LEAST, WRITTEN = 30, 25
"""Tokens of code, and words, below which an answer tells nothing: many people find the same by themselves."""

OWN = "own cells"
"""What a student's own code cells are called together."""

_ALPHABET = Alphabet()  # one for all, so that the same token is the same letter everywhere


class Reader:
    """Reads the submissions of one notebook.

    Attributes:
        kinds: the names of what is compared, each with whether it is prose.
        published: the published texts of each answer, spelt.
        short: answers whose published text is too short to be compared.
    """

    def __init__(self, source: NotebookNode, notebook: str = "") -> None:
        self.source = source
        self._before = f"{notebook}: " if notebook else ""
        lesson = lesson_of(source)
        self._answers = {slot.place: slot for slot in lesson.slots if slot.role == ANSWER}
        self._known = frozenset().union(*(names_in(slot.released) for slot in lesson.slots if slot.kind == "code"))
        self.kinds = {self._name(slot): slot.kind != "code" for slot in self._answers.values()}
        self.kinds[f"{self._before}{OWN}"] = False
        texts = published(source)
        self.published = {
            self._name(slot): [self._spelt(slot, text) for text in texts.get(slot.grade_id, [])]
            for slot in self._answers.values()
        }
        self.short = self._short()

    def read(self, submission: Submission) -> dict[str, str]:
        """What the student added, by the name of the answer, spelt; nothing if nothing was handed in.

        Raises:
            Unreadable: if the notebook cannot be read.
        """
        if submission.refused:
            raise Unreadable(submission.refused)
        if submission.notebook is None:
            return {}
        found = repair(submission.notebook, self.source)
        row, own = {}, []
        for cell, origin in zip(found.notebook.cells, found.origins, strict=True):
            if origin in self._answers:
                slot = self._answers[origin]
                row[self._name(slot)] = self._spelt(slot, cell.source)
            elif origin is None and cell.cell_type == "code":
                own.append(cell.source)
        row[f"{self._before}{OWN}"] = _ALPHABET.spelt([t for text in own for t in code_tokens(text, "", self._known)])
        return row

    def _name(self, slot: Slot) -> str:
        return f"{self._before}{slot.grade_id}"

    def _spelt(self, slot: Slot, text: str) -> str:
        if slot.kind == "code":
            return _ALPHABET.spelt(code_tokens(text, slot.released, self._known))
        return _ALPHABET.spelt(prose_tokens(text, slot.released))

    def _short(self) -> list[str]:
        least = {name: WRITTEN if prose else LEAST for name, prose in self.kinds.items()}
        return [name for name, texts in self.published.items() if texts and len(texts[0]) < least[name]]
