"""results.json: what was written is read back, and whatever else lies there gets one sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ampcourse.bench import BenchError, load


def test_what_was_measured_is_read_back(measure, tmp_path) -> None:
    report = measure(out=tmp_path)
    assert load(tmp_path) == report == load(tmp_path / "results.json")
    assert not list(tmp_path.glob("*.tmp"))


def test_it_is_strict_json(saved) -> None:
    def no(constant: str) -> None:
        raise AssertionError(constant)

    json.loads((saved / "results.json").read_text(), parse_constant=no)


def places(content: Any, path: tuple = ()) -> Iterator[tuple]:
    """Every place in the content, of each list the first element."""
    if path:
        yield path
    if isinstance(content, dict):
        for key, value in content.items():
            yield from places(value, (*path, key))
    elif isinstance(content, list) and content:
        yield from places(content[0], (*path, 0))


def damaged(content: Any, path: tuple, new: Any) -> Any:
    copy = json.loads(json.dumps(content))
    inside = copy
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = new
    return copy


def test_damage_anywhere_gets_one_sentence(saved) -> None:
    path = saved / "results.json"
    content = json.loads(path.read_text())
    every = list(places(content))
    assert len(every) > 80
    free = {"machine", "versions", "compute_dtypes", "matrix"}  # any word may be a key there
    for place in every:
        for new in ({"a": 1}, [[]]):
            if place[-1] in free and isinstance(new, dict):
                continue
            path.write_text(json.dumps(damaged(content, place, new)))
            with pytest.raises(BenchError, match=r"^'.*results.json'[^\n]+\.$"):
                load(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 100_000, "\x00", '{"format": "other"}', "{}"])
def test_a_foreign_file_gets_one_sentence(saved, text: str) -> None:
    (saved / "results.json").write_text(text)
    with pytest.raises(BenchError, match=r"^[^\n]+\.$"):
        load(saved)


def test_bytes_that_are_no_text_get_one_sentence(saved) -> None:
    (saved / "results.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BenchError, match=r"^[^\n]+\.$"):
        load(saved)


@pytest.mark.parametrize(
    ("place", "new", "said"),
    [
        (("version",), 2, "version 2"),
        (("models", 0, "session"), 7, "session"),
        (("models", 0, "rows", 0, "median_seconds"), float("nan"), "finite"),
        (("models", 0, "parameters"), True, "parameters"),
        (("models", 0, "extra"), 1, "extra"),
    ],
)
def test_the_sentence_says_what_is_wrong(saved, place: tuple, new: Any, said: str) -> None:
    path = saved / "results.json"
    path.write_text(json.dumps(damaged(json.loads(path.read_text()), place, new)))
    with pytest.raises(BenchError, match=said):
        load(saved)


def test_a_missing_field_is_named(saved) -> None:
    path = saved / "results.json"
    content = json.loads(path.read_text())
    del content["models"][0]["batch"]
    path.write_text(json.dumps(content))
    with pytest.raises(BenchError, match=r"lacks the field 'batch'"):
        load(saved)


def test_nothing_there_says_how_to_make_it(tmp_path) -> None:
    with pytest.raises(BenchError, match="ampcourse bench --out"):
        load(tmp_path)
