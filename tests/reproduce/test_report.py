"""The report: complete, readable without network, colour or mouse, and movable."""

from __future__ import annotations

import html
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from ampcourse.reproduce import executed
from ampcourse.reproduce.display import Display
from ampcourse.reproduce.equations import picture
from ampcourse.reproduce.pages import write_page
from ampcourse.reproduce.report import markdown
from ampcourse.reproduce.results import NotebookResult

VOID = {"meta", "img", "link", "br", "hr", "input"}


class Page(HTMLParser):
    """All tags with their attributes, and whether each was closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data + " "

    def named(self, *names):
        return [attributes for tag, attributes in self.tags if tag in names]

    @property
    def addresses(self):
        return [attributes[key] for _, attributes in self.tags for key in ("href", "src", "data") if key in attributes]


PLOT = """from IPython.display import display
png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
display({"image/png": png, "text/plain": "a dot"}, metadata={"image/png": {"alt": "one red dot"}}, raw=True)"""
TEXT = """# Title
Values below $2^{-24}$ vanish <b>here</b>, see [the next](../01_wrong/01_wrong.ipynb).

$$\\frac{a_1}{\\sqrt{b}}$$

\\begin{aligned} a &= b \\end{aligned}"""


@pytest.fixture(scope="module")
def report(tiny, tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    course = tiny.make_course(
        place / "course",
        {
            "00_good": [TEXT, PLOT, "from ampcourse import record; record('x <b>|', 1.5, 'ms')"],
            "01_wrong": [
                "from ampcourse import record; record('y', float('nan'))",
                "print('<script>alert(1)</script>')",
            ],
        },
        results={"00_good": tiny.expects("x <b>|", 1, 2), "01_wrong": tiny.expects("y", 0, 1)},
    )
    made, _ = tiny.run(course, place / "out")
    return made


@pytest.fixture(scope="module")
def pages(report):
    names = ("index.html", "executed/00_good.html", "executed/01_wrong.html")
    return {name: Page(report.out / name) for name in names}


def test_nothing_comes_from_the_network_and_no_script_runs(pages):
    for name, page in pages.items():
        assert page.named("script", "link", "iframe") == [], name
        assert [one for one in page.addresses if re.match(r"(https?:)?//", one)] == [], name
        assert page.open == [], name


def test_the_folder_can_be_moved(report, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(report.out, moved)
    for path in moved.rglob("*.html"):
        for address in Page(path).addresses:
            if not address.startswith(("#", "data:")):
                assert (path.parent / address).resolve().is_relative_to(moved.resolve())
                assert (path.parent / address).exists(), (path, address)
    assert str(report.out) not in (moved / "executed" / "00_good.ipynb").read_text()


def test_pages_have_language_title_headings_captions_and_alternatives(pages):
    for name, page in pages.items():
        assert page.named("html")[0]["lang"] == "en"
        assert page.named("title")
        assert len(page.named("main")) == 1
        assert len(page.named("h1")) <= 1
        assert len(page.named("caption")) == len(page.named("table")), name
    assert pages["index.html"].named("h1")
    assert [image["alt"] for image in pages["executed/00_good.html"].named("img")] == ["one red dot"]


def test_the_numbers_are_there_in_words(pages):
    text = " ".join(pages["index.html"].text.split())
    assert "2 of 2 notebooks ran to their end; 1 of 2 expected results held." in text
    assert "x <b>| 1.5 ms 1 to 2 held" in text
    assert "y nan 0 to 1 not held not a number" in text
    assert "Machine and versions" in text


def test_light_and_dark(report):
    for path in report.out.rglob("*.html"):
        assert "prefers-color-scheme: dark" in path.read_text("utf-8")


def test_equations_are_drawn_with_their_source_as_alternative(report, pages):
    equations = pages["executed/00_good.html"].named("svg")
    assert [one["aria-label"] for one in equations] == ["2^{-24}", r"\frac{a_1}{\sqrt{b}}"]
    assert all(one["role"] == "img" for one in equations)
    assert r"\begin{aligned} a &= b \end{aligned}" in pages["executed/00_good.html"].text


@pytest.mark.parametrize(
    "tex",
    [
        r"a \le b \ge c \ne d \leq e",
        r"\lvert x \rvert + \lVert g \rVert",
        r"\tfrac12 + \frac{3}{4}",
        r"\bigl( x \bigr) = \left(1 + \frac{F}{1024}\right)",
        r"\text{value} = (-1)^s \times 2^{E-15} \qquad \text{for } 1 \le E \le 30",
        r"\operatorname{ulp}(x) \approx \lfloor \log_2 \hat{x} \rfloor \cdot \mathrm{eps}, \; 65{,}504",
        r"\sum_{i=1}^{n} x_i \to \nabla L, \texttt{code}",
    ],
)
def test_usual_equations_are_drawn(tex):
    drawn = picture(tex)
    assert drawn.startswith("<svg")
    assert "NaN" not in drawn


def test_an_equation_that_cannot_be_drawn_shows_its_source_safely():
    assert picture(r"\nonsense{<x>}") == r"<code>\nonsense{&lt;x&gt;}</code>"
    assert picture('a"b').count('"') % 2 == 0


def test_links_between_lessons_lead_to_their_pages(pages):
    assert "01_wrong.html" in pages["executed/00_good.html"].addresses


def test_printed_text_is_escaped(pages):
    assert "<script>alert(1)</script>" in pages["executed/01_wrong.html"].text


def test_markdown_has_the_same_table(report):
    text = (report.out / "report.md").read_text("utf-8")
    assert "| 00_good | ok | " in text
    assert "| x &lt;b>\\| | 1.5 ms | 1 to 2 | held |  |" in text
    assert "| y | nan | 0 to 1 | not held | not a number |" in text
    assert "| python | " in text


def test_markdown_hides_nothing_between_angle_brackets_or_bars(report):
    said = "TypeError: <tf.Tensor: shape=()> | <script>"
    row = NotebookResult("00_a", "A", "failed", reason=said)
    line = next(one for one in markdown(replace(report, notebooks=(row,))).splitlines() if "TypeError" in one)
    assert re.sub(r"\\(.)", r"\1", html.unescape(line)).count(said) == 1
    assert "<" not in line
    assert len(re.findall(r"(?<!\\)\|", line)) == 6


def test_a_page_that_its_process_did_not_write_is_written_by_the_report(tiny, report, tmp_path):
    notebook = executed.load(report.out / "executed" / "00_good.ipynb")
    write_page(notebook, "Good", tmp_path / "page.html")
    assert "one red dot" in (tmp_path / "page.html").read_text("utf-8")


def test_a_terminal_shows_a_bar_with_the_time_left_and_a_file_plain_lines(tmp_path):
    for terminal in (True, False):
        with (tmp_path / "printed").open("w+", encoding="utf-8") as file:
            console = Console(file=file, force_terminal=terminal, width=120)
            with Display({"00_a": 10.0}, console) as display:
                display.cell("00_a", 3, 10)
                display.finished(NotebookResult("00_a", "A", "failed", 2.0, "It failed [bold]here."))
        text = (tmp_path / "printed").read_text("utf-8")
        assert "00_a: failed after 2.0 s. It failed [bold]here.\n" in text
        assert ("left:" in text) is terminal
        assert ("\x1b" in text) is terminal
    assert text.count("\n") == 1
