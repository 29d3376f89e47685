"""Far more code than a notebook holds: it is not all parsed, and the answers in it are found all the same."""

from __future__ import annotations

import ast

import pytest

from ampcourse.grading.document import code

from .samples import answers, mended, solutions, solved


@pytest.mark.parametrize("before", [True, False])
def test_much_code_beside_the_answers_takes_little_time(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, really = [0], ast.parse
    monkeypatch.setattr(code, "PARSED_IN_ALL", 500_000)
    monkeypatch.setattr(code.ast, "parse", lambda text: (parsed.append(len(text)), really(text))[1])
    data = solved("mini")
    junk = [
        {"cell_type": "code", "source": "x=1\n" * 20_000 + f"# {n}", "metadata": {}, "outputs": []} for n in range(50)
    ]
    data["cells"] = [*junk, *data["cells"]] if before else [*data["cells"], *junk]
    assert answers(mended(data)) == solutions("mini")
    assert 0 < sum(parsed) < 600_000  # with the instructor's own
