"""Submissions that are too much alike: who may have copied from whom, or from the published solutions.

What is compared is what a student added to the released text of each answer cell, as tokens (see `tokens`): layout,
comments and the names of variables do not count, nor does given code. Two answers are as alike as the share of tokens
that they have in common in the same order (rapidfuzz's Indel similarity). A pair is listed

* if all that can be compared is alike to the threshold, and that is at least `ENOUGH` tokens; or
* if a single answer is, and it is long enough to tell by itself: `LONG` tokens of code, or `WRITTEN` words.

An answer with fewer than `LEAST` tokens is not compared: many people find the same short answer by themselves. Likeness
is a reason to look, never a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse.grading.desk.reading import LEAST, WRITTEN, Reader
from ampcourse.grading.model import GradingError, Submission

THRESHOLD = 0.9
"""Share in common from which a pair is listed. Independent answers of people who were taught the same stay below it."""

ENOUGH, LONG = 150, 100

PUBLISHED = "the published solution"


@dataclass(frozen=True)
class Pair:
    """Two submissions, or one and the published solution, that are alike.

    Attributes:
        one, other: student ids; `other` may be `PUBLISHED`.
        score: the share in common of all that was compared, from 0 to 1.
        tokens: how many tokens or words were compared.
        cells: the answers that are alike, each with its own share.
    """

    one: str
    other: str
    score: float
    tokens: int
    cells: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Likeness:
    """What a comparison of a class found.

    Attributes:
        lesson, threshold: what was asked.
        compared: how many submissions were compared.
        pairs: students alike, the most alike first.
        published: students who are like the published solution.
        short: answers that are too short to tell anything, by grade id.
        unreadable: (student, sentence) of submissions that could not be compared.
    """

    lesson: str
    threshold: float
    compared: int
    pairs: tuple[Pair, ...] = ()
    published: tuple[Pair, ...] = ()
    short: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()

    @property
    def remark(self) -> str:
        """What was not compared because it is too short, as a sentence; empty if everything was."""
        if not self.short:
            return ""
        names = ", ".join(f"'{name}'" for name in self.short)
        return f"Too short to tell anything, and so not compared (under {LEAST} tokens in the source): {names}."

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self) | {"remark": self.remark}


@dataclass
class _Answer:
    """One answer cell over the whole class: a row of tokens for each submission, spelt as a string."""

    name: str
    least: int
    long: int
    rows: list[str] = field(default_factory=list)

    def likeness(self, others: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """For each of our rows and each of the others: the share in common, and the tokens compared (0: none)."""
        from rapidfuzz import process
        from rapidfuzz.distance import Indel

        ours, our_place = np.unique(np.array(self.rows, dtype=object), return_inverse=True)
        theirs, their_place = np.unique(np.array(others, dtype=object), return_inverse=True)
        shares = process.cdist(
            list(ours), list(theirs), scorer=Indel.normalized_similarity, dtype=np.float32, workers=1
        )
        lengths = np.array([len(row) for row in ours]), np.array([len(row) for row in theirs])
        sizes = (lengths[0][:, None] + lengths[1][None, :]) / 2
        sizes[(lengths[0] < self.least)[:, None] | (lengths[1] < self.least)[None, :]] = 0
        places = np.ix_(our_place, their_place)
        return shares[places], sizes[places].astype(np.float32)


def similar(
    course_root: Path,
    lesson: str,
    threshold: float = THRESHOLD,
    tell: Callable[[int, int], None] | None = None,
) -> Likeness:
    """Compare all submissions of a lesson with each other and with its published solutions.

    Args:
        course_root: the course directory.
        lesson: a lesson's slug, or any assignment in `source/`.
        threshold: share in common from which a pair is listed, from 0 to 1.
        tell: called with how many submissions have been read, of how many.

    Raises:
        GradingError: if the course or the lesson's source is not there.
    """
    from ampcourse.grading.place import open_place
    from ampcourse.grading.settings import load_settings

    place = open_place(course_root)
    notebooks = place.notebooks(lesson)
    students = place.students(lesson)
    settings = load_settings(place.root)
    comparison = Comparison(
        {name: (place.source(lesson) / f"{name}.ipynb").read_bytes() for name in notebooks}, lesson, threshold
    )
    from ampcourse.grading.document import read_submission

    for number, student in enumerate(students, 1):
        folder = place.folder("submitted", student, lesson)
        others = {name: [other for other in notebooks if other != name] for name in notebooks}
        comparison.add(
            student, {name: read_submission(folder, student, name, settings, others[name]) for name in notebooks}
        )
        if tell:
            tell(number, len(students))
    return comparison.result()


class Comparison:
    """A class, compared: add the submissions one by one, then ask for the result."""

    def __init__(self, sources: dict[str, bytes], lesson: str, threshold: float = THRESHOLD) -> None:
        import nbformat

        self.lesson, self.threshold = lesson, threshold
        try:
            notebooks = {name: nbformat.reads(raw.decode(), as_version=4) for name, raw in sources.items()}
        except Exception as error:
            raise GradingError(f"The source of '{lesson}' is not a notebook: {str(error)[:100]}.") from None
        self.readers = {
            name: Reader(notebook, name if len(sources) > 1 else "") for name, notebook in notebooks.items()
        }
        self.students: list[str] = []
        self.unreadable: list[tuple[str, str]] = []
        self._rows: list[dict[str, str]] = []

    def add(self, student: str, submissions: dict[str, Submission]) -> None:
        """Add one student's notebooks; what cannot be read is noted."""
        row: dict[str, str] = {}
        for name, submission in submissions.items():
            try:
                row |= self.readers[name].read(submission)
            except GradingError as error:
                self.unreadable.append((student, str(error)))
        if row:
            self.students.append(student)
            self._rows.append(row)

    def result(self) -> Likeness:
        """Who is alike."""
        kinds = {name: least for reader in self.readers.values() for name, least in reader.kinds.items()}
        answers = [
            _Answer(
                name, *((WRITTEN, WRITTEN) if written else (LEAST, LONG)), [row.get(name, "") for row in self._rows]
            )
            for name, written in kinds.items()
        ]
        pairs, copied = [], []
        if self.students:
            pairs = self._pairs([(one, *one.likeness(one.rows)) for one in answers])
            copied = self._published(answers)
        short = tuple(name for reader in self.readers.values() for name in reader.short)
        return Likeness(
            self.lesson, self.threshold, len(self.students), tuple(pairs), tuple(copied), short, tuple(self.unreadable)
        )

    def _pairs(self, compared: list[tuple[_Answer, np.ndarray, np.ndarray]]) -> list[Pair]:
        listed = np.triu(self._listed(compared), 1)
        found = [
            self._pair(compared, i, j, self.students[i], self.students[j])
            for i, j in zip(*listed.nonzero(), strict=True)
        ]
        return sorted(found, key=lambda pair: (-pair.score, -pair.tokens, pair.one, pair.other))

    def _published(self, answers: Iterable[_Answer]) -> list[Pair]:
        """Each answer against the nearest of its published texts."""
        compared = []
        texts = {name: rows for reader in self.readers.values() for name, rows in reader.published.items()}
        for answer in answers:
            if rows := texts.get(answer.name):
                shares, sizes = answer.likeness(rows)
                best = np.where(sizes > 0, shares, -1).argmax(axis=1)[:, None]
                compared.append(
                    (answer, np.take_along_axis(shares, best, axis=1), np.take_along_axis(sizes, best, axis=1))
                )
        if not compared:
            return []
        found = [
            self._pair(compared, i, 0, self.students[i], PUBLISHED) for i in self._listed(compared)[:, 0].nonzero()[0]
        ]
        return sorted(found, key=lambda pair: (-pair.score, -pair.tokens, pair.one))

    def _listed(self, compared: list[tuple[_Answer, np.ndarray, np.ndarray]]) -> np.ndarray:
        total = sum(sizes for _, _, sizes in compared)
        common = sum(shares * sizes for _, shares, sizes in compared)
        listed = (total >= ENOUGH) & (common >= self.threshold * total)
        for answer, shares, sizes in compared:
            listed |= (sizes >= answer.long) & (shares >= self.threshold)
        return listed

    def _pair(self, compared: list[tuple[_Answer, np.ndarray, np.ndarray]], i: int, j: int, *names: str) -> Pair:
        total = sum(float(sizes[i, j]) for _, _, sizes in compared)
        common = sum(float(shares[i, j] * sizes[i, j]) for _, shares, sizes in compared)
        cells = tuple(
            (answer.name, round(float(shares[i, j]), 3))
            for answer, shares, sizes in compared
            if sizes[i, j] and shares[i, j] >= self.threshold
        )
        return Pair(*names, round(common / total, 3), round(total), cells)
