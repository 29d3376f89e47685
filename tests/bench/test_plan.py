"""What a plan refuses, and what it makes of a backend."""

from __future__ import annotations

import math

import pytest

from ampcourse.bench import POLICIES, BenchError, Plan
from ampcourse.bench.plan import Variant


@pytest.mark.parametrize(
    "settings",
    [
        {"policies": ("float16",)},
        {"policies": ()},
        {"policies": 3},
        {"xla": ()},
        {"xla": ("on",)},
        {"device": "tpu"},
        {"scale": "huge"},
        {"batch": 0},
        {"batch": 2.5},
        {"batch": True},
        {"turns": 2},
        {"turns": "many"},
        {"turn_seconds": 0},
        {"turn_seconds": math.inf},
        {"turn_seconds": math.nan},
        {"minutes": -1},
        {"minutes": "soon"},
        {"seed": -1},
        {"models": 7},
    ],
)
def test_a_value_that_makes_no_sense_gets_one_sentence(settings: dict) -> None:
    with pytest.raises(BenchError, match=r"^[^\n]+\.$") as raised:
        Plan(**settings)
    assert 20 < len(str(raised.value)) < 200


def test_every_policy_meets_every_setting_of_xla_and_jax_has_one() -> None:
    plan = Plan()
    assert set(plan.variants("tensorflow")) == {Variant(policy, xla) for policy in POLICIES for xla in (False, True)}
    assert plan.variants("jax") == [Variant(policy, True) for policy in POLICIES]
    assert Plan(xla=False, policies="tf32").variants("tensorflow") == [Variant("tf32", False)]
    assert Plan(models=["a", "b", "a"]).models == ("a", "b")
