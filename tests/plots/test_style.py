"""The picture's own behaviour: files, notebooks with other settings, and room for names."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from PIL import Image

from ampcourse import plots
from ampcourse.plots.style import spread


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_save_writes_the_words_into_the_file(tmp_path, kind):
    picture = plots.bit_layout("float16")
    path = picture.save(tmp_path / f"bits of x.{kind}")
    content = path.read_bytes()
    assert len(content) > 1000
    if kind == "png":
        assert Image.open(path).info["Description"] == picture.alt
    if kind == "svg":
        assert picture.alt.encode() in content


@pytest.mark.parametrize("name", ["picture.gif", "picture", "nowhere/picture.png"])
def test_save_says_what_is_wrong_with_a_name(tmp_path, name):
    with pytest.raises(ValueError, match=r"(end the name in|create it before)") as caught:
        plots.bit_layout("float16").save(tmp_path / name)
    assert str(caught.value).count(". ") == 0
    assert list(tmp_path.iterdir()) == []


def test_looks_the_same_whatever_style_the_notebook_has_set():
    plain = plots.bit_layout("float16").png()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "text.color": "white", "figure.dpi": 30}):
        before = dict(matplotlib.rcParams)
        other = plots.bit_layout("float16").png()
        assert dict(matplotlib.rcParams) == before
    assert other == plain


def test_importing_plots_needs_neither_tensorflow_nor_pyplot_and_says_nothing():
    script = (
        "import sys; from ampcourse import plots; plots.bit_layout().png();"
        "plots.gradient_explorer([1.0, 2.0])._repr_mimebundle_();"
        "found = {'tensorflow', 'keras', 'matplotlib.pyplot'} & set(sys.modules); assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("wanted", "sizes", "places"),
    [
        ([0.5], [0.1], [0.5]),
        ([0.5, 0.5], [0.1, 0.1], [0.45, 0.55]),
        ([0.0, 0.9], [0.2, 0.2], [0.1, 0.9]),
        ([0.98, 0.99, 1.0], [0.1, 0.1, 0.1], [0.75, 0.85, 0.95]),
        ([], [], []),
    ],
)
def test_names_move_as_little_as_they_must(wanted, sizes, places):
    assert spread(wanted, sizes) == pytest.approx(places)


def test_names_never_overlap_and_stay_inside():
    rng = np.random.default_rng(0)
    for _ in range(300):
        count = rng.integers(1, 8)
        wanted, sizes = np.sort(rng.uniform(-0.2, 1.2, count)).tolist(), rng.uniform(0.01, 0.3, count).tolist()
        places = np.array(spread(wanted, sizes))
        extents = np.array(sizes) * min(1.0, 1.0 / sum(sizes))
        assert places[0] - extents[0] / 2 >= -1e-9
        assert places[-1] + extents[-1] / 2 <= 1 + 1e-9
        assert (np.diff(places) >= (extents[:-1] + extents[1:]) / 2 - 1e-9).all()
