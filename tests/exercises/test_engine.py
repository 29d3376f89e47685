"""Judging: outcomes, partial credit, mistakes that recognise themselves, and whose fault a failure is."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ampcourse.exercises import wire
from ampcourse.exercises.engine import Question, check_once, judge
from ampcourse.exercises.model import BrokenExercise, Exercise, Mistake, Verdict
from ampcourse.exercises.observe import observe


def exercise(right: Any, inputs: Any = None, **more: Any) -> Exercise:
    inputs = inputs or (lambda rng: {"all": (rng.normal(size=5),)})
    points = more.pop("points", {"all": 2})
    return Exercise("demo.made", inputs, right, points, **more)


def over_seeds(asked: Exercise, answer: Any, seeds: range = range(3)) -> Verdict:
    questions = [Question(asked, seed) for seed in seeds]
    return judge(questions, [observe(asked.observer, q.packed, answer) for q in questions])


class TestOutcomes:
    def test_right(self, demo: ModuleType) -> None:
        for answer in (demo.gap.right, *demo.gap.also_right):
            verdict = over_seeds(demo.gap, answer)
            assert (verdict.outcome, verdict.score) == ("right", 4.0)
            assert verdict.insight == "Gaps double & stay."

    def test_partial_credit_by_criterion(self, demo: ModuleType) -> None:
        verdict = over_seeds(demo.gap, demo.gap.mistakes[1].answer)
        assert (verdict.outcome, verdict.score) == ("wrong", 3.0)
        assert [c.passed for c in verdict.criteria] == [True, False, True]
        assert verdict.insight == ""

    def test_a_criterion_passes_only_if_it_does_for_every_seed(self, demo: ModuleType) -> None:
        first = wire.unpack(Question(demo.gap, 0).packed)["normal"][0]

        def right_at_home(x: np.ndarray) -> np.ndarray:
            return demo.gap.right(x) if x[0] == first[0] else x

        assert not over_seeds(demo.gap, right_at_home).criteria[0].passed

    def test_not_attempted(self, demo: ModuleType) -> None:
        def stub(x: Any) -> Any:
            raise NotImplementedError

        verdict = over_seeds(demo.gap, stub)
        assert (verdict.outcome, verdict.score, verdict.says) == ("not attempted", 0.0, ())

    def test_half_a_stub_is_an_attempt(self, demo: ModuleType) -> None:
        def half(x: np.ndarray) -> np.ndarray:
            if (x < 0).all():
                raise NotImplementedError
            return demo.gap.right(x)

        verdict = over_seeds(demo.gap, half)
        assert (verdict.outcome, verdict.score) == ("wrong", 3.0)
        assert "not written yet" in verdict.criteria[2].says

    def test_raised(self, demo: ModuleType) -> None:
        def raises(x: np.ndarray) -> np.ndarray:
            if (x < 0).all():
                raise ValueError("no negatives")
            return demo.gap.right(x)

        verdict = over_seeds(demo.gap, raises)
        assert (verdict.outcome, verdict.score) == ("raised", 3.0)
        assert "no negatives" in verdict.traceback[-1]
        assert 'raise ValueError("no negatives")' in verdict.traceback[-2]

    def test_a_forgotten_return_is_wrong_and_says_so(self, demo: ModuleType) -> None:
        verdict = over_seeds(demo.gap, lambda x: None)
        assert (verdict.outcome, verdict.score) == ("wrong", 0.0)
        assert "return" in verdict.criteria[0].says


class TestComparing:
    def test_tolerance_is_the_exercises(self) -> None:
        exact, close = exercise(lambda x: x), exercise(lambda x: x, rtol=1e-6)
        nearly = lambda x: x * (1 + 1e-7)  # noqa: E731
        assert check_once(exact, nearly).outcome == "wrong"
        assert check_once(close, nearly).outcome == "right"

    def test_large_integers_are_compared_exactly(self) -> None:
        large = exercise(lambda n: n, lambda rng: {"all": (np.int64(2**60) + rng.integers(9),)})
        assert check_once(large, lambda n: n).outcome == "right"
        assert check_once(large, lambda n: n + 1).outcome == "wrong"
        assert check_once(large, lambda n: int(n)).outcome == "right"

    def test_nan_and_infinity_equal_themselves_only(self) -> None:
        special = exercise(lambda x: np.r_[np.nan, np.inf, -np.inf, x])
        assert check_once(special, special.right).outcome == "right"
        assert check_once(special, lambda x: np.r_[np.nan, np.inf, np.inf, x]).outcome == "wrong"
        assert check_once(special, lambda x: np.r_[0, np.inf, -np.inf, x]).outcome == "wrong"

    def test_low_precision_crosses_bit_by_bit(self) -> None:
        cast = exercise(lambda x: x.astype(ml_dtypes.bfloat16), dtype="bfloat16")
        assert check_once(cast, cast.right).outcome == "right"
        wider = check_once(cast, lambda x: x.astype(ml_dtypes.bfloat16).astype(float))
        assert wider.outcome == "wrong"
        assert "float64" in wider.criteria[0].says
        assert "bfloat16" in wider.criteria[0].says

    def test_a_shape_that_would_broadcast_is_wrong(self) -> None:
        total = exercise(lambda x: x.sum())
        for strange in (lambda x: [x.sum()], lambda x: np.full((3, 3), x.sum())):
            verdict = check_once(total, strange)
            assert verdict.score == 0
            assert "shape" in verdict.criteria[0].says

    def test_parts_too_few_too_many_or_other(self) -> None:
        parts = exercise(lambda x: {"low": x.min(), "high": x.max()})
        assert "high" in check_once(parts, lambda x: {"low": x.min()}).criteria[0].says
        more = lambda x: {"low": x.min(), "high": x.max(), "mean": x.mean()}  # noqa: E731
        assert "mean" in check_once(parts, more).criteria[0].says
        assert check_once(parts, lambda x: x.min()).score == 0
        assert check_once(exercise(lambda x: x), lambda x: {"a": x, "b": "c"}).score == 0

    def test_text_and_numbers_are_not_mixed_up(self) -> None:
        word = exercise(lambda n: str(n), lambda rng: {"all": (int(rng.integers(99)),)})
        assert check_once(word, lambda n: str(n)).outcome == "right"
        assert check_once(word, lambda n: n).score == 0
        number = exercise(lambda n: n, word.inputs)
        assert check_once(number, lambda n: str(n)).score == 0

    def test_an_object_equal_to_everything_is_nothing(self) -> None:
        class Equal:
            def __eq__(self, other: object) -> bool:
                return True

            def __getattr__(self, name: str) -> Any:
                return self

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return self

            __hash__ = None
            __array_priority__ = 1000

        assert check_once(exercise(lambda x: x), lambda x: Equal()).score == 0
        assert check_once(exercise(lambda x: x), Equal()).score == 0

    def test_no_message_tells_the_right_value(self) -> None:
        secret = exercise(lambda x: np.full(5, 0.123456789), lambda rng: {"all": (rng.normal(),)})
        for answer in (lambda x: np.zeros(5), lambda x: 0.0, lambda x: "text", lambda x: None, lambda x: 1 / 0):
            question = Question(secret)
            verdict = judge([question], [observe(secret.observer, question.packed, answer)], reveal=False)
            assert "0.123456" not in str(verdict)


class TestMistakes:
    def test_each_is_recognised_by_looking_alike(self, demo: ModuleType) -> None:
        for mistake in demo.gap.mistakes:
            assert over_seeds(demo.gap, mistake.answer).says == (mistake.says,)

    def test_another_style_and_dtype_of_the_same_mistake(self, demo: ModuleType) -> None:
        verdict = over_seeds(demo.gap, lambda x: [np.float32(2.0**-10)] * len(x))
        assert verdict.says == (demo.EPSILON,)

    def test_two_at_once_are_both_named(self, demo: ModuleType) -> None:
        def both(x: np.ndarray) -> np.ndarray:
            return (-1 if (x < 0).all() else 1) * 2.0 ** (np.floor(np.log2(np.abs(x))) - 10)

        verdict = over_seeds(demo.gap, both)
        assert verdict.outcome == "wrong"
        assert verdict.says == (f"with subnormals: {demo.SUBNORMALS}", f"negative: {demo.SIGN}")

    def test_one_that_explains_more_comes_first(self) -> None:
        a, b = "half of it", "all of it"
        inputs = lambda rng: {n: (rng.normal(size=3), n) for n in ("one", "two", "three")}  # noqa: E731
        asked = exercise(
            lambda x, n: x,
            inputs,
            points={"one": 1, "two": 1, "three": 1},
            mistakes=(
                Mistake(lambda x, n: -x if n == "one" else x + 5, a),
                Mistake(lambda x, n: -x if n != "three" else x + 7, b),
            ),
        )
        assert over_seeds(asked, lambda x, n: -x if n != "three" else x).says == (f"one and two: {b}",)

    def test_none_fits(self, demo: ModuleType) -> None:
        assert over_seeds(demo.gap, lambda x: x * 3).says == ()

    def test_a_single_wrong_bool_is_no_likeness(self) -> None:
        inputs = lambda rng: {"yes or no": (rng.normal(),), "value": (rng.normal(),)}  # noqa: E731
        asked = exercise(
            lambda x: x > 0,
            inputs,
            points={"yes or no": 1, "value": 1},
            mistakes=(Mistake(lambda x: bool(x <= 0), "the other way round"),),
        )
        flips_once: list = []

        def half(x: float) -> bool:
            flips_once.append(1)
            return bool(x > 0) if len(flips_once) % 2 else bool(x <= 0)

        assert over_seeds(asked, half).says == ()
        assert over_seeds(asked, asked.mistakes[0].answer).says == ("the other way round",)

    def test_are_computed_only_for_wrong_answers(self) -> None:
        ran = []
        asked = exercise(lambda x: x, mistakes=(Mistake(lambda x: ran.append(1) or -x, "sign"),))
        question = Question(asked)
        judge([question], [observe(asked.observer, question.packed, lambda x: x)])
        assert not ran
        for _ in range(3):
            assert judge([question], [observe(asked.observer, question.packed, lambda x: -x)]).says == ("sign",)
        assert len(ran) == 1, "and then kept"

    def test_errors_of_the_same_type_alone_are_no_likeness(self) -> None:
        """A mistake that always raises must not claim every other TypeError."""
        asked = exercise(lambda x: x, mistakes=(Mistake(lambda x: x.mux(), "no such method"),))
        assert over_seeds(asked, lambda x: x.mux()).says == ("no such method",)
        assert over_seeds(asked, lambda x: x.other()).says == ()


class TestScores:
    @pytest.mark.parametrize("points", [{"all": math.nan}, {"all": -1}, {"all": 0}, {"all": math.inf}, {}])
    def test_points_that_make_no_score_are_refused(self, points: dict) -> None:
        with pytest.raises(ValueError, match="points"):
            exercise(lambda x: x, points=points)

    def test_a_verdict_that_is_not_right_is_never_full(self, demo: ModuleType) -> None:
        for answer in (lambda x: x, lambda x: None, lambda x: 1 / 0, demo.gap.mistakes[0].answer):
            verdict = over_seeds(demo.gap, answer)
            assert type(verdict.score) is float
            assert 0 <= verdict.score < verdict.max_score

    @pytest.mark.parametrize("sent", [b"", b"{}", b"null", b"[" * 10_000, b"\xff", wire.pack({"criteria": {}})])
    def test_forged_observations_never_score(self, demo: ModuleType, sent: bytes) -> None:
        verdict = judge([Question(demo.gap)], [sent])
        assert (verdict.outcome, verdict.score) == ("wrong", 0.0)

    @given(
        st.dictionaries(
            st.sampled_from(["value", "case 0", "totals", "a", ""]),
            st.text(max_size=3)
            | hnp.arrays(
                st.sampled_from([np.dtype(c) for c in ("?", "u1", "i8", "f2", "f8")]),
                st.sampled_from([(), (0,), (1,), (5,), (16,), (10**9, 0), (1,) * 30, (2, 8)]),
            ),
            max_size=3,
        )
    )
    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_forged_facts_are_judged(self, demo: ModuleType, facts: dict) -> None:
        for asked in (demo.gap, demo.pick, demo.count):
            criteria = {name: {"facts": facts} for name in asked.points}
            sent = wire.pack({"criteria": criteria, "printed": "", "warned": ""})
            verdict = judge([Question(asked)], [sent], lambda packed, sent=sent: sent)
            assert (verdict.outcome, verdict.score) == ("wrong", 0.0)

    @pytest.mark.parametrize(
        "entry",
        [
            np.array([1, 2]),
            np.float32(1),
            {"fault": np.array(1)},
            {"fault": {"kind": np.array([1, 2])}},
            {"fault": {"kind": "raised", "frames": [{"function": "f", "line": "x", "source": ""}]}},
            {"fault": {"kind": "raised", "frames": [{"function": "f", "line": math.inf, "source": ""}]}},
            {"fault": {"kind": "raised", "frames": np.array(1)}},
        ],
        ids=str,
    )
    def test_whatever_a_forged_entry_is_reading_it_never_fails(self, demo: ModuleType, entry: Any) -> None:
        criteria = dict.fromkeys(demo.gap.points, entry)
        verdict = judge([Question(demo.gap)], [wire.pack({"criteria": criteria, "printed": "", "warned": ""})])
        assert verdict.score == 0

    @pytest.mark.parametrize("name", ["\x1b]0;title\x07", "\ud800", "\u202e", "n" * 10_000])
    def test_names_of_parts_are_shown_only_as_text_of_bounded_length(self, demo: ModuleType, name: str) -> None:
        for asked in (demo.gap, demo.pick, demo.count):
            verdict = over_seeds(asked, lambda *a: {name: 1.0, "other": "text"})
            said = " ".join([*(c.says for c in verdict.criteria), *verdict.says, str(verdict.example)])
            assert name not in said
            assert len(said) < 3_000

    def test_criteria_that_were_not_asked_for_do_not_count(self, demo: ModuleType) -> None:
        extra = {"mine": {"facts": {"value": np.zeros(1)}}}
        verdict = judge([Question(demo.gap)], [wire.pack({"criteria": extra, "printed": "", "warned": ""})])
        assert verdict.score == 0
        assert [c.name for c in verdict.criteria] == list(demo.gap.points)


class TestWhoseFault:
    def test_a_broken_reference_is_nobodys_zero(self, demo: ModuleType) -> None:
        with pytest.raises(BrokenExercise, match=r"demo\.broken"):
            check_once(demo.broken, lambda x: x)

    @pytest.mark.parametrize(
        "inputs",
        [
            lambda rng: {"other": (1.0,)},
            lambda rng: {"all": (object(),)},
            lambda rng: 1 / 0,
            lambda rng: {"all": 1.0},
            lambda rng: None,
        ],
    )
    def test_so_are_broken_inputs(self, inputs: Any) -> None:
        with pytest.raises(BrokenExercise):
            check_once(exercise(lambda x: x, inputs), lambda x: x)

    def test_ids_and_fields_of_the_wrong_form_are_refused(self) -> None:
        with pytest.raises(ValueError, match="id"):
            Exercise("Ulp", lambda rng: {}, abs, {"a": 1})
        with pytest.raises(ValueError, match="comma"):
            exercise(abs, hints=("only one hint"))


def test_inputs_may_be_any_plain_data() -> None:
    inputs = lambda rng: {  # noqa: E731
        "all": (
            {"w": [rng.normal(size=2).astype(ml_dtypes.bfloat16), rng.normal(size=3)], "flag": True, "name": "é"},
            (1, 2.5, None, np.float16(rng.normal())),
        )
    }

    def right(d: dict, t: tuple) -> Any:
        assert (d["w"][0].dtype, type(t), t[2], type(t[3])) == (ml_dtypes.bfloat16, tuple, None, np.float16)
        return [float(d["w"][0].sum()), float(t[3])]

    assert check_once(exercise(right, inputs), right).outcome == "right"


def test_questions_keep_what_was_computed(demo: ModuleType) -> None:
    ran = []
    asked = exercise(lambda x: ran.append(1) or x)
    question = Question(asked)
    for _ in range(3):
        judge([question], [observe(asked.observer, question.packed, lambda x: x)])
    assert len(ran) == 1
