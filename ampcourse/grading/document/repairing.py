"""From whatever a student handed in, and the instructor's notebook, to a notebook that can be graded.

The result has the instructor's structure: its cells in its order, with its text and all of its metadata. The student's
are the answers, the changed text of given cells, and cells of their own, each after the neighbour that it stood behind.
Nothing that a submission says about itself (marks, points, tags, execution settings, kernel) is obeyed or kept.

A given cell that a student changed runs as it was changed, as it did at home, if it still makes every name that the
lesson's cell makes. If it does not (it was broken or emptied), or if it imports, the lesson's own runs first and the
changed one after it: so a slip in a given cell costs no point elsewhere, and an added import is there. The parameters
are always the lesson's.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from ampcourse.grading.document.answers import choose, continued, merged, untouched
from ampcourse.grading.document.banner import is_banner
from ampcourse.grading.document.code import has_conflict, imports, only_sets, same_code, sparingly
from ampcourse.grading.document.matching import Matching
from ampcourse.grading.document.notes import Notes, listed
from ampcourse.grading.document.reading import Document, Piece, read
from ampcourse.grading.document.slots import ANSWER, GIVEN, LOCKED, SETTINGS, Lesson, Slot, complete, lesson_of

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

OWN_CELLS = 500
"""The most cells of their own that students can have."""

_NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}
_MARKS = ("grade_id", "points", "grade", "solution", "locked", "task", "schema_version")


@dataclass(frozen=True)
class Repaired:
    """A notebook that can be graded.

    Attributes:
        notebook: in format 4.5, without outputs.
        repairs: what was put right, one sentence each, for student and instructor.
        troubles: what a person should look at.
        origins: for each cell of the notebook, its index in the instructor's notebook; None for a student's own cell.
        changed: indices, in the notebook, of given cells that hold a student's text.
        missing: grade ids of the answer cells that the submission does not have.
    """

    notebook: NotebookNode
    repairs: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    origins: tuple[int | None, ...] = ()
    changed: frozenset[int] = frozenset()
    missing: tuple[str, ...] = ()


def repair(raw: bytes, source: NotebookNode) -> Repaired:
    """A gradable notebook from a student's file. A pure function: nothing is read, run or written.

    Args:
        raw: the student's file, whatever it is.
        source: the instructor's notebook, solutions and hidden tests in it.

    Raises:
        Unreadable: if the file is no notebook; one sentence says what it is.
        GradingError: if the instructor's notebook itself cannot be used.
    """
    lesson = lesson_of(source)
    with sparingly():
        return _Repair(read(raw), lesson, source).result()


@dataclass
class _Filled:
    """A slot with what goes into it, and the student's own cells that follow."""

    slot: Slot
    text: str
    students: bool = False
    attachments: dict[str, Any] | None = None


class _Repair:
    def __init__(self, document: Document, lesson: Lesson, source: NotebookNode) -> None:
        self.document, self.lesson, self.source = document, lesson, source
        self.notes, self.troubles = Notes(), list(document.troubles)
        self.pieces = self._within([piece for piece in document.pieces if piece.key or piece.grade_id])
        self.matching = Matching(lesson, self.pieces)
        self.missing: list[str] = []
        self.own: dict[int, list[Piece]] = defaultdict(list)
        """The student's own cells behind each slot; -1 for those before the first."""

    def result(self) -> Repaired:
        self._collect_own()
        filled = [self._fill(s, slot) for s, slot in enumerate(self.lesson.slots)]
        for s, place in enumerate(filled):
            if place.slot.role == ANSWER:
                self._complete_answer(s, place)
        self._fill_missing(filled)
        self._look_closer(filled)
        notebook, origins, changed = self._assembled(filled)
        repairs = (*self.document.repairs, *self.notes.sentences())
        return Repaired(notebook, repairs, tuple(self.troubles), origins, changed, tuple(self.missing))

    def _within(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces, or of far too many those that have to do with the lesson and the first of the others."""
        slots = self.lesson.slots
        if len(pieces) <= len(slots) + OWN_CELLS:
            return pieces
        known = {name for slot in slots for name in (slot.grade_id, slot.cell_id, *slot.keys) if name}
        kept, times, own = [], Counter(), 0
        for piece in pieces:
            times[piece.key] += 1
            if times[piece.key] <= 2 and known & {piece.grade_id, piece.cell_id, piece.key}:
                kept.append(piece)
            elif own < OWN_CELLS:
                kept.append(piece)
                own += 1
        self.troubles.append(
            f"The submission has {len(pieces) - len(slots):,} cells more than the lesson; many were cut."
        )
        return kept

    def _collect_own(self) -> None:
        """Note, for each slot, the cells that belong to no slot and stand behind it; leave copies out."""
        matching = self.matching
        chain = matching.anchors()
        self.notes.moved = len(chain) < sum(1 for pieces in matching.of if pieces)
        anchors, behind, last = set(chain), -1, None
        for i, piece in enumerate(self.pieces):
            if i in anchors:
                behind = matching.home[i]
            elif matching.home[i] is None and not self._left_out(piece, last):
                self.own[behind].append(piece)
            last = i

    def _left_out(self, piece: Piece, before: int | None) -> bool:
        """Whether a cell without a place is a copy of what must not be copied, or sets the parameters."""
        if not piece.key or piece.key in self.lesson.unreleased or is_banner(piece.text):
            return True
        for slot in self.lesson.slots:
            if slot.role in (LOCKED, SETTINGS) and piece.key in slot.keys:
                self.notes.add("copy", slot.title)
                return True
        if piece.kind == "code" and only_sets(piece.text, self.lesson.settings):
            self.notes.add("setting", str(piece.number))
            return True
        s = self.matching.home[before] if before is not None else None
        slot = self.lesson.slots[s] if s is not None else None
        named = next((x for x in self.lesson.slots if x.grade_id and x.grade_id == piece.grade_id), None)
        part = named if named is not None and named.role == LOCKED else slot
        if part is not None and part.role == LOCKED and any(piece.key in key for key in part.keys):
            self.notes.add("copy" if part is named else "restored", part.title)
            return True
        return False

    def _fill(self, s: int, slot: Slot) -> _Filled:
        pieces = [self.pieces[i] for i in self.matching.of[s]]
        if not pieces:
            return self._put_back(slot)
        self._note_marks(s, slot, pieces)
        if slot.role == ANSWER:
            chosen = choose(slot, pieces)
            if chosen.copies:
                self.notes.add("copy", slot.title)
            if chosen.parts > 1:
                self.notes.add("joined", slot.title)
            if chosen.kept:
                self.notes.add("several", slot.title)
                behind = [p for p in chosen.kept if p.number > min(piece.number for piece in pieces)]
                for piece in chosen.kept:
                    self._keep(piece, s if piece in behind else s - 1)
            return _Filled(slot, chosen.text, True, chosen.attachments)
        piece = pieces[0]
        if piece.key in slot.keys:
            return _Filled(slot, slot.text)
        if slot.role != GIVEN:
            self.notes.add("restored", slot.title)
            return _Filled(slot, slot.text)
        if slot.kind == "code" and same_code(slot.released, piece.text):
            return _Filled(slot, piece.text, True)
        if not complete(slot, piece.text) or (slot.kind == "code" and imports(slot.released)):
            self.notes.add("both", slot.title)
            if piece.key:
                self.own[s].insert(0, piece)
            return _Filled(slot, slot.text)
        return _Filled(slot, piece.text, True, piece.attachments)

    def _keep(self, piece: Piece, behind: int) -> None:
        """Keep a further answer as a cell of the student's own, at its place among the cells around it."""
        for s, slot_pieces in enumerate(self.matching.of):
            if slot_pieces and self.pieces[slot_pieces[0]].number < piece.number:
                behind = max(behind, s)
        self.own[behind].append(piece)
        self.own[behind].sort(key=lambda other: other.number)

    def _put_back(self, slot: Slot) -> _Filled:
        if slot.role == ANSWER:
            self.missing.append(slot.grade_id)
        elif slot.grade_id and any(piece.grade_id == slot.grade_id for own in self.own.values() for piece in own):
            self.notes.add("restored", slot.title)  # it holds an answer now, and stays as a cell of the student's own
        elif slot.role != GIVEN or slot.kind == "code":
            self.notes.add("missing", slot.title)
        else:
            self.notes.others += 1
        return _Filled(slot, slot.text)

    def _note_marks(self, s: int, slot: Slot, pieces: Sequence[Piece]) -> None:
        if slot.grade_id and s in self.matching.unmarked:
            self.notes.add("marks" if pieces[0].grade_id else "unmarked", slot.title)
        elif slot.grade_id:
            theirs, ours = dict(pieces[0].marks), slot.metadata.get("nbgrader", {})
            if any(theirs.get(mark, False) != ours.get(mark, False) for mark in _MARKS):
                self.notes.add("marks", slot.title)
        if any(piece.hinted for piece in pieces):
            self.notes.add("hints", slot.title)
        if any(piece.cleaned for piece in pieces):
            self.notes.add("cleaned", slot.title)
        if any(piece.kind != slot.kind for piece in pieces):
            self.notes.add("kind", slot.title)

    def _complete_answer(self, s: int, filled: _Filled) -> None:
        """Join what was split off an answer, or stands below an untouched one."""
        slot, following = filled.slot, self.own[s]
        if not filled.students:
            return
        if slot.kind == "code":
            if places := continued(filled.text, following):
                parts = [filled.text, *(following[place].text for place in places)]
                filled.text = "\n".join(part.rstrip("\n") for part in parts)
                following[:] = [piece for place, piece in enumerate(following) if place not in places]
                self.notes.add("joined", slot.title)
            elif (before := self.own[s - 1]) and continued(before[-1].text, [_as_piece(filled)]):
                filled.text = f"{before.pop().text.rstrip()}\n{filled.text}"
                self.notes.add("joined", slot.title)
        if slot.written and untouched(slot, filled.text):
            count = next((n for n, p in enumerate(following) if p.kind != slot.kind), len(following))
            if taken := following[:count]:
                filled.text = "\n\n".join(piece.text.strip("\n") for piece in taken)
                filled.attachments = merged(taken)
                del following[:count]
                self.notes.add("below", slot.title)

    def _fill_missing(self, filled: list[_Filled]) -> None:
        """Where an answer cell is missing, but what it asks for is defined elsewhere, the stub must not undo that."""
        elsewhere = [piece.made for pieces in self.own.values() for piece in pieces]
        elsewhere += [_as_piece(place).made for place in filled if place.students]
        for place in filled:
            slot = place.slot
            if slot.role != ANSWER or place.students:
                continue
            if slot.made and any(slot.made <= made for made in elsewhere):
                names = listed(sorted(slot.made))
                place.text = f"# This answer cell was missing; another cell defines {names}."
                self.missing.remove(slot.grade_id)
                self.notes.add("elsewhere", slot.title)
            else:
                self.troubles.append(
                    f"There is no answer cell {slot.title} in the submission; the empty one was put in its place."
                )

    def _look_closer(self, filled: list[_Filled]) -> None:
        """What a person should see."""
        own = [(s, piece) for s, pieces in self.own.items() for piece in pieces]
        for s, place in enumerate(filled):
            slot = place.slot
            empty = slot.role == ANSWER and place.students and slot.made and untouched(slot, place.text)
            if empty and (found := next((p for behind, p in own if behind != s and slot.made <= p.made), None)):
                self.troubles.append(
                    f"The answer cell {slot.title} is untouched, but cell {found.number} of the submission, in another "
                    "place, defines what it asks for."
                )
            if place.students and has_conflict(place.text):
                self.troubles.append(f"The cell {slot.title} holds git's marks of a conflict; nobody chose a version.")
        for s in sorted(self.matching.unsure):
            title = self.lesson.slots[s].title
            self.troubles.append(f"It is not sure which cell is the answer {title}: there are several that could be.")
        if self.pieces and not self._same_lesson(filled):
            self.troubles.append("Hardly any cell of this notebook belongs to the lesson: perhaps another was meant.")
        for _, piece in own:
            if piece.cleaned:
                self.notes.add("cleaned", f"cell {piece.number}")

    def _same_lesson(self, filled: list[_Filled]) -> bool:
        """Whether there is an answer to this lesson, or at least some of its text."""
        exact = 0
        for place, pieces in zip(filled, self.matching.of, strict=True):
            slot = place.slot
            exact += any(self.pieces[i].key in slot.keys for i in pieces)
            named = any(self.pieces[i].grade_id == slot.grade_id for i in pieces)
            answered = slot.role == ANSWER and place.students and not untouched(slot, place.text)
            if answered and (named or (slot.made and slot.made <= _as_piece(place).made)):
                return True
        return exact * 4 >= len(filled)

    def _assembled(self, filled: list[_Filled]) -> tuple[NotebookNode, tuple[int | None, ...], frozenset[int]]:
        cells: list[NotebookNode] = []
        origins: list[int | None] = []
        changed: set[int] = set()
        taken = {slot.cell_id for slot in self.lesson.slots}
        numbers = (f"own-{n}" for n in range(1, len(self.pieces) + len(taken) + 2))
        fresh = (name for name in numbers if name not in taken)

        def keep(pieces: Sequence[Piece]) -> None:
            for piece in pieces:
                cell = _NEW[piece.kind](piece.text, id=next(fresh), metadata={})
                if piece.attachments:
                    cell.attachments = piece.attachments
                cells.append(cell)
                origins.append(None)

        keep(self.own[-1])
        for s, place in enumerate(filled):
            slot = place.slot
            if place.students and slot.role == GIVEN:
                changed.add(len(cells))
            cell = _NEW[slot.kind](place.text, id=slot.cell_id, metadata=copy.deepcopy(slot.metadata))
            pictures = place.attachments if place.students else self.source.cells[slot.place].get("attachments")
            if pictures and slot.kind != "code":
                cell.attachments = copy.deepcopy(pictures)
            cells.append(cell)
            origins.append(slot.place)
            keep(self.own[s])
        notebook = new_notebook(cells=cells, metadata={"kernelspec": dict(KERNELSPEC)})
        notebook.nbformat, notebook.nbformat_minor = 4, 5
        return notebook, tuple(origins), frozenset(changed)


def _as_piece(place: _Filled) -> Piece:
    return Piece(0, place.slot.kind, place.text)
