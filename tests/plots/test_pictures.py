"""What holds for every picture: titles, labels, words, text that fits, and nothing left behind."""

import io
import re
import sys
from itertools import combinations

import numpy as np
from matplotlib.text import Text
from PIL import Image

from ampcourse import plots

NUMBER = re.compile(r"\d")


def shown_texts(figure):
    """Every text that is drawn, with its box in pixels."""
    renderer = figure.canvas.get_renderer()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    axes = [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    ticks = [tick for axis in axes for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())]
    hidden = {id(label) for tick in ticks for label in (tick.label1, tick.label2) if not tick_is_shown(tick, label)}
    return [(text, Text.get_window_extent(text, renderer)) for text in texts if id(text) not in hidden]


def tick_is_shown(tick, label):
    low, high = sorted(tick.axes.get_xlim() if tick.__name__ == "xtick" else tick.axes.get_ylim())
    return label.get_visible() and low - 1e-9 * abs(low) <= tick.get_loc() <= high + 1e-9 * abs(high)


def test_title_labels_and_words(draw, case):
    picture = draw(case)
    figure = picture.figure
    titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "center", "right")]
    assert any(titles) or figure.get_suptitle()
    for axes in (axes for axes in figure.axes if axes.axison):  # a diagram or a map has no scale to name
        below = axes.get_subplotspec().is_last_row()
        assert axes.get_xlabel() or not below
        rows = [label.get_text() for label in axes.get_yticklabels()]
        assert axes.get_ylabel() or not rows or not any(map(NUMBER.match, rows))  # rows that are named need no label
    assert len(picture.alt.split()) >= 8
    assert NUMBER.search(picture.alt)
    assert picture.alt.endswith(".")
    assert "\n" not in picture.alt
    assert "$" not in picture.alt


def test_all_text_lies_inside_and_none_covers_another(draw, case):
    figure = draw(case).figure
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    texts = shown_texts(figure)
    assert texts
    for text, box in texts:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for (one, a), (other, b) in combinations(texts, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        along = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or along <= 1, f"{one} covers {other}"


def test_nothing_is_left_open_or_printed(draw, few, capfd):
    draw(few).png()
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_notebook_gets_an_image_with_its_words_on_white_paper(draw, few):
    picture = draw(few)
    data, metadata = picture._repr_mimebundle_()
    assert data["text/plain"] == picture.alt == metadata["image/png"]["alt"]
    assert 'alt="' in data["text/html"]
    image = Image.open(io.BytesIO(picture.png()))
    assert image.size == (2 * metadata["image/png"]["width"], 2 * metadata["image/png"]["height"])
    assert image.info["Description"] == picture.alt
    pixels = np.asarray(image.convert("RGB"))
    assert (pixels[0] == 255).all()
    assert (pixels[-1] == 255).all()


def test_every_public_plot_is_looked_at(kinds):
    assert kinds == {name for name in plots.__all__ if name.islower()}
