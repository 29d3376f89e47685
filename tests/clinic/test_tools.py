"""Monitor and audit find on the ward what they should, and nothing on those who are well."""

from __future__ import annotations

import pytest

from ampcourse import clinic

SPEED = {"idle_tensor_cores", "policy_not_faster_here"}
FOUND = {
    "forecaster": "input_out_of_range",
    "reader": "constant_out_of_range",
    "postman": "constant_below_format",
    "listener": "low_precision_reduction",
    "surveyor": "input_out_of_range",
    "veteran": "low_precision_softmax",
    "saver": "optimizer_constant_rounds",
    "gardener": "unscaled_loss_term",
    "barber": "scaled_gradients_clipped",
    "doorman": "optimizer_wrapped_twice",
    "bookseller": "identifier_through_float",
    "commuter": "optimizer_not_wrapped",
    "sculptor": "unscaled_loss_term",
    "sleeper": "optimizer_constant_rounds",
    "photographer": "promoted_to_float32",
}


@pytest.mark.parametrize("name", FOUND)
def test_the_audit_names_the_illness(name: str) -> None:
    assert FOUND[name] in {hazard.kind for hazard in clinic.audited(name).hazards}


@pytest.mark.parametrize("name", ["baker", "climber", "sprinter"])
def test_the_audit_accuses_nobody_else(name: str) -> None:
    assert {hazard.kind for hazard in clinic.audited(name).hazards} <= SPEED


def test_the_monitor_tells_a_healthy_skip_from_a_collapse() -> None:
    climber, reader = clinic.monitored("climber"), clinic.monitored("reader")
    assert climber.summary()["verdict"] == "healthy"
    assert climber.summary()["skipped"] == clinic.admit("climber").run.skipped.sum() > 0
    assert reader.summary()["verdict"] == "collapsing"
