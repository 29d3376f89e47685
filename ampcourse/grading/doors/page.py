"""A student's feedback as one HTML file: points, reasons, the notebook, people's comments. Nothing runs, nothing loads.

The page needs no script, no font and no picture from elsewhere, and forbids them to itself. It is read by screen
readers: one heading a question, tables with captions and headers, outcomes in words.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbconvert.filters.ansi import strip_ansi
from nbformat import NotebookNode

from ampcourse.grading.cells import about
from ampcourse.grading.doors.clean import clean_html, clean_markdown, harmless
from ampcourse.grading.doors.hidden import Hidden, hidden_of
from ampcourse.grading.model import QuestionResult

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_HEADING = re.compile(r"(</?h)([1-6])\b")
_TAGS = re.compile(r"<[^<>]*>")
_WITHHELD = "This output is not shown, because it holds text of a hidden test."
_OUTCOMES = {
    "right": "✓ right",
    "wrong": "✗ not right yet",
    "raised": "! stopped with an error",
    "not attempted": "○ not attempted",
    "timed out": "! took too long",
    "died": "! ended the kernel",
    "flooded": "! printed or returned too much",
    "no answer cell": "○ the answer's cell is not there",
    "written": "read by a person",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
table { border-collapse: collapse; margin: 0.5rem 0; }
th, td { border: 1px solid; padding: 0.25rem 0.75rem; text-align: left; vertical-align: top; }
caption { caption-side: top; text-align: left; font-weight: bold; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 0.25rem solid; padding-left: 0.75rem; }
.question { border: 2px solid; padding: 0 1rem 0.5rem; margin: 1.5rem 0; }
.output { margin: 0.5rem 0 0.5rem 1.5rem; overflow-x: auto; }
.comment { border: 1px dashed; padding: 0 1rem; }
img { max-width: 100%; }
"""


@dataclass(frozen=True)
class Mark:
    """What the gradebook says of one cell.

    Attributes:
        score: points with what people gave; None if the cell is not graded.
        points: the most that can be earned.
        waiting: whether a person must still mark it.
        comment: what a person, or nbgrader, wrote about it (markdown).
    """

    score: float | None = None
    points: float = 0.0
    waiting: bool = False
    comment: str = ""


@dataclass(frozen=True)
class Feedback:
    """All that one page says.

    Attributes:
        lesson, notebook, student: whose page it is.
        title: the lesson's title, or its slug.
        status: sentences above all else: why there is no score, or what deserves a look.
        repairs: what was put right in the document.
        questions: what was found when the notebook was graded, by grade_id.
        marks: what the gradebook says, by grade_id.
        late_penalty: points taken off.
        decisions: sentences about a question's points for everybody, by grade_id.
        hidden: what must not show.
    """

    lesson: str
    notebook: str
    student: str
    title: str = ""
    status: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    questions: dict[str, QuestionResult] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    late_penalty: float = 0.0
    decisions: dict[str, str] = field(default_factory=dict)
    hidden: Hidden | None = None


def page(feedback: Feedback, notebook: NotebookNode | None) -> str:
    """The whole HTML file.

    Args:
        feedback: points, reasons and comments.
        notebook: the notebook as it was graded; None if there is none.
    """
    title = f"Feedback on {feedback.title or feedback.lesson}"
    body = [
        f"<header><h1>{html.escape(title)}</h1>",
        f"<p>Student: {html.escape(feedback.student)}. Notebook: {html.escape(feedback.notebook)}.</p>",
        *(f"<p><strong>{html.escape(sentence)}</strong></p>" for sentence in feedback.status),
        *_total(feedback),
        "</header>\n<main>",
        *_listed("What was put right before the notebook ran", feedback.repairs),
        *_overview(feedback),
        *(_cells(feedback, notebook) if notebook is not None else ()),
        "</main>",
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" '
        f'content="no-referrer">\n<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n'
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _total(feedback: Feedback) -> Iterator[str]:
    graded = [mark for mark in feedback.marks.values() if mark.score is not None]
    if not graded:
        return
    score, most = sum(mark.score or 0.0 for mark in graded), sum(mark.points for mark in graded)
    late = f" {feedback.late_penalty:g} points were taken off because it came late." if feedback.late_penalty else ""
    waiting = sum(mark.waiting for mark in graded)
    people = f" {_count(waiting, 'answer')} still to be marked by a person." if waiting else ""
    yield f"<p>Points: <strong>{score - feedback.late_penalty:g} of {most:g}</strong>.{late}{people}</p>"


def _count(number: int, what: str) -> str:
    return f"One {what} is" if number == 1 else f"{number} {what}s are"


def _listed(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
        yield f"<h2>{title}</h2>\n<ul>{items}</ul>"


def _overview(feedback: Feedback) -> Iterator[str]:
    rows = [(name, mark) for name, mark in feedback.marks.items() if mark.score is not None]
    if not rows:
        return
    head = "".join(f'<th scope="col">{column}</th>' for column in ("Question", "Points", "Result", "Why"))
    lines = []
    for name, mark in rows:
        question = feedback.questions.get(name)
        why = feedback.decisions.get(name) or (question.reason if question else "")
        cells = (f"{mark.score:g} of {mark.points:g}", _outcome(mark, question), why)
        link = f'<a href="#{_anchor(name)}">{html.escape(name)}</a>'
        data = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{link}</th>{data}</tr>')
    yield (
        f"<h2>Points</h2>\n<table>\n<caption>Points by question</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{chr(10).join(lines)}\n</tbody>\n</table>"
    )


def _outcome(mark: Mark, question: QuestionResult | None) -> str:
    if mark.waiting:
        return "○ waits for a person"
    if question is None:
        return "✓ full points" if mark.score == mark.points else "✗ points are missing"
    if question.kind == "test" and question.outcome == "right":
        return "✓ the test passed"
    return _OUTCOMES.get(question.outcome, question.outcome)


def _anchor(name: str) -> str:
    return "question-" + re.sub(r"[^A-Za-z0-9_-]", "-", name)


def _cells(feedback: Feedback, notebook: NotebookNode) -> Iterator[str]:
    hidden = feedback.hidden or hidden_of(notebook)
    yield "<h2>The notebook, as it was graded</h2>"
    for cell in harmless(notebook).cells:
        name = str(about(cell).get("grade_id", ""))
        if about(cell).get("grade") or about(cell).get("solution") or about(cell).get("task"):
            yield from _question(feedback, cell, name, hidden)
        else:
            yield from _shown(cell, hidden)


def _question(feedback: Feedback, cell: NotebookNode, name: str, hidden: Hidden) -> Iterator[str]:
    mark = feedback.marks.get(name, Mark())
    if mark.score is not None:
        points = f": {mark.score:g} of {mark.points:g} points"
        title = f"Question {name}{points}"
    else:
        title = f"Your answer {name}"
    anchor = _anchor(name)
    yield f'<section class="question" aria-labelledby="{anchor}">\n<h3 id="{anchor}">{html.escape(title)}</h3>'
    yield from (f"<p>{html.escape(sentence)}</p>" for sentence in _said(feedback, name, cell))
    yield from _shown(cell, hidden, graded=bool(about(cell).get("grade")))
    if mark.comment:
        yield f'<div class="comment"><h4>Comment</h4>{_prose(mark.comment)}</div>'
    yield "</section>"


def _said(feedback: Feedback, name: str, cell: NotebookNode) -> Iterator[str]:
    """Sentences about a question, where its cell does not show a verdict that says the same."""
    mark, question = feedback.marks.get(name, Mark()), feedback.questions.get(name)
    if name in feedback.decisions:
        yield feedback.decisions[name]
    verdict = any("text/html" in output.get("data", {}) for output in cell.get("outputs", []))
    if question and question.kind == "judged" and verdict:
        return
    if mark.score is not None:
        yield _outcome(mark, question)
    if question and question.reason:
        yield question.reason
    if question and question.kind == "test":
        yield "This is a test of your instructor's own; it ran inside your notebook's process."


def _shown(cell: NotebookNode, hidden: Hidden, graded: bool = False) -> Iterator[str]:
    if cell.cell_type == "markdown":
        source = hidden.without(cell.source)
        shown = _plain(source) if cell.metadata.get("plain") else _prose(source, cell.get("attachments"))
        yield f"<div>{shown}</div>"
    elif cell.cell_type == "code":
        yield _plain(hidden.without(cell.source))
        if graded and hidden.here(cell.source):
            yield "<p>Hidden tests ran here too; what they wrote is not shown.</p>"
            return
        for output in cell.outputs:
            if not (graded and _number(output)):  # the heading says it
                yield f'<div class="output">{_output(output, hidden)}</div>'


def _number(output: NotebookNode) -> bool:
    """Whether this is the bare number that nbgrader reads as the points."""
    if output.output_type != "execute_result" or set(output.data) != {"text/plain"}:
        return False
    try:
        float(output.data["text/plain"])
    except ValueError:
        return False
    return True


def _output(output: NotebookNode, hidden: Hidden) -> str:
    if hidden.inside(_texts(output)):
        return f"<p>{_WITHHELD}</p>"
    if output.output_type == "stream":
        return _plain(output.text)
    if output.output_type == "error":
        return _plain("\n".join(output.traceback) or f"{output.ename}: {output.evalue}")
    show = next(show for mime, show in _BY_TYPE.items() if mime in output.data)
    return show(output.data)


def _texts(output: NotebookNode) -> Iterable[str]:
    """Every text in an output that could be read."""
    if output.output_type == "stream":
        return [strip_ansi(output.text)]
    if output.output_type == "error":
        return [strip_ansi("\n".join(output.traceback)), output.ename, output.evalue]
    texts = [text for mime, text in output.data.items() if mime not in ("image/png", "image/jpeg")]
    return [html.unescape(form) for text in texts for form in (text, _TAGS.sub("", text))]


def _plain(text: str) -> str:
    return f"<pre>{html.escape(strip_ansi(text))}</pre>"


def _prose(source: str, attachments: Any = None) -> str:
    return _lower(clean_markdown(source, attachments))


def _lower(markup: str) -> str:
    """Headings below the page's own."""
    return _HEADING.sub(lambda found: f"{found[1]}{min(6, int(found[2]) + 3)}", markup)


def _picture(kind: str) -> Callable[[Any], str]:
    def shown(data: Any) -> str:
        alt = html.escape(data.get("text/plain", "")[:200]) or "A picture that the cell made"
        return f'<img alt="{alt}" src="data:{kind};base64,{"".join(data[kind].split())}">'

    return shown


def _vector(data: Any) -> str:
    import base64

    encoded = base64.b64encode(data["image/svg+xml"].encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="A drawing that the cell made" src="data:image/svg+xml;base64,{encoded}">'


_BY_TYPE: dict[str, Callable[[Any], str]] = {
    "text/html": lambda data: _lower(clean_html(data["text/html"])),
    "text/markdown": lambda data: _prose(data["text/markdown"]),
    "image/png": _picture("image/png"),
    "image/jpeg": _picture("image/jpeg"),
    "image/svg+xml": _vector,
    "text/latex": lambda data: _plain(data["text/latex"]),
    "text/plain": lambda data: _plain(data["text/plain"]),
}
