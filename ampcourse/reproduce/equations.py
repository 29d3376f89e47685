"""Equations as inline pictures, drawn by matplotlib: they need no network, and follow the page's colour and size."""

from __future__ import annotations

import re
from html import escape

# What LaTeX knows and matplotlib calls otherwise or does without.
_SYNONYMS = (
    (r"\\(le|ge|ne)(?![a-zA-Z])", r"\\\1q"),
    (r"\\[lr]vert(?![a-zA-Z])", "|"),
    (r"\\[lr]Vert(?![a-zA-Z])", r"\\|"),
    (r"\\tfrac(?![a-zA-Z])", r"\\frac"),
    (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
    (r"\\texttt(?![a-zA-Z])", r"\\mathtt"),
    (r"\\[bB]ig{1,2}[lrm]?(?![a-zA-Z])", ""),
)
_SIZE = 100.0  # points; only ratios matter, the page scales by em


def picture(tex: str, block: bool = False) -> str:
    """An equation as SVG with its LaTeX source as text alternative; the source itself where it cannot be drawn.

    matplotlib draws the usual symbols, fractions, roots and sums; it knows no environments such as aligned.
    """
    source = " ".join(tex.split())
    try:
        drawn = _svg(source, source)
    except (ValueError, RuntimeError):
        drawn = f"<code>{escape(source)}</code>"
    return f'<p class="equation">{drawn}</p>' if block else drawn


def _svg(source: str, label: str) -> str:
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    for theirs, ours in _SYNONYMS:
        source = re.sub(theirs, ours, source)
    font, text = FontProperties(size=_SIZE), f"${source}$"
    with matplotlib.rc_context({"mathtext.fontset": "stix"}):
        drawer = TextToPath()
        vertices, codes = drawer.get_text_path(font, text, ismath=True)
        width, height, depth = drawer.get_text_width_height_descent(text, font, ismath=True)
    width, height, depth = (size / _SIZE for size in (width, height, depth))
    box = f"0 {-(height - depth) - 0.02:.3f} {width:.3f} {height + 0.04:.3f}"
    return (
        f'<svg class="equation" role="img" aria-label="{escape(label, quote=True)}" viewBox="{box}" '
        f'style="width:{width:.3f}em;height:{height + 0.04:.3f}em;vertical-align:{-depth - 0.02:.3f}em">'
        f'<path fill="currentColor" d="{_outline(vertices, codes)}"/></svg>'
    )


def _outline(vertices: object, codes: object) -> str:
    """Matplotlib's path as SVG's: codes 1 move, 2 line, 3 quadratic (two points), 4 cubic (three), 79 close."""
    letters, words = {1: "M", 2: "L", 3: "Q", 4: "C"}, []
    previous, left = 0, 0
    for (x, y), code in zip(vertices, codes, strict=True):  # type: ignore[call-overload]
        if code == 79:
            words.append("Z")
            left = 0
            continue
        if left == 0 or code != previous:
            words.append(letters[int(code)])
            left = {3: 2, 4: 3}.get(int(code), 1)
        previous, left = code, left - 1
        words.append(f"{x / _SIZE:.3f} {-y / _SIZE:.3f}")
    return " ".join(words)
