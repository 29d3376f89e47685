"""What a notebook has set or replaced for itself must change no verdict."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

from ampcourse.exercises import progress
from ampcourse.exercises.check import check, exercise


@contextlib.contextmanager
def everything_raises() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("name", ["fp16_range.to_float16", "fp16_range.ulp", "loss_scaling.fraction_lost"])
def test_right_answers_stay_right_where_warnings_are_errors(name: str) -> None:
    asked = exercise(name)
    with everything_raises():
        for answer in (asked.right, *asked.also_right):
            assert check(name, answer) == asked.max_score


def test_the_notebooks_own_settings_are_left_as_they_were() -> None:
    with everything_raises():
        check("fp16_range.ulp", lambda x: np.float16(1e6) * x)
        assert set(np.geterr().values()) == {"raise"}
        with pytest.raises(UserWarning):
            warnings.warn("still an error", stacklevel=1)


@pytest.mark.parametrize("name", ["isclose", "allclose", "array_equal", "all", "any"])
def test_replacing_numpys_comparisons_earns_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def agrees(*args: object, **kwargs: object) -> np.ndarray:
        return np.ones(np.shape(args[0]), bool)

    monkeypatch.setattr(np, name, agrees)
    assert check("fp16_range.ulp", lambda x: x * 0 + 3.0) == 0.0


@pytest.mark.parametrize("leaves", [SystemExit, KeyboardInterrupt, RecursionError])
def test_an_error_whose_text_raises_is_still_an_outcome(leaves: type, capsys: pytest.CaptureFixture) -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise leaves

    def answer(x: np.ndarray) -> np.ndarray:
        raise Nasty

    assert check("fp16_range.ulp", answer) == 0.0
    assert "Nasty" in capsys.readouterr().out


@pytest.mark.parametrize("value", [np.zeros(2, "V4"), b"abc", bytearray(b"abc")], ids=["array", "bytes", "bytearray"])
def test_odd_values_are_named_in_english(value: object, capsys: pytest.CaptureFixture) -> None:
    check("fp16_range.ulp", lambda x: value)
    said = capsys.readouterr().out
    assert "a ndarray" not in said and "a bytes" not in said
    assert "got an array" in said or "got bytes" in said


def test_a_home_of_an_unknown_user_stops_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMPCOURSE_HOME", "~nobody-of-this-name/x")
    assert check("fp16_range.ulp", exercise("fp16_range.ulp").right) == 4.0
    assert isinstance(progress.load(), dict)
