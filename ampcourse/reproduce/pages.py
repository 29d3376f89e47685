"""An executed notebook as one HTML page that needs nothing else: no network, no scripts, light and dark."""

from __future__ import annotations

import copy
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from ampcourse.reproduce import executed, files
from ampcourse.reproduce.quick import import_jsonschema

import_jsonschema()

import nbformat  # noqa: E402
from jinja2 import pass_context  # noqa: E402
from nbconvert.exporters.html import HTMLExporter  # noqa: E402
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath  # noqa: E402
from pygments.formatters import HtmlFormatter  # noqa: E402
from traitlets.config import Config  # noqa: E402

from ampcourse.reproduce.equations import picture  # noqa: E402
from ampcourse.reproduce.templating import render  # noqa: E402

# Widgets and scripts do not run in a saved page; their pictures or texts do.
_SHOWN = ["text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/plain"]
_NOTEBOOK_LINK = re.compile(r'href="\.\./(\d\d_\w+)/\1\.ipynb"')  # from lesson to lesson
_LIGHT, _DARK = "xcode", "zenburn"  # of pygments' styles those with the best contrast on our backgrounds


class _Renderer(IPythonRenderer):
    """Markdown whose equations are pictures instead of waiting for MathJax from the network."""

    def heading(self, text: str, level: int, **_: Any) -> str:
        """A heading that links can lead to, without a link of its own."""
        words = re.sub(r"<[^>]*>", "", text).strip().replace(" ", "-")
        return f'<h{level} id="{escape(words, quote=True)}">{text}</h{level}>\n'

    def block_math(self, body: str) -> str:
        return picture(body, block=True)

    def inline_math(self, body: str) -> str:
        return picture(body)

    def latex_environment(self, name: str, body: str) -> str:
        return picture(rf"\begin{{{name}}}{body}\end{{{name}}}", block=True)


class _Exporter(HTMLExporter):
    """nbconvert's plain body of a notebook, with our equations."""

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "markdown2html", self._markdown

    @pass_context
    def _markdown(self, context: Any, source: str) -> str:
        attachments = context.get("cell", {}).get("attachments", {})
        renderer = _Renderer(escape=False, exclude_anchor_links=True, attachments=attachments)
        return MarkdownWithMath(renderer=renderer).render(source)


def write_page(notebook: dict[str, Any], title: str, target: Path) -> None:
    """Write the page of an executed notebook.

    Raises:
        OutputError: if the file cannot be written.
    """
    about = notebook["metadata"].get("ampcourse", {})
    body = _exporter().from_notebook_node(nbformat.from_dict(_with_notes(notebook)))[0]
    stopped = 'id="stopped"' in body
    body = _NOTEBOOK_LINK.sub(r'href="\1.html"', body)
    files.write(
        target, render("notebook.html.j2", style=_colours(), title=title, about=about, body=body, stopped=stopped)
    )


def _with_notes(notebook: dict[str, Any]) -> dict[str, Any]:
    """A copy that says in words in which cell the run stopped; the page's head has the rest."""
    shown = copy.deepcopy(notebook)
    shown["cells"] = [cell for cell in shown["cells"] if not executed.is_label(cell)]
    states = executed.statuses(shown)
    ends = [states.index(state) for state in (executed.FAILED, executed.NOT_RUN) if state in states]
    if ends:
        cells = zip(states, shown["cells"], strict=True)
        missing = sum(state == executed.NOT_RUN and cell["cell_type"] == "code" for state, cell in cells)
        note = "**The run stopped in the next cell.**" if executed.FAILED in states else "**The run stopped here.**"
        if missing:
            note += f" {missing} code cell{'s' * (missing != 1)} below did not run."
        note = f'<span id="stopped"></span>{note}'
        shown["cells"].insert(min(ends), nbformat.v4.new_markdown_cell(note))
    return shown


@cache
def _exporter() -> _Exporter:
    return _Exporter(
        template_name="basic", config=Config({"NbConvertBase": {"display_data_priority": _SHOWN}}), embed_images=False
    )


@cache
def _colours() -> str:
    """Colours of code, for light and dark."""
    light, dark = (HtmlFormatter(style=name).get_style_defs(".highlight") for name in (_LIGHT, _DARK))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
