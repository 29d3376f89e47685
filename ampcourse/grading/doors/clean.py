"""What a student's notebook may show in somebody else's browser: text, tables, pictures. Nothing that runs or loads.

Everything that reaches a page goes through here: HTML that a cell displayed, markdown, and what nbconvert would take
from a notebook's metadata. Markup is cleaned by nh3, which keeps what is named here and nothing else.
"""

from __future__ import annotations

import html
import re
from typing import Any

import nh3
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

MAX_MARKUP, MAX_MARKDOWN = 300_000, 40_000
"""Characters from which on HTML and markdown are shown as plain text: nobody reads so much, and the markdown parser's
time grows with the square of some inputs (20 s for 180,000 characters)."""
PLAIN = "plain"
"""Key in the metadata of a markdown cell that is shown as it was typed, because there was too much before it."""
MAX_DEPTH = 200
"""Elements in elements; programs that walk the tree stumble over more."""

_TEXT = "a abbr b blockquote br cite code dd del dfn dl dt em h1 h2 h3 h4 h5 h6 hr i ins kbd li mark ol p pre q s samp"
_MORE = "small span strike strong sub sup tt u ul var wbr div section figure figcaption img details summary"
_TABLE = "table caption colgroup col thead tbody tfoot tr th td"
_NEVER = (
    "script style iframe frame frameset object embed applet svg math noscript noembed noframes template textarea "
    "select title head audio video canvas xmp plaintext listing"
)
_TAGS = frozenset(f"{_TEXT} {_MORE} {_TABLE}".split())
_ATTRIBUTES = {
    "*": {"lang", "dir"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start"},
    "td": {"colspan", "rowspan", "headers"},
    "th": {"colspan", "rowspan", "headers", "scope"},
    "section": {"aria-label"},
}
_NUMBERS = {"width", "height", "colspan", "rowspan", "start"}
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+", re.IGNORECASE)
_LINK = re.compile(r"(?:https?|mailto):", re.IGNORECASE)
_SHOWN = ("text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/latex", "text/plain")
_NAME = re.compile(r"[\w][\w .+-]{0,200}")
_TAG, _VOID = re.compile(r"<(/?)([a-z0-9]+)"), {"br", "hr", "img", "wbr", "col"}
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def _attribute(tag: str, name: str, value: str) -> str | None:
    """The attribute's value if it is harmless, else None."""
    if tag == "img" and name == "src":
        return value if _PICTURE.fullmatch(value) else None
    if tag == "a" and name == "href":
        return value if _LINK.match(value) else None
    if name in _NUMBERS:
        return value if value.isascii() and value.isdecimal() and int(value[:6]) <= 5000 and len(value) <= 5 else None
    return value


_CLEANER = nh3.Cleaner(
    tags=set(_TAGS),
    clean_content_tags=set(_NEVER.split()),
    attributes=_ATTRIBUTES,
    attribute_filter=_attribute,
    url_schemes={"http", "https", "mailto", "data"},
    url_relative="deny",
    strip_comments=True,
    link_rel="noopener noreferrer nofollow",
)


def clean_html(markup: Any) -> str:
    """The markup with harmless elements and attributes alone; text as it is.

    Args:
        markup: HTML, also broken HTML; what is no text, or too long to parse, is shown as text.
    """
    text = markup if isinstance(markup, str) else str(markup)
    if len(text) > MAX_MARKUP or text.count("<") > 60_000:
        return preformatted(text)
    cleaned = _CLEANER.clean(text)
    return cleaned if _depth(cleaned) <= MAX_DEPTH else preformatted(text)


def clean_markdown(source: Any, attachments: Any = None) -> str:
    """Markdown as clean HTML; formulas stay as they were typed, for nothing on the page sets them."""
    text = source if isinstance(source, str) else str(source)
    if len(text) > MAX_MARKDOWN:
        return preformatted(text)
    renderer = IPythonRenderer(
        escape=False, attachments=_Pictures(_pictures(attachments)), embed_images=False, exclude_anchor_links=True
    )
    try:
        return clean_html(MarkdownWithMath(renderer=renderer).render(text))
    except Exception:  # a parser of others, fed by anybody: whatever it stumbles over is still readable as text
        return preformatted(text)


class _Pictures(dict[str, dict[str, str]]):
    """Attachments; for one that is missing, nbconvert would give up the whole cell."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> dict[str, str]:
        return {"image/png": ""}


@pass_context
def markdown_filter(context: Any, source: Any) -> str:
    """Stands for nbconvert's filter `markdown2html` in formgrader's page."""
    cell = context.get("cell", {})
    if cell.get("metadata", {}).get(PLAIN):
        return preformatted(str(source))
    return clean_markdown(source, cell.get("attachments"))


def preformatted(text: str) -> str:
    """Text as it is, cut where nobody reads on."""
    cut = f"\n… and {len(text) - MAX_MARKUP:,} more characters" if len(text) > MAX_MARKUP else ""
    return f"<pre>{html.escape(text[:MAX_MARKUP])}{cut}</pre>"


def _depth(cleaned: str) -> int:
    """How deeply elements are nested in markup that nh3 wrote, in which everything is closed."""
    depth = deepest = 0
    for tag in _TAG.finditer(cleaned):
        depth += -1 if tag[1] else tag[2] not in _VOID
        deepest = max(deepest, depth)
    return deepest


def _pictures(attachments: Any) -> dict[str, dict[str, str]]:
    """Those attachments that are pictures."""
    found = {}
    for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
        if isinstance(bundle, dict):
            pictures = {m: d for m, d in bundle.items() if m in ("image/png", "image/jpeg", "image/gif")}
            found[str(name)] = {m: d for m, d in pictures.items() if isinstance(d, str) and _BASE64.fullmatch(d)}
    return {name: bundle for name, bundle in found.items() if bundle}


def harmless(notebook: NotebookNode) -> NotebookNode:
    """A copy of a notebook that a template can show: the parts that templates print unescaped are checked or left out.

    nbconvert writes an output's width into an attribute without quotes, loads what an output's metadata names as its
    file, and puts widget state, JavaScript and isolated frames on the page. Nothing of that is left here.
    """
    language = NotebookNode(language_info=NotebookNode(name="python", pygments_lexer="python3"))
    cells, left = [_cell(cell) for cell in notebook.cells], 5 * MAX_MARKDOWN
    for cell in (cell for cell in cells if cell.cell_type == "markdown"):
        left -= len(cell.source)
        cell.metadata[PLAIN] = left < 0
    return NotebookNode(
        nbformat=notebook.nbformat, nbformat_minor=notebook.nbformat_minor, metadata=language, cells=cells
    )


def _cell(cell: NotebookNode) -> NotebookNode:
    kind = cell.cell_type if cell.cell_type in ("code", "markdown", "raw") else "raw"
    made = NotebookNode(cell_type=kind, source=str(cell.get("source", "")), metadata=NotebookNode())
    about = cell.get("metadata", {}).get("nbgrader")
    if isinstance(about, dict) and _NAME.fullmatch(str(about.get("grade_id", ""))):
        made.metadata["nbgrader"] = NotebookNode(about)
    identity = str(cell.get("id", ""))
    made["id"] = identity if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", identity) else ""
    if kind == "code":
        count = cell.get("execution_count")
        made["execution_count"] = count if isinstance(count, int) else None
        made["outputs"] = [shown for output in cell.get("outputs", []) if (shown := _output(output))]
    elif pictures := _pictures(cell.get("attachments")):
        made["attachments"] = NotebookNode({name: NotebookNode(bundle) for name, bundle in pictures.items()})
    return made


def _output(output: NotebookNode) -> NotebookNode | None:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return NotebookNode(output_type=kind, name=name, text=str(output.get("text", "")))
    if kind == "error":
        lines = [str(line) for line in output.get("traceback", [])]
        return NotebookNode(
            output_type=kind, ename=str(output.get("ename")), evalue=str(output.get("evalue")), traceback=lines
        )
    data = {m: d for m in _SHOWN if isinstance(d := output.get("data", {}).get(m), str)}
    data = {m: d for m, d in data.items() if m not in ("image/png", "image/jpeg") or _BASE64.fullmatch(d)}
    if kind not in ("display_data", "execute_result") or not data:
        return None
    made = NotebookNode(output_type=kind, data=NotebookNode(data), metadata=NotebookNode())
    if kind == "execute_result":
        made["execution_count"] = None
    return made
