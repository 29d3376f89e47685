"""The slider redraws in a live notebook; everywhere else its picture stands in its place."""

import json
import re
from html import unescape

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from ampcourse import numerics, plots
from ampcourse.plots import explorer as module
from ampcourse.plots.words import percent, power

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def explorer(data):
    return plots.gradient_explorer(data.gradients, "float16", data.scales, interactive=True)


def test_moving_the_slider_redraws_picture_and_words(explorer, data):
    slider, picture, words = explorer.widget.children
    seen = set()
    for scale in data.scales[::4]:
        slider.value = scale
        fate = numerics.fate(data.gradients, "float16", scale)
        assert percent(fate.flushed) + " flushed to 0" in words.value
        assert percent(fate.relative_error) in words.value or fate.overflowed
        assert 'alt="' in picture.value
        seen.add(picture.value)
    assert len(seen) == len(data.scales[::4])


def test_slider_is_named_and_its_words_are_announced(explorer, data):
    slider, _, words = explorer.widget.children
    assert slider.description == "loss scale"
    assert "Arrow keys" in slider.tooltip
    assert [value for _, value in slider.options] == data.scales.tolist()
    assert slider.options[1][0] == "2^3 = 8"
    assert 'role="status"' in words.value
    assert 'aria-live="polite"' in words.value


def test_live_output_holds_both_the_slider_and_the_picture(explorer):
    bundle, metadata = explorer._repr_mimebundle_()
    assert bundle[WIDGET]["model_id"] == explorer.widget.model_id
    assert {"image/png", "text/html", "text/plain"} < set(bundle)
    assert metadata["image/png"]["alt"] == explorer.alt
    json.dumps(bundle)


def test_static_picture_shows_the_least_error(explorer, data):
    best = min(numerics.fate_by_scale(data.gradients, data.scales), key=lambda fate: fate.relative_error)
    assert f"loss scale {power(best.scale)}" in explorer.alt
    assert explorer.figure is explorer.picture.figure


def test_picture_alone_where_it_was_asked_for(data):
    bundle, _ = plots.gradient_explorer(data.gradients, interactive=False)._repr_mimebundle_()
    assert WIDGET not in bundle


def test_no_widget_is_made_before_it_is_shown(explorer):
    assert explorer._widget is None


def test_saves_its_picture(explorer, tmp_path):
    assert explorer.save(tmp_path / "explorer.png").read_bytes() == explorer.picture.png()


@pytest.mark.parametrize(
    ("sender", "slides"),
    [("5f4b2c1e-9f6a-4a55-8a57-5d1c9f3a2b10", True), ("a1b2c3d4-e5f60718_4242_7", False)],
    ids=["front end in a browser", "jupyter_client"],
)
def test_who_sent_the_cell_decides(monkeypatch, sender, slides):
    class Shell:
        class kernel:
            @staticmethod
            def get_parent(channel):
                return {"header": {"msg_id": sender}}

    monkeypatch.setattr("IPython.get_ipython", lambda: Shell)
    assert module.someone_can_slide() is slides


def test_nobody_slides_outside_a_kernel():
    assert module.someone_can_slide() is False


def test_executed_notebook_and_its_page_show_the_picture():
    cell = "from ampcourse import plots\nplots.gradient_explorer([1e-8, 1e-6, 1.0], scales=[1.0, 2.0**10])"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    NotebookClient(notebook, timeout=120).execute()
    (output,) = notebook.cells[0].outputs
    assert WIDGET not in output.data
    assert output.metadata["image/png"]["alt"] == output.data["text/plain"]
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert [unescape(alt) for alt in re.findall(r'<img[^>]* ?alt="([^"]+)"', page)] == [output.data["text/plain"]]
