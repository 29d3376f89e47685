"""What is shown: one output, readable as text, as an accessible table, in a real kernel."""

from __future__ import annotations

import html.parser
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from ampcourse.exercises import view
from ampcourse.exercises.check import check
from ampcourse.exercises.engine import Question, judge
from ampcourse.exercises.markup import verdict_html
from ampcourse.exercises.model import Exercise, Verdict
from ampcourse.exercises.observe import observe

VOID = {"br", "hr", "img", "input", "meta"}


class Page(html.parser.HTMLParser):
    """Reads a fragment strictly: every tag is closed in order; collects tags, attributes and text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def count(self, tag: str, **attributes: str) -> int:
        return sum(t == tag and attributes.items() <= a.items() for t, a in self.tags)


def verdict_on(asked: Exercise, answer: Any) -> Verdict:
    question = Question(asked)
    return judge([question], [observe(asked.observer, question.packed, answer)])


def page(asked: Exercise, verdict: Verdict, hint: str = "") -> Page:
    return Page(verdict_html(asked, verdict, view.headline(verdict), hint))


def raises(x: Any) -> Any:
    return 1 / 0


def stub(x: Any) -> Any:
    raise NotImplementedError


@pytest.fixture(params=["right", "wrong", "raised", "not attempted"])
def shown(request: pytest.FixtureRequest, demo: ModuleType) -> tuple[Exercise, Verdict]:
    answers = {"right": demo.gap.right, "wrong": demo.gap.mistakes[1].answer, "raised": raises, "not attempted": stub}
    verdict = verdict_on(demo.gap, answers[request.param])
    assert verdict.outcome == request.param
    return demo.gap, verdict


def test_the_table_is_a_real_table(shown: tuple[Exercise, Verdict]) -> None:
    asked, verdict = shown
    read = page(asked, verdict)
    assert (read.count("table"), read.count("caption"), read.count("thead"), read.count("tbody")) == (1, 1, 1, 1)
    assert read.count("th", scope="col") == 4
    assert read.count("th", scope="row") == len(verdict.criteria)
    assert read.count("td") == 3 * len(verdict.criteria)
    assert read.count("section") == 1


def test_the_outcome_is_in_words_and_symbols_never_colour_alone(shown: tuple[Exercise, Verdict]) -> None:
    asked, verdict = shown
    read = page(asked, verdict)
    assert view.headline(verdict) in read.text
    for c in verdict.criteria:
        assert c.name in read.text
    words = {"right": "✓ passed", "not attempted": "○ not attempted"}.get(verdict.outcome, "✗ not passed")
    assert words in read.text
    styles = ";".join(a.get("style", "") for _, a in read.tags)
    assert "#" not in styles
    assert "rgb" not in styles
    colours = [part.split(":")[1] for part in styles.split(";") if part.split(":")[0] in ("color", "background")]
    assert set(colours) <= {"inherit", "none"}


def test_every_outcome_has_another_headline(demo: ModuleType) -> None:
    answers = (demo.gap.right, demo.gap.mistakes[1].answer, raises, stub)
    heads = {view.headline(verdict_on(demo.gap, a)).partition(":")[0] for a in answers}
    assert len(heads) == 4
    assert len({head[0] for head in heads}) == 4, "another symbol too"


def test_text_and_html_say_the_same(shown: tuple[Exercise, Verdict]) -> None:
    asked, verdict = shown
    plain = view.text(asked, verdict, hints_left=1)
    read = page(asked, verdict, hint="" if verdict.outcome == "right" else 'hint("demo.gap")')
    pieces = [*verdict.says, *verdict.traceback, verdict.insight, *(c.says for c in verdict.criteria)]
    pieces += [verdict.example.given, verdict.example.expected] if verdict.example else []
    for piece in filter(None, pieces):
        assert piece in plain
        assert piece in read.text
    assert ('hint("demo.gap")' in plain) == ('hint("demo.gap")' in read.text) == (verdict.outcome != "right")


NASTY = "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;"


def test_what_the_learner_controls_is_escaped() -> None:
    class Nasty(Exception):
        pass

    Nasty.__name__ = NASTY

    def speaks(x: Any) -> Any:
        sys.stdout.write(NASTY)
        os.write(2, NASTY.encode())
        raise Nasty(NASTY)  # <script>alert(2)</script>

    asked = Exercise(
        "demo.made", lambda rng: {"<b>": (rng.normal(),), "t": (NASTY,)}, lambda x: 1.0, {"<b>": 1, "t": 1}
    )
    for answer in (speaks, lambda x: NASTY, lambda x: {NASTY: 1}):
        read = page(asked, verdict_on(asked, answer))
        assert not {"script", "img", "b"} & {tag for tag, _ in read.tags}
        assert not [a for _, attributes in read.tags for a in attributes if a.startswith("on")]
    assert NASTY[:20] in page(asked, verdict_on(asked, speaks)).text


def test_an_error_everywhere_is_told_once(demo: ModuleType) -> None:
    verdict = verdict_on(demo.gap, raises)
    assert [c.says for c in verdict.criteria] == [
        "ZeroDivisionError: division by zero",
        "the same again",
        "the same again",
    ]


def test_a_terminal_that_cannot_show_it_is_no_error(demo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert check("demo.gap", demo.gap.right) == 4.0
    sys.stdout.flush()
    assert b"Right: 4 of 4" in raw.getvalue()


CELLS = [
    "import ampcourse.exercises.answers as course\ncourse.__path__.append({folder!r})\n"
    "import os, sys, warnings\nimport numpy as np\nfrom ampcourse import check, hint\n"
    "import tensorflow as tf  # here, because on a busy machine it takes longer than an answer may",
    "def gap(x):\n    return 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), 2.0**-14))) - 10)",
    'check("demo.gap", gap)',
    "def gap(x):\n    warnings.warn('careful')\n    print('printed')\n    sys.stderr.write('python\\n')\n"
    "    os.write(2, b'descriptor\\n')\n    tf.print('graph', output_stream=sys.stderr)\n"
    "    return tf.constant(x)",
    'check("demo.gap", gap)',
    "def gap(x):\n    y = x + 1\n    return np.linalg.solve(y, x)  # my line",
    'check("demo.gap", gap)',
    'hint("demo.gap")',
    'check("demo.gap", 3.0)',
    "os.write(2, b'still there\\n')\nimport time\ntime.sleep(1)  # the kernel reads its own stderr now and then",
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells above, run in a kernel."""
    folder = str(Path(__file__).parent / "demo_answers")
    sources = [CELLS[0].format(folder=folder), *CELLS[1:]]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    environment = {**os.environ, "AMPCOURSE_HOME": str(tmp_path_factory.mktemp("home"))}
    for name in ("TF_CPP_MIN_LOG_LEVEL", "PYTEST_CURRENT_TEST", "AMPCOURSE_PROFILE"):
        environment.pop(name, None)
    NotebookClient(notebook, kernel_name="python3", timeout=120).execute(env=environment)
    return notebook.cells


@pytest.mark.parametrize(("number", "score"), [(2, "4.0"), (4, "0.0"), (6, "0.0")])
def test_in_a_kernel_a_check_is_one_display_and_one_float(cells: list[Any], number: int, score: str) -> None:
    display, result = cells[number].outputs
    assert display.output_type == "display_data"
    assert set(display.data) == {"text/plain", "text/html"}
    assert Page(display.data["text/html"]).count("table") == 1
    assert result.output_type == "execute_result"
    assert result.data["text/plain"] == score


def test_in_a_kernel_what_goes_to_stderr_becomes_feedback(cells: list[Any]) -> None:
    text = cells[4].outputs[0].data["text/plain"]
    for word in ("careful", "printed", "python", "descriptor", "graph"):
        assert word in text
    assert "cpu_feature_guard" not in text


def test_in_a_kernel_the_learners_line_is_shown(cells: list[Any]) -> None:
    text = cells[6].outputs[0].data["text/plain"]
    assert "gap, line 3: return np.linalg.solve(y, x)  # my line" in text
    assert "(inside numpy: solve)" in text
    assert "ampcourse" not in text


def test_in_a_kernel_slips_and_hints_are_one_output(cells: list[Any]) -> None:
    assert [o.output_type for o in cells[7].outputs] == ["display_data"]
    assert [o.output_type for o in cells[8].outputs] == ["display_data", "execute_result"]
    assert "brackets" in cells[8].outputs[0].data["text/plain"]


def test_in_a_kernel_stderr_works_again_afterwards(cells: list[Any]) -> None:
    assert [(o.name, o.text) for o in cells[9].outputs if o.output_type == "stream"] == [("stderr", "still there\n")]
