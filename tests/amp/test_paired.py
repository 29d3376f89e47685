"""parity(): paired runs, an interval that is honest, and a verdict that claims no more than was seen."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import keras
import numpy as np
import pytest

from ampcourse.amp import parity
from ampcourse.amp.paired import RunFailed
from ampcourse.amp.paired_interval import judged, studentized_interval


def trainer(differences: list[float]) -> Callable[[str, int], float]:
    """A training whose second policy differs by these numbers, one a seed, around a base that varies much more."""

    def train(policy: str, seed: int) -> float:
        base = 0.9 + 0.05 * np.random.default_rng(seed).normal()
        return base + (0.0 if policy == "float32" else differences[seed])

    return train


# --- the interval -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seeds", "draw", "truth", "least"),
    [
        (5, lambda rng, n: rng.normal(0.3, 1, n), 0.3, 0.92),
        (6, lambda rng, n: rng.normal(-2, 0.1, n), -2.0, 0.92),
        (10, lambda rng, n: rng.normal(0, 1, n), 0.0, 0.92),
        (8, lambda rng, n: np.round(rng.normal(0.3, 1, n)), 0.3, 0.92),  # a metric of few steps
        (10, lambda rng, n: rng.exponential(1, n), 1.0, 0.90),  # lopsided: hard for every interval
        (8, lambda rng, n: rng.standard_t(3, n), 0.0, 0.90),  # now and then a run far off
    ],
    ids=["five normal", "six normal", "ten normal", "rounded", "lopsided", "heavy tails"],
)
def test_the_interval_holds_the_truth_about_as_often_as_it_says(
    seeds: int, draw: Callable, truth: float, least: float
) -> None:
    """600 experiments each: 95 % would be 570, give or take 5 (one standard deviation)."""
    rng = np.random.default_rng(1)
    held = [low <= truth <= high for low, high in (studentized_interval(draw(rng, seeds)) for _ in range(600))]
    assert least <= np.mean(held) <= 0.985


def test_the_percentile_interval_would_not_have_done_for_five_seeds() -> None:
    """Why not the simplest bootstrap: it promises 95 % and keeps far less, which the same experiments show."""
    rng = np.random.default_rng(1)
    held = {"percentile": [], "ours": []}
    for _ in range(600):
        d = rng.normal(0.3, 1, 5)
        means = d[rng.integers(0, 5, (1000, 5))].mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        held["percentile"].append(low <= 0.3 <= high)
        low, high = studentized_interval(d)
        held["ours"].append(low <= 0.3 <= high)
    assert np.mean(held["percentile"]) < 0.89 < np.mean(held["ours"])


def test_false_claims_are_rare() -> None:
    """Equal is claimed of a difference just beyond the tolerance, and different of one just within, rarely."""
    rng, claims = np.random.default_rng(2), []
    for mean in (1.05, 0.95):
        verdicts = []
        for _ in range(400):
            d = rng.normal(mean, 0.5, 6)
            verdicts.append(judged(d, studentized_interval(d), 1.0).verdict)
        claims.append(verdicts)
    beyond, within = claims
    assert beyond.count("equal within tolerance") <= 0.05 * 400
    assert within.count("different") <= 0.05 * 400
    assert beyond.count("not decided") > 200


def test_equal_is_never_said_with_an_interval_wider_than_the_tolerance() -> None:
    rng, seen = np.random.default_rng(3), set()
    for _ in range(800):
        d = rng.normal(rng.normal() * 0.01, 10 ** rng.uniform(-4, -1), int(rng.integers(1, 13)))
        low, high = studentized_interval(d)
        verdict = judged(d, (low, high), 0.005).verdict
        seen.add(verdict)
        if verdict == "equal within tolerance":
            assert -0.005 <= low <= high <= 0.005
        if verdict == "different":
            assert low > 0.005 or high < -0.005
    assert seen == {"equal within tolerance", "different", "not decided"}


@pytest.mark.parametrize(("seeds", "grain"), [(4, 0.004), (5, 0.004), (10, 0.01)])
def test_metrics_that_tie_are_no_excuse(seeds: int, grain: float) -> None:
    """Accuracies of a small test set come in steps; the interval still holds the truth, and is hardly ever infinite."""
    rng, truth = np.random.default_rng(6), 0.001
    ends = [studentized_interval(np.round(rng.normal(truth, 0.004, seeds) / grain) * grain) for _ in range(400)]
    assert np.mean([low <= truth <= high for low, high in ends]) > 0.92
    assert np.mean([np.isinf(high) for _, high in ends]) < 0.12


def test_order_shift_and_size_do_not_matter() -> None:
    d = np.random.default_rng(4).normal(size=6)
    low, high = studentized_interval(d)
    assert studentized_interval(d[::-1]) == pytest.approx((low, high))
    assert studentized_interval(d + 7) == pytest.approx((low + 7, high + 7))
    assert studentized_interval(-3 * d) == pytest.approx((-3 * high, -3 * low))


def test_more_confidence_is_a_wider_interval() -> None:
    d = np.random.default_rng(5).normal(size=10)
    wide, narrow = studentized_interval(d, 0.99), studentized_interval(d, 0.8)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


# --- verdicts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("differences", "verdict", "says"),
    [
        ([0.001, -0.001, 0.0005, -0.0005, 0.0], "equal within tolerance", "lies within"),
        ([0.0011, 0.0012, 0.001, 0.0009, 0.0012], "equal within tolerance", "a small one"),
        ([-0.031, -0.029, -0.030, -0.032, -0.028], "different", "beyond"),
        ([0.02, -0.02, 0.01, -0.01, 0.004], "not decided", "seeds would decide"),
        ([0.001, -0.001, 0.0005], "not decided", "take 4 at least"),
        ([0.001], "not decided", "one seed"),
        ([0.0] * 6, "not decided", "does the policy reach the model"),
        ([0.0, 0.0, 0.0, 0.0, 0.01], "not decided", "seeds would decide"),
        ([0.0, 0.0, -0.002, 0.0], "equal within tolerance", "lies within"),
        ([0.001, math.nan, 0.0005, -0.0005, 0.0], "not finite", "nan under mixed_float16, seed 1"),
        ([0.001, math.inf, 0.0005, -0.0005, -math.inf], "not finite", "inf under mixed_float16, seed 1"),
    ],
)
def test_verdicts(differences: list[float], verdict: str, says: str) -> None:
    seen = parity(trainer(differences), seeds=range(len(differences)), progress=False)
    assert seen.verdict == verdict
    assert says in seen.reason
    assert f"Verdict: {verdict}" in str(seen)
    assert np.isfinite(seen.differences).all() == (verdict != "not finite")


def test_the_pairs_cancel_what_they_share() -> None:
    """The base varies ten times as much as the tolerance, and the verdict is still clear."""
    seen = parity(trainer([0.001, -0.001, 0.0005, -0.0005, 0.0]), progress=False)
    assert seen.of("float32").std() > 5 * seen.tolerance
    assert seen.verdict == "equal within tolerance"
    assert seen.differences == pytest.approx([0.001, -0.001, 0.0005, -0.0005, 0.0], abs=1e-12)
    assert seen.interval[0] < seen.mean < seen.interval[1]


def test_a_metric_that_is_broken_in_both_policies_is_told_of_both() -> None:
    seen = parity(lambda policy, seed: math.nan if seed == 1 else seed + (policy != "float32"), progress=False)
    assert seen.verdict == "not finite"
    assert "nan under float32, seed 1, nan under mixed_float16, seed 1" in seen.reason


def test_several_policies_are_each_compared_with_the_first() -> None:
    effect = {"float32": 0.0, "mixed_float16": 0.0, "mixed_bfloat16": -0.1}

    def train(policy: str, seed: int) -> float:
        return effect[policy] + 0.0005 * np.random.default_rng([seed, len(policy)]).normal()

    seen = parity(train, effect, progress=False)
    assert seen["mixed_float16"].verdict == "equal within tolerance"
    assert seen["mixed_bfloat16"].verdict == "different"
    with pytest.raises(ValueError, match=r"2 comparisons: ask one, such as parity\['mixed_float16'\]"):
        _ = seen.verdict
    with pytest.raises(KeyError, match="was not compared"):
        _ = seen["float32"]
    assert len(seen.picture().alt.split(";")) == 2


def test_more_seeds_go_on_where_the_first_ended() -> None:
    ran = []

    def train(policy: str, seed: int) -> float:
        ran.append((policy, seed))
        return trainer([0.004, -0.004, 0.003, -0.003, 0.001] + [0.0] * 7)(policy, seed)

    first = parity(train, progress=False)
    assert first.verdict == "not decided"
    again = parity(train, seeds=range(12), known=first.metrics, progress=False)
    assert again.verdict == "equal within tolerance"
    assert len(ran) == len(set(ran)) == 24


def test_it_is_repeatable() -> None:
    one, two = (parity(trainer(list(np.linspace(-1, 1, 9))), seeds=range(9), progress=False) for _ in range(2))
    assert one.interval == two.interval


# --- runs ---------------------------------------------------------------------------------------------


def test_policy_and_seed_are_set_for_each_run_and_put_back() -> None:
    seen = []

    def train(policy: str, seed: int) -> float:
        layer = keras.layers.Dense(2)
        layer.build((None, 3))
        seen.append((policy, seed, layer.compute_dtype, layer.kernel.numpy().tobytes(), random.random()))
        np.random.rand(3)
        return float(seed)

    keras.config.set_dtype_policy("mixed_bfloat16")
    python, numpy = random.getstate(), np.random.get_state()
    try:
        parity(train, seeds=(3, 4), progress=False)
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
        with pytest.raises(RunFailed):
            parity(lambda policy, seed: 1 / 0, progress=False)
        assert keras.config.dtype_policy().name == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")
    assert random.getstate() == python
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), numpy, strict=True))
    assert [(p, s, d) for p, s, d, *_ in seen] == [
        ("float32", 3, "float32"),
        ("mixed_float16", 3, "float16"),
        ("float32", 4, "float32"),
        ("mixed_float16", 4, "float16"),
    ]
    assert seen[0][3:] == seen[1][3:] != seen[2][3:] == seen[3][3:]


def test_a_policy_object_is_handed_on() -> None:
    policy = keras.DTypePolicy("mixed_bfloat16")
    got = []
    parity(lambda p, s: got.append(p) or s, ["float32", policy], seeds=[1, 2], progress=False)
    assert got[:2] == ["float32", policy]


@pytest.mark.parametrize(
    "metric",
    [np.float32(0.5), np.array([0.5]), np.array(0.5), 1, Fraction(1, 2), keras.ops.convert_to_tensor(0.5)]
    + [keras.ops.cast(0.5, "bfloat16"), keras.ops.cast(0.5, "float16").numpy()],
)
def test_every_kind_of_one_number_is_a_metric(metric: Any) -> None:
    assert parity(lambda p, s: metric, seeds=[0], progress=False).metrics["float32", 0] == (1 if metric == 1 else 0.5)


@pytest.mark.parametrize("nonsense", [None, "0.9", [0.1, 0.2], {}, object(), 1j, True, [[1], [2, 3]], np.zeros(0)])
def test_a_training_that_returns_nonsense_is_named(nonsense: Any) -> None:
    with pytest.raises(RunFailed, match=r"^train_fn\('mixed_float16', 7\) returned .*one number\.$") as caught:
        parity(lambda p, s: 0.5 if p == "float32" else nonsense, seeds=[7], progress=False)
    assert caught.value.metrics == {("float32", 7): 0.5}


def test_a_training_that_raises_is_named_with_its_own_words() -> None:
    def train(policy: str, seed: int) -> float:
        raise RuntimeError("out of\nmemory") if seed == 1 else KeyError

    with pytest.raises(ValueError, match=r"^train_fn\('float32', 1\) raised RuntimeError: out of memory$") as caught:
        parity(train, seeds=[1], progress=False)
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(ValueError, match="raised KeyError: no message"):
        parity(train, seeds=[2], progress=False)


def test_an_interrupt_passes_through_and_puts_the_policy_back() -> None:
    def train(policy: str, seed: int) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parity(train, policies=("mixed_float16", "float32"), progress=False)
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"train_fn": 3}, "function train_fn"),
        ({"policies": "float32"}, "policies are several"),
        ({"policies": 3}, "policies are several"),
        ({"policies": ["float32"]}, "2 to 6 different policies"),
        ({"policies": ["float32", "float32"]}, "2 to 6 different policies"),
        ({"policies": ["float32", "half"]}, "'half' is no dtype policy"),
        ({"policies": ["float32", 16]}, "16 is no dtype policy"),
        ({"policies": {"float32", "mixed_float16"}}, "policies are several"),
        ({"policies": ["float32", None]}, "None is no dtype policy"),
        ({"known": [("float32", 0)]}, "known is what"),
        ({"known": {("float32", 0): "high"}}, "known is what .* not 'high' for"),
        ({"seeds": np.array(3)}, "in a row"),
        ({"seeds": itertools.count()}, "1000 at most"),
        ({"seeds": 5}, "such as range"),
        ({"seeds": []}, "at least one"),
        ({"seeds": [0.5]}, "whole numbers"),
        ({"seeds": [True]}, "whole numbers"),
        ({"seeds": [-1]}, "from 0"),
        ({"seeds": [1, 1]}, "counts once"),
        ({"tolerance": 0}, "tolerance is"),
        ({"tolerance": math.inf}, "tolerance is"),
        ({"tolerance": "0.3 %"}, "tolerance is"),
        ({"confidence": 95}, "confidence is"),
        ({"confidence": math.nan}, "confidence is"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence_before_anything_runs(arguments: dict, says: str) -> None:
    ran = []
    with pytest.raises((TypeError, ValueError), match=says) as caught:
        parity(**{"train_fn": lambda p, s: ran.append(s) or 1.0} | arguments)
    assert not ran
    assert "\n" not in str(caught.value)


# --- shown --------------------------------------------------------------------------------------------


def test_it_shows_as_a_table_and_as_a_picture_with_words() -> None:
    seen = parity(trainer([0.001, -0.001, 0.0005, -0.0005, 0.0]), progress=False)
    html = seen._repr_html_()
    assert "<caption" in html
    assert 'scope="row"' in html
    assert "equal within tolerance" in html
    picture = seen.picture()
    assert "5 seeds" in picture.alt
    assert "tolerance is 0.005" in picture.alt


def test_progress_is_one_line_where_a_person_watches(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    parity(lambda p, s: float(s), seeds=[0, 1])
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    parity(lambda p, s: float(s), seeds=[0, 1])
    said = capsys.readouterr()
    assert "\rrun 3 of 4: float32, seed 1 ..." in said.out
    assert "\n" not in said.out
    assert said.out.endswith(" \r")
    assert said.err == ""


def test_nothing_is_written_to_stderr_on_first_use() -> None:
    code = "from ampcourse.amp import parity; parity(lambda p, s: float(s), seeds=range(2))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_on_a_real_training_it_sees_the_policy() -> None:
    """A regression that float16 without a loss scale cannot learn: its gradients lie below the format."""

    def train(policy: str, seed: int) -> float:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(64, 4)).astype("float32")
        y = (1e-4 * x @ np.ones((4, 1))).astype("float32")
        model.set_weights([np.zeros((4, 1)), np.zeros(1)])
        model.compile("sgd", "mse", jit_compile=False, auto_scale_loss=False)
        model.fit(1e-3 * x, 1e-3 * y, epochs=2, verbose=0)
        return float(np.abs(model.get_weights()[0]).max() > 0)

    seen = parity(train, seeds=range(3), progress=False)
    assert seen.of("float32").tolist() == [1.0] * 3
    assert seen.of("mixed_float16").tolist() == [0.0] * 3
