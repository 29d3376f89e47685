"""Which cell of a submission belongs to which place of the lesson.

Evidence is used from the surest to the weakest, and each step only looks at what is still open: nbgrader's name
together with what the cell holds; the lesson's own text; what the code defines; the notebook format's id; a similar
text between two neighbours that are known; the only cell left between two neighbours that are known. What a cell holds
counts for more than what it is called, so names that were swapped or copied do no harm.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz

from ampcourse.grading.document.reading import Piece
from ampcourse.grading.document.slots import ANSWER, GIVEN, LOCKED, Lesson, Slot

ALIKE = 60.0
"""Percent of likeness from which, between known neighbours, a changed text is taken for the lesson's cell."""

_COMPARED = 4_000  # characters of each text that are compared
_TELLING = 15  # characters from which on a text is no part of another by chance
_PAIRS = 20_000  # comparisons in one gap; a gap with more is left alone


class Matching:
    """Finds a place for each cell.

    Attributes:
        of: for each slot the pieces that belong to it, as indices, in the order in which they stand.
        home: for each piece its slot, or None.
        unmarked: slots found without nbgrader's name.
        unsure: answer slots with several candidates of which none could be chosen.
    """

    def __init__(self, lesson: Lesson, pieces: Sequence[Piece]) -> None:
        self.slots, self.pieces = lesson.slots, pieces
        self.of: list[list[int]] = [[] for _ in self.slots]
        self.home: list[int | None] = [None] * len(pieces)
        self.unmarked: set[int] = set()
        self.unsure: set[int] = set()
        self._answers = frozenset(name for slot in self.slots if slot.role == ANSWER for name in slot.made)
        once = {key for key, times in Counter(piece.key for piece in pieces).items() if times == 1}
        self._known = {key for slot in self.slots if slot.role != ANSWER for key in slot.keys if key} & once
        self._locked = [key for slot in self.slots if slot.role == LOCKED for key in slot.keys]
        self._by_name()
        self._by_text()
        self._by_what_is_made()
        self._by_id()
        self._by_likeness()
        self._by_place()

    def anchors(self) -> list[int]:
        """The pieces that stand in the lesson's order, as many as possible: neighbours to go by."""
        placed = [i for i, slot in enumerate(self.home) if slot is not None and self.of[slot][0] == i]
        ends: list[int] = []  # slot at the end of the best chain of each length
        last: list[int] = []  # and the piece there
        before: dict[int, int | None] = {}
        for i in placed:
            slot = self.home[i]
            length = bisect.bisect_left(ends, slot)
            before[i] = last[length - 1] if length else None
            ends[length : length + 1], last[length : length + 1] = [slot], [i]
        chain: list[int] = []
        i = last[-1] if last else None
        while i is not None:
            chain.append(i)
            i = before[i]
        return chain[::-1]

    def _take(self, slot: int, pieces: Iterable[int]) -> None:
        for i in pieces:
            self.home[i] = slot
            self.of[slot].append(i)
        self.of[slot].sort()
        if not any(self.pieces[i].grade_id == self.slots[slot].grade_id for i in self.of[slot]):
            self.unmarked.add(slot)

    def _free(self) -> list[int]:
        return [i for i, slot in enumerate(self.home) if slot is None]

    def _open(self, *roles: str) -> list[int]:
        return [s for s, slot in enumerate(self.slots) if not self.of[s] and (not roles or slot.role in roles)]

    def _fits(self, slot: Slot, piece: Piece) -> bool:
        """Whether what a piece holds is no reason to doubt its name."""
        if piece.key in slot.keys:
            return True
        if piece.key in self._known:
            return False
        elsewhere = piece.made & self._answers - slot.made
        return not elsewhere or bool(piece.made & slot.made and slot.role == ANSWER)

    def _by_name(self) -> None:
        named = {slot.grade_id: s for s, slot in enumerate(self.slots) if slot.grade_id}
        found: dict[int, list[int]] = defaultdict(list)
        for i, piece in enumerate(self.pieces):
            s = named.get(piece.grade_id)
            if s is not None and self._fits(self.slots[s], piece):
                found[s].append(i)
        for s, these in found.items():
            if self.slots[s].role != ANSWER:
                exact = [i for i in these if self.pieces[i].key in self.slots[s].keys]
                these = (exact or these)[:1]
            elif self._made_elsewhere(s, these, named):
                continue
            self._take(s, these)

    def _made_elsewhere(self, s: int, called: list[int], named: dict[str, int]) -> bool:
        """Whether pieces with an answer's name make nothing of it, while another, not needed where it is, does."""
        wanted = self.slots[s].made
        if not wanted or any(self.pieces[i].made & wanted for i in called):
            return False
        for piece in self.pieces:
            other = named.get(piece.grade_id)
            needed = other is not None and self.slots[other].made and self.slots[other].made <= piece.made
            if wanted <= piece.made and not needed:
                return True
        return False

    def _by_text(self) -> None:
        slots: dict[str, list[int]] = defaultdict(list)
        pieces: dict[str, list[int]] = defaultdict(list)
        for s in self._open():
            for key in self.slots[s].keys - {""}:
                slots[key].append(s)
        for i in self._free():
            pieces[self.pieces[i].key].append(i)
        shared = [key for key in slots if key in pieces]
        for key in shared:  # first what can be meant in one way only
            if len(slots[key]) == len(pieces[key]) == 1 and not self.of[slots[key][0]]:
                self._take(slots[key][0], pieces[key])
        for key in shared:
            for s in slots[key]:
                free = [i for i in pieces[key] if self.home[i] is None]
                enough = len(free) >= sum(1 for other in slots[key] if not self.of[other])
                if free and not self.of[s] and (best := self._best(s, free, anywhere=enough)) is not None:
                    self._take(s, [best])

    def _best(self, s: int, candidates: list[int], anywhere: bool = True) -> int | None:
        """The candidate with the right id, else one between the known neighbours, else the first if it may be there."""
        if same := [i for i in candidates if self.pieces[i].cell_id == self.slots[s].cell_id]:
            return same[0]
        low, high = self._between(s)
        inside = [i for i in candidates if low < i < high]
        return next(iter(inside or (candidates if anywhere else [])), None)

    def _between(self, s: int) -> tuple[int, int]:
        """The pieces of the known neighbours of a slot."""
        low, high = -1, len(self.pieces)
        for i in self.anchors():
            if self.home[i] < s:
                low = self.of[self.home[i]][-1] if self.slots[self.home[i]].role == ANSWER else i
            elif self.home[i] > s:
                return low, i
        return low, high

    def _by_what_is_made(self) -> None:
        for s in self._open(ANSWER):
            wanted = self.slots[s].made
            free = self._free() if wanted else []
            makers = [i for i in free if wanted <= self.pieces[i].made]
            makers = makers or [i for i in free if wanted <= self.pieces[i].would_make]
            if not makers:
                continue
            low, high = self._between(s)
            inside = [i for i in makers if low < i < high]
            if inside:
                same = [i for i in inside if self.pieces[i].cell_id == self.slots[s].cell_id]
                self._take(s, (same or inside)[:1])
            elif len(makers) == 1:
                self._take(s, makers)
            else:
                self._take(s, makers[-1:])
                self.unsure.add(s)

    def _by_id(self) -> None:
        ids = Counter(piece.cell_id for piece in self.pieces)
        free = {self.pieces[i].cell_id: i for i in self._free() if ids[self.pieces[i].cell_id] == 1}
        for s in self._open():
            i = free.get(self.slots[s].cell_id)
            if i is None or not self.pieces[i].key:
                continue
            if self.pieces[i].kind != self.slots[s].kind and self.slots[s].role != ANSWER:
                continue
            if self.pieces[i].key not in self._known and self._fits(self.slots[s], self.pieces[i]):
                self._take(s, [i])

    def _gaps(self, *roles: str) -> list[tuple[list[int], list[int]]]:
        """Runs of open slots (of these roles), each with the free pieces that stand between the same neighbours."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        chain = self.anchors()
        places = [self.home[i] for i in chain]
        for s in self._open(*roles):
            at = bisect.bisect_left(places, s)
            low = chain[at - 1] if at else -1
            found[low, chain[at] if at < len(chain) else len(self.pieces)].append(s)
        return [
            (open_, [i for i in range(low + 1, high) if self.home[i] is None]) for (low, high), open_ in found.items()
        ]

    def _by_likeness(self) -> None:
        for slots, pieces in self._gaps(GIVEN, LOCKED):
            if not pieces or len(slots) * len(pieces) > _PAIRS:
                continue
            for s, i in self._aligned(slots, pieces):
                self._take(s, [i])

    def _aligned(self, slots: list[int], pieces: list[int]) -> list[tuple[int, int]]:
        """The pairs, in order on both sides, that are the most alike in all; none less alike than `ALIKE`."""
        best = [[(0.0, None)] * (len(pieces) + 1) for _ in range(len(slots) + 1)]
        for a, s in enumerate(slots, 1):
            for b, i in enumerate(pieces, 1):
                likeness = self._likeness(s, i)
                paired = (best[a - 1][b - 1][0] + likeness, "pair") if likeness else (-1.0, None)
                best[a][b] = max(paired, (best[a - 1][b][0], "slot"), (best[a][b - 1][0], "piece"), key=lambda x: x[0])
        a, b, pairs = len(slots), len(pieces), []
        while a and b:
            step = best[a][b][1]
            if step == "pair":
                pairs.append((slots[a - 1], pieces[b - 1]))
            a, b = a - (step != "piece"), b - (step != "slot")
        return pairs

    def _likeness(self, s: int, i: int) -> float:
        slot, piece = self.slots[s], self.pieces[i]
        if slot.kind != piece.kind or piece.made & self._answers - slot.made:
            return 0.0
        return fuzz.ratio(slot.released[:_COMPARED], piece.text[:_COMPARED], score_cutoff=ALIKE)

    def _by_place(self) -> None:
        """An answer that nothing else tells: the only cell of its kind between the neighbours."""
        for slots, pieces in self._gaps():
            answers = [s for s in slots if self.slots[s].role == ANSWER]
            for s in answers:
                kind = self.slots[s].kind
                rivals = [x for x in slots if self.slots[x].kind == kind and self.slots[x].role != LOCKED]
                free = [i for i in pieces if self.home[i] is None and self._could_be(s, i)]
                text = self.slots[s].written and kind == "markdown"  # a person reads it: all of it, to be sure
                if len(rivals) == 1 and (len({self.pieces[i].key for i in free}) == 1 or (text and free)):
                    self._take(s, free)
                elif free:
                    self.unsure.add(s)

    def _could_be(self, s: int, i: int) -> bool:
        piece = self.pieces[i]
        if len(piece.key) > _TELLING and any(piece.key in key for key in self._locked):
            return False  # a part of a test cell that was split
        return (
            piece.kind == self.slots[s].kind and bool(piece.key) and not piece.made & self._answers - self.slots[s].made
        )
