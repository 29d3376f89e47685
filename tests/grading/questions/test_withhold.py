"""Which statements of the given cells run when something of the course is withheld: all but those that need it."""

from __future__ import annotations

import re

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from ampcourse.grading.model import GradingError
from ampcourse.grading.modules import home, modules, offered
from ampcourse.grading.withhold import OBSERVING, answering, never, placed, runs_instead

WITHHELD = (
    "ampcourse.numerics",
    "ampcourse.numerics.formats",
    "ampcourse.amp.auditing",
    "ampcourse.models.density",
    "ampcourse.exercises.check",
)
IMPORTS = "import numpy as np\nfrom ampcourse import amp, check, numerics, plots\nfrom ampcourse.models import density"
STAND_IN = re.compile(r"^\w+ = __import__\('ampcourse.absent'\)\.absent\.left_out\('\w+'\)$\n?", re.MULTILINE)


def notebook(*texts: str, answers: tuple[str, ...] = ()) -> NotebookNode:
    """Given cells, and cells that hold an answer where a text is one of `answers`."""
    about = {"nbgrader": {"grade_id": "a", "solution": True, "grade": False}}
    return new_notebook(cells=[new_code_cell(t, metadata=about if t in answers else {}) for t in texts])


def left(*texts: str, answers: tuple[str, ...] = ()) -> list[str]:
    """What runs of each cell, after a cell of imports."""
    instead = runs_instead(notebook(IMPORTS, *texts, answers=answers), WITHHELD)
    assert IMPORTS not in instead, "imports always run"
    return [STAND_IN.sub("", placed(instead, text)).strip() for text in texts]


@pytest.mark.parametrize(
    "text",
    [
        "x = np.zeros(3)",
        "plots.bit_layout()",
        "amp.hardware()",
        "check('a.b', 1)",  # it stands for the real one, and says that it is switched off
        "def later():\n    return numerics.FLOAT16.ulp(1.0)",
        "class Later:\n    def get(self):\n        return density.train()",
        "%matplotlib inline\nx = 1",
        "%%bash\necho numerics",
        "this is no Python (",
        "numerics = 3\nprint(numerics)",
        "for numerics in range(3):\n    print(numerics)",
        "print([numerics for numerics in range(3)])",
        "print((lambda numerics: numerics)(1))",
        "from ampcourse.numerics import FLOAT16",
        "import ampcourse.numerics.formats as formats",
        "from ampcourse.amp import audit, hardware",
    ],
)
def test_what_needs_nothing_withheld_runs_as_it_is(text: str) -> None:
    assert left(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "numerics.FLOAT16.ulp(1.0)",
        "print(numerics)",
        "x = density.train('float32')",
        "amp.audit(None)",
        "y = [numerics.get_format(f) for f in 'ab']",
        "y = list(map(lambda f: numerics.get_format(f), 'ab'))",
        "for f in numerics.FORMATS:\n    print(f)",
        "with np.errstate(all='ignore'):\n    numerics.trace(1, [])",
        "try:\n    numerics.trace(1, [])\nexcept ValueError:\n    pass",
        "if True:\n    numerics.trace(1, [])",
        "@numerics.decorator\ndef f():\n    pass",
        "def f(format=numerics.FLOAT16):\n    pass",
        "class F(numerics.Format):\n    pass",
        "print(f'{numerics.FLOAT16}')",
        "numerics += 1",
        "(numerics.FLOAT16)  # shown",
    ],
)
def test_what_needs_something_withheld_does_not_run(text: str) -> None:
    assert left(text) == [""]


def test_only_the_statements_that_need_it_are_left_out() -> None:
    text = "a = 1\nb = numerics.FLOAT16\nc = a + 1\nprint(b)\nd = c"
    assert left(text) == ["a = 1\nc = a + 1\nd = c"]


def test_it_spreads_through_names_until_they_are_bound_anew() -> None:
    assert left("x = numerics.FLOAT16", "y = x.bits", "print(y)", "y = 3", "y + 1") == ["", "", "", "y = 3", "y + 1"]


def test_the_same_text_twice_runs_as_far_as_it_can_in_one_place() -> None:
    assert left("x = numerics.FLOAT16", "print(x)", "x = 3", "print(x)") == ["", "print(x)", "x = 3", "print(x)"]


def test_new_names_stand_for_why_they_are_not_there() -> None:
    text = "old = 1\nhalf, old = numerics.FLOAT16, 2\nfor _ in numerics.FORMATS:\n    pass"
    instead = runs_instead(notebook(IMPORTS, text), WITHHELD)
    assert instead[text] == "old = 1\nhalf = __import__('ampcourse.absent').absent.left_out('half')"


def test_it_spreads_through_functions_when_they_are_called() -> None:
    text = "def show(value):\n    print(numerics.FLOAT16.ulp(value))"
    assert left(text, "show(3)", "shown = show", "shown(3)") == [text, "", "", ""]
    hidden = "def show(numerics):\n    print(numerics)"
    assert left(hidden, "show(3)") == [hidden, "show(3)"]


def test_it_spreads_to_what_would_have_been_filled() -> None:
    filled = "found = {}\nfor f in ['a']:\n    found[f] = numerics.get_format(f)"
    assert left(filled, "print(found['a'])", "np.zeros(3)") == ["found = {}", "", "np.zeros(3)"]
    assert left("rows = []\nrows.append(numerics.FLOAT16)", "print(rows[0])") == ["rows = []", ""]


def test_a_library_is_not_spoilt_by_a_call_of_it() -> None:
    assert left("np.random.seed(numerics.FLOAT16.bits)", "print(np.zeros(3))") == ["", "print(np.zeros(3))"]


def test_what_an_answer_binds_runs() -> None:
    answer = "def ulp(x):\n    return numerics.FLOAT16.ulp(x)"
    assert left("x = numerics.FLOAT16", "x = 3", answer, "ulp(x)", answers=(answer,)) == ["", "x = 3", answer, "ulp(x)"]


def test_answers_themselves_are_never_changed() -> None:
    answer = "numerics.FLOAT16.ulp(1.0)"
    assert left(answer, answers=(answer,)) == [answer]


def test_nothing_changes_where_nothing_is_withheld() -> None:
    assert runs_instead(notebook(IMPORTS, "numerics.FLOAT16"), ()) == {}


def test_magics_stay_where_a_cell_is_cut() -> None:
    (text,) = left("%matplotlib inline\nnumerics.FLOAT16\nx = 1")
    assert text == "get_ipython().run_line_magic('matplotlib', 'inline')\nx = 1"


def test_withheld_is_whatever_imports_it_too_but_never_what_observes() -> None:
    found = answering(["ampcourse.numerics.FLOAT16.round"])
    assert {"ampcourse.numerics", "ampcourse.numerics.formats", "ampcourse.plots.numbers", "ampcourse.plots"} <= found
    assert "ampcourse.numerics.codes" not in found
    assert not found & set(OBSERVING)
    assert not never() & set(OBSERVING)
    with pytest.raises(GradingError, match="nothing can be observed"):
        answering(["ampcourse.quiet.quietly"])


def test_every_import_of_every_module_is_seen() -> None:
    """Lazy ones inside functions, those of tables, and relative ones: what a table offers exists."""
    known = modules()
    for module in known.values():
        assert module.needs <= known.keys(), module.name
        for name, target in module.offers.items():
            found, _, attribute = target.partition(":")
            assert found in known, (module.name, name)
            assert not attribute or home(f"{found}.{attribute}") is not None, (module.name, name, target)
    assert "ampcourse.amp.graph" in known["ampcourse.amp"].lazy
    assert "ampcourse.training.on_jax" in known["ampcourse.training.run"].needs
    assert "ampcourse.amp" in known["ampcourse.clinic.ward"].needs | {
        name.rpartition(".")[0] for name in known["ampcourse.clinic.ward"].needs
    }
    assert offered("ampcourse.amp", "hlo") == "ampcourse.amp.xla"
    assert offered("ampcourse", "numerics") == "ampcourse.numerics"
    assert home("ampcourse.nowhere.at.all") is None
    assert home("ampcourse.numerics.nothing") is None
