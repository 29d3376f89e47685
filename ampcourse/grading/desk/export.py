"""Grades as a table: this course's own, one for Canvas and one for Moodle, as their importers read them.

Scores are after late penalties, as in nbgrader's own export. Where there is no score the cell is empty, never 0: no
submission, an unreadable one, or one that could not be graded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ampcourse.grading.desk import cells, roster
from ampcourse.grading.desk.cells import ExportError, number, text
from ampcourse.grading.desk.roster import Roster
from ampcourse.grading.desk.survey import Row

FORMATS = ("ampcourse", "canvas", "moodle")
COLUMNS = ("student_id", "lesson", "score", "max_score", "status", "reason", "late_penalty", "needs_manual")

# The columns that Canvas reads before those of the assignments; without "Section" it refuses the file.
_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_CANVAS_POINTS = "Points Possible"
_CANVAS_TITLE = re.compile(r"\s*\(\d+\)$")  # Canvas writes the assignment's own id after its title
_NOT_STUDENTS = re.compile(r"\s*(Muted|Manual Posting.*)?\s*", re.IGNORECASE)

# What Moodle can know a student by, and the names for it in its exports.
_MOODLE_KEYS = ("Username", "ID number", "Email address")
_MOODLE_NAMES = ("First name", "Last name", "Surname", "Full name")
_WORKSHEET = ("Identifier", "Grade")  # an assignment's own grading worksheet
_NO_GRADE = "-"  # Moodle takes an empty cell in a new column as a grade, and this as none


@dataclass(frozen=True)
class Export:
    """What is to be written, and what the instructor should be told.

    Attributes:
        table: the rows, the head first.
        students: how many students are in it.
        scores: how many cells for scores it has.
        without: how many of them are empty.
        remarks: sentences; each means that something is not in the file, or not as it seems.
        left_out: students who are not in the file.
    """

    table: list[list[str]]
    students: int
    scores: int
    without: int
    remarks: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """The file's text."""
        return cells.table(self.table)


def export(rows: Sequence[Row], kind: str = "ampcourse", people: Roster | None = None) -> Export:
    """Rows of one or more lessons as a table.

    Args:
        rows: what everybody has.
        kind: one of `FORMATS`.
        people: for Canvas and Moodle, what the platform exported.

    Raises:
        ExportError: if the roster cannot serve.
    """
    makers: dict[str, Callable[[Sequence[Row], Roster | None], Export]] = {"canvas": _canvas, "moodle": _moodle}
    return makers[kind](rows, people) if kind in makers else _own(rows)


def _own(rows: Sequence[Row]) -> Export:
    table = [list(COLUMNS)]
    for row in rows:
        waits = "true" if row.needs_manual else "false"
        scores = (number(row.score), number(row.max_score))
        student = (text(row.student), text(row.lesson))
        table.append([*student, *scores, row.status, text(row.reason), number(row.late_penalty), waits])
    return _export(table, rows)


def _export(table: list[list[str]], rows: Sequence[Row], remarks: Sequence[str] = ()) -> Export:
    without = sum(row.score is None for row in rows)
    return Export(table, len({row.student for row in rows}), len(rows), without, tuple(remarks))


def _matched(
    table: list[list[str]], rows: Sequence[Row], found: dict[str, int], people: Roster, remarks: Sequence[str] = ()
) -> Export:
    """An export of those whom the roster has; the others are told."""
    written = [row for row in rows if row.student in found]
    missing = tuple(dict.fromkeys(row.student for row in rows if row.student not in found))
    if missing:
        some = ", ".join(f"'{cells.clean(student)}'" for student in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        remarks = [
            *remarks,
            f"Not in the roster '{people.path}', so not in the file: {some}{more}. "
            "Rename the folder in submitted/ to the login there, or enter these by hand.",
        ]
    return replace(_export(table, written, remarks), left_out=missing)


def _by_student(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.student, {})[row.lesson] = row
    return found


def _maxima(rows: Sequence[Row]) -> dict[str, float]:
    """The points of each lesson, in the order in which the lessons come."""
    found: dict[str, float] = {}
    for row in rows:
        found[row.lesson] = max(found.get(row.lesson, 0.0), row.max_score)
    return found


def _name(row: Row) -> str:
    first, last = row.name
    return ", ".join(part for part in (last, first) if part) or row.student


def _canvas(rows: Sequence[Row], people: Roster | None) -> Export:
    maxima, students = _maxima(rows), _by_student(rows)
    if people is not None:
        return _canvas_filled(rows, maxima, students, people)
    table = [[*_CANVAS, *maxima], [f"    {_CANVAS_POINTS}", "", "", "", "", *map(number, maxima.values())]]
    for student, lessons in students.items():
        name = _name(next(iter(lessons.values())))
        scores = [number(lessons[lesson].score) if lesson in lessons else "" for lesson in maxima]
        table.append([text(name), "", "", text(student), "", *scores])
    return _export(table, rows)


def _canvas_filled(
    rows: Sequence[Row], maxima: dict[str, float], students: dict[str, dict[str, Row]], people: Roster
) -> Export:
    section = people.column("Section")
    if people.column("ID") is None or section is None:
        raise ExportError(
            f"The roster '{people.path}' has no columns 'ID' and 'Section': export the gradebook from Canvas "
            "(Grades, Export, Export Entire Gradebook) and name that file."
        )
    places = {lesson: _canvas_column(people, lesson, section) for lesson in maxima}
    points = next((row for row in people.rows if _CANVAS_POINTS in row[0]), None)
    remarks = []
    for lesson, place in places.items():
        there = _float(points[place]) if points is not None and place is not None else None
        if there is not None and there != maxima[lesson]:
            remarks.append(
                f"In Canvas '{people.columns[place or 0]}' has {number(there)} points, here {number(maxima[lesson])}: "
                "the upload sets it to these."
            )
    listed = [row for row in people.rows if _CANVAS_POINTS not in row[0] and not all(map(_NOT_STUDENTS.fullmatch, row))]
    found = roster.match(students, [_called_in_canvas(people, row) for row in listed], people.path)
    heads = [people.columns[place] if place is not None else lesson for lesson, place in places.items()]
    blank = [""] * section
    table = [
        [*people.columns[: section + 1], *heads],
        [f"    {_CANVAS_POINTS}", *blank, *(number(maxima[lesson]) for lesson in maxima)],
    ]
    for student in (one for one in students if one in found):
        row, had = listed[found[student]], students[student]
        kept = [row[place] if place is not None else "" for place in places.values()]
        scores = [had[one].score if one in had else None for one in maxima]
        filled = [number(score) if score is not None else old for score, old in zip(scores, kept, strict=True)]
        table.append([*_identity(people.columns, row)[: section + 1], *filled])
    return _matched(table, rows, found, people, remarks)


def _canvas_column(people: Roster, lesson: str, section: int) -> int | None:
    """The column of the assignment with the lesson's name, if Canvas has one already."""
    titles = [_CANVAS_TITLE.sub("", column).strip().casefold() for column in people.columns]
    return next((i for i, title in enumerate(titles) if i > section and title == lesson.casefold()), None)


def _called_in_canvas(people: Roster, row: Sequence[str]) -> list[list[str]]:
    logins = people.cells(row, "SIS Login ID")
    ids = people.cells(row, "SIS User ID") + people.cells(row, "ID")
    names = people.cells(row, "Student")
    first, last = people.cells(row, "FirstName"), people.cells(row, "LastName")
    names += [f"{last[0]}, {first[0]}"] if first and last else []
    turned = [" ".join(reversed(name.split(", ", 1))) for name in names]
    return [logins, ids, [login.partition("@")[0] for login in logins], names + turned]


def _identity(columns: Sequence[str], row: Sequence[str]) -> list[str]:
    """What the platform knows a student by stays as it is; names, which students may choose, become harmless."""
    keys = {"id", "sis user id", "sis login id", "integration id", "root account"}
    keys |= {name.casefold() for name in (*_MOODLE_KEYS, "Identifier")}
    same = keys | {"last modified (submission)", "last modified (grade)"}
    pairs = zip(columns, row, strict=True)
    return [cell if column.casefold() in same or cell == _NO_GRADE else text(cell) for column, cell in pairs]


def _moodle(rows: Sequence[Row], people: Roster | None) -> Export:
    if people is not None and all(people.column(name) is not None for name in _WORKSHEET):
        return _worksheet(rows, people)
    maxima, students = _maxima(rows), _by_student(rows)
    pairs = [head for lesson in maxima for head in (lesson, f"{lesson} feedback")]
    if people is None:
        table = [["Username", "Email address", *pairs]]
        for student, lessons in students.items():
            email = next((row.email for row in lessons.values() if row.email), "")
            table.append([text(student), text(email), *_graded(lessons, maxima)])
        if not any(row[1] for row in table[1:]):
            table = [[row[0], *row[2:]] for row in table]
        return _export(table, rows)
    columns = [i for i, name in enumerate(people.columns) if name.casefold() in _casefolded(_MOODLE_KEYS)]
    if not columns:
        raise ExportError(
            f"The roster '{people.path}' has none of the columns {', '.join(map(repr, _MOODLE_KEYS))}: export the "
            "grades, or the participants, from Moodle in English and name that file."
        )
    names = [i for i, name in enumerate(people.columns) if name.casefold() in _casefolded(_MOODLE_NAMES)]
    found = roster.match(students, [_called_in_moodle(people, row) for row in people.rows], people.path)
    kept = sorted({*columns, *names})
    table = [[*(people.columns[i] for i in kept), *pairs]]
    for student in (one for one in students if one in found):
        cells_ = _identity(people.columns, people.rows[found[student]])
        table.append([*(cells_[i] for i in kept), *_graded(students[student], maxima)])
    return _matched(table, rows, found, people)


def _casefolded(names: Sequence[str]) -> set[str]:
    return {name.casefold() for name in names}


def _graded(lessons: dict[str, Row], maxima: dict[str, float]) -> list[str]:
    """Grade and feedback of each lesson; Moodle forgets a grade whose feedback comes without it."""
    found = []
    for lesson in maxima:
        row = lessons.get(lesson)
        score = number(row.score) if row is not None and row.score is not None else _NO_GRADE
        found += [score, text(_feedback(row)) if row is not None else ""]
    return found


def _feedback(row: Row) -> str:
    late = f"It came late, which cost {number(row.late_penalty)} points." if row.late_penalty else ""
    return " ".join(part for part in (row.reason, late) if part)


def _called_in_moodle(people: Roster, row: Sequence[str]) -> list[list[str]]:
    emails = people.cells(row, "Email address")
    first = people.cells(row, "First name")
    last = people.cells(row, "Last name", "Surname")
    names = people.cells(row, "Full name")
    names += [f"{first[0]} {last[0]}", f"{last[0]} {first[0]}"] if first and last else []
    participant = [re.sub(r"\D", "", one) for one in people.cells(row, "Identifier")]
    ids = people.cells(row, "Username", "ID number") + emails
    return [ids, [email.partition("@")[0] for email in emails], participant, names]


def _worksheet(rows: Sequence[Row], people: Roster) -> Export:
    """Fill an assignment's grading worksheet: the same columns, the rows of those who have something here."""
    maxima, students = _maxima(rows), _by_student(rows)
    if len(maxima) != 1:
        raise ExportError(
            f"'{people.path}' is the grading worksheet of one assignment: say which lesson goes into it, "
            "with --lesson LESSON."
        )
    (lesson, maximum), remarks = next(iter(maxima.items())), []
    grade, feedback = people.column("Grade"), people.column("Feedback comments")
    worth = {_float(cell) for row in people.rows for cell in people.cells(row, "Maximum Grade", "Maximum grade")}
    if different := [number(one) for one in worth if one is not None and one != maximum]:
        remarks.append(
            f"In Moodle the assignment has {different[0]} points, '{lesson}' has {number(maximum)}: "
            "set the assignment's maximum grade in Moodle to that before uploading."
        )
    found = roster.match(students, [_called_in_moodle(people, row) for row in people.rows], people.path)
    table = [list(people.columns)]
    for student in (one for one in students if one in found):
        filled = _identity(people.columns, people.rows[found[student]])
        row = students[student][lesson]
        if row.score is not None and grade is not None:
            filled[grade] = number(row.score)
        if feedback is not None and _feedback(row):
            filled[feedback] = text(_feedback(row))
        table.append(filled)
    return _matched(table, rows, found, people, remarks)


def _float(cell: str) -> float | None:
    try:
        return float(cell.strip().replace(",", "."))
    except ValueError:
        return None


def write(path: Path, made: Export) -> None:
    """Write the table; see `cells.write`."""
    cells.write(path, made.content)
