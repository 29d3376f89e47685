"""What a student's markup may do in somebody else's browser: nothing but be read."""

from __future__ import annotations

import time
from typing import Any

import door_attacks as attacks
import pytest
from door_markup import Seen
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from traitlets.config import Config

from ampcourse.grading import nbgrader_hooks as hooks
from ampcourse.grading.doors.clean import MAX_MARKUP, clean_html, clean_markdown, harmless


@pytest.mark.parametrize("markup", attacks.MARKUP)
def test_html_that_runs_or_loads_is_gone(markup: str) -> None:
    for cleaned in (clean_html(markup), clean_markdown(markup), clean_markdown(f"text {markup} text")):
        seen = Seen(cleaned)
        assert seen.running() == []
        assert not {"style", "id", "class", "name"} & {name for _, had in seen.elements for name in had}


@pytest.mark.parametrize("text", attacks.MARKDOWN)
def test_markdown_that_runs_or_loads_is_gone(text: str) -> None:
    attached = {"a.png": {"text/html": "<script>"}, "b.png": {"image/png": '" onerror="x'}}
    assert Seen(clean_markdown(text, attached)).running() == []


def test_what_honest_notebooks_show_stays() -> None:
    table = '<table border="1" class="dataframe"><thead><tr><th scope="col">a</th></tr></thead><tbody><tr>'
    cleaned = clean_html(f'{table}<td colspan="2">1</td></tr></tbody></table><p lang="de">Maß &lt; 1 <b>b</b></p>')
    assert '<th scope="col">a</th>' in cleaned
    assert '<td colspan="2">1</td>' in cleaned
    assert '<p lang="de">Maß &lt; 1 <b>b</b></p>' in cleaned
    picture = f"data:image/png;base64,{attacks.PIXEL}"
    assert picture in clean_html(f'<img src="{picture}" alt="a dot" width="3">')
    text = clean_markdown(
        "# Title\n\n*a* [b](https://example.org/x) `c`\n\n| d |\n|---|\n| 1 |\n\n![e](attachment:e.png)"
    )
    assert '<a href="https://example.org/x"' in text
    assert "<em>a</em>" in text
    assert 'alt="e"' in text  # that the picture is missing is no reason to lose the rest
    text = clean_markdown("![e](attachment:e.png) $x_1$", {"e.png": {"image/png": attacks.PIXEL}})
    assert picture in text
    assert "$x_1$" in text


def test_a_verdict_keeps_its_table_and_its_words() -> None:
    from ampcourse.exercises.check import exercise
    from ampcourse.exercises.markup import verdict_html

    asked = exercise("fp16_range.ulp")
    cleaned = clean_html(verdict_html(asked, _verdict(asked), "✗ Not right yet: 1 of 4 points", ""))
    wanted = ("<caption", 'scope="col"', "✗ Not right yet: 1 of 4 points", "below the least normal", "<pre>line 3")
    assert [word for word in wanted if word not in cleaned] == []


def _verdict(exercise: Any) -> Any:
    from ampcourse.exercises.model import Criterion, Verdict

    criteria = tuple(
        Criterion(name, points, False, "below the least normal") for name, points in exercise.points.items()
    )
    return Verdict("wrong", criteria, traceback=("line 3",))


@pytest.mark.parametrize(
    "text",
    [
        *(">" * 100_000, "[" * 39_999, "*a" * 19_000, "\\begin{a}" * 4000, "![](" * 9000, "`" * 39_999, "- " * 19_000),
        *("|a" * 9000 + "\n" + "|-" * 9000, "<div>" * 7000, "$" * 39_999, "_a __b " * 5000, "x" * 2_000_000),
        "\n".join("> " * 10 + "x" for _ in range(1900)),
    ],
)
def test_long_and_deep_texts_take_seconds_at_most(text: str, patience: float) -> None:
    begun = time.process_time()
    markdown, markup = clean_markdown(text), clean_html(text)
    assert time.process_time() - begun < 5 * patience
    assert max(len(markdown), len(markup)) < 6 * MAX_MARKUP
    assert Seen(markdown).running() == []


def test_elements_nested_by_the_thousand_are_shown_as_text() -> None:
    assert clean_html("<div>" * 5000).startswith("<pre>&lt;div&gt;")
    assert clean_html("<div></p>" * 5000).startswith("<pre>&lt;div&gt;")
    assert clean_html("<p>a<br>b</p>" * 2000).startswith("<p>a<br>b</p>")


def test_a_notebook_for_templates_holds_only_what_they_can_show() -> None:
    made = harmless(attacks.notebook())
    assert set(made.metadata) == {"language_info"}
    types = {mime for cell in made.cells for o in cell.get("outputs", []) for mime in o.get("data", {})}
    assert types <= {"text/html", "text/markdown", "image/svg+xml", "image/png", "text/latex", "text/plain"}
    assert all(not output.get("metadata") for cell in made.cells for output in cell.get("outputs", []))


@pytest.fixture(scope="module")
def exporter() -> HTMLExporter:
    """As formgrader makes it, with its template left out."""
    config = Config()
    hooks.grade_with_ampcourse(config)
    config.HTMLExporter.template_name = "classic"
    return HTMLExporter(config=config)


def body(page: str) -> str:
    return page[page.index("<main") : page.index("</main>")]


def test_formgraders_exporter_shows_nothing_that_runs(exporter: HTMLExporter) -> None:
    seen = Seen(body(exporter.from_notebook_node(attacks.notebook())[0]))
    assert [found for found in seen.running() if not found.startswith("img src=data:")] == []


def test_nbconvert_alone_would_run_it() -> None:
    notebook = attacks.notebook()
    notebook.cells = [cell for cell in notebook.cells if "attachment:" not in cell.source]  # its own way to fail
    for output in notebook.cells[-1].outputs:
        output.get("data", {}).pop("text/markdown", None)
    plain = HTMLExporter(template_name="classic").from_notebook_node(notebook)[0]
    assert len(Seen(body(plain)).running()) > 50


def test_formgraders_exporter_survives_odd_outputs(exporter: HTMLExporter) -> None:
    odd = new_code_cell("x", outputs=[new_output("display_data", data={"text/html": "<div>" * 20_000})])
    odd.outputs += [new_output("stream", name="stdout", text="\x1b[" + "1;" * 5000 + "m x")]
    many = [new_markdown_cell("\\begin{a}" * 4000) for _ in range(60)]
    begun = time.process_time()
    page = exporter.from_notebook_node(new_notebook(cells=[odd, *many, new_markdown_cell("last *one*")]))[0]
    assert "last *one*" in page  # after so much, text stays as it was typed
    assert time.process_time() - begun < 60


@pytest.mark.parametrize(
    "output",
    [
        new_output("stream", name="stdout", text="\x1b[31massert\x1b[0m add(20, 22)\n == 42"),
        new_output("display_data", data={"text/html": "<b>assert</b> add(20,&nbsp;22) == 42"}),
        new_output("display_data", data={"image/png": attacks.PIXEL, "text/plain": "assert add(20, 22) == 42"}),
        new_output("error", ename="a", evalue="assert add(20, 22) == 42", traceback=[]),
    ],
)
def test_an_output_that_holds_a_hidden_test_is_not_shown(output: Any) -> None:
    from ampcourse.grading.doors.hidden import Hidden
    from ampcourse.grading.doors.page import Feedback, page

    feedback = Feedback("ps1", "p1", "ada", hidden=Hidden({}, frozenset({"assert add(20, 22) == 42"})))
    text = page(feedback, new_notebook(cells=[new_code_cell("x", outputs=[output])]))
    assert "This output is not shown" in text
    assert "22" not in text
