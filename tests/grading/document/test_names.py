"""Names that can be graded, and text that is shown to people."""

from __future__ import annotations

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ampcourse.grading.document import acceptable_student, banner, shown, text_for_people

from .samples import mended, solved

FINE = [
    "ada",
    "Ada Lovelace",
    "o'hara",
    'the "best"',
    "a+b",
    "zoë",
    "Ωmega (2)",
    "-x",
    "x{y}",
    "100%",
    "a" * 100,
    "a&b;",
]
REFUSED = {
    "": "is empty",
    "   ": "is empty",
    " ada": "begins or ends with a space",
    "..": "begins with a dot",
    ".": "begins with a dot",
    ".hidden": "begins with a dot",
    "a/b": "separates folders",
    "a\\b": "separates folders",
    "a[1]": "file pattern",
    "a*": "file pattern",
    "a\nb": "U+000A",
    "a\0b": "U+0000",
    "a\u202eb": "U+202E",
    "\udcff": "U+DCFF",
    "a" * 101: "at most 100",
    "🎓" * 60: "at most 100",
}


@pytest.mark.parametrize("name", FINE)
def test_names_that_work(name: str) -> None:
    assert acceptable_student(name) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_names_that_are_refused_with_a_sentence(name: str) -> None:
    sentence = acceptable_student(name)
    assert REFUSED[name] in sentence and sentence.isprintable() and sentence.endswith(".") and len(sentence) < 200
    sentence.encode()


@given(st.text(st.characters()))
def test_any_name_gives_a_plain_answer(name: str) -> None:
    assert acceptable_student(name).isprintable() and shown(name).isprintable()


HOSTILE = [
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](https://example.org/a.png)",
    "a\n\n# head\n\n- item\n<b>",
    "https://example.org",
    "`code` *star* _under_ $x$ &lt; \\ | ~~x~~",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_only_text(text: str) -> None:
    html = MarkdownIt("commonmark", {"html": True}).enable("strikethrough").render(f"- {text_for_people(text)}")
    assert html.count("<") == 6 - 2 and html.startswith("<ul>\n<li>")
    for piece in ("<script", "<a", "<img", "<h1", "<b>", "<code", "<em", "<del"):
        assert piece not in html


def test_a_banner_stands_on_top_and_goes_when_handed_in_again() -> None:
    found = mended(solved("mini"))
    topped = banner(found.notebook, ["The cell 'x' was put back.", "<b>"])
    nbformat.validate(topped)
    assert topped.cells[1:] == found.notebook.cells and topped.cells[0].cell_type == "markdown"
    assert "put back" in topped.cells[0].source and "<" not in topped.cells[0].source
    assert mended(nbformat.writes(topped).encode()).notebook == found.notebook
    assert banner(found.notebook, []) == found.notebook
