"""What a notebook has set for the whole process changes no verdict of lesson 04, and is as it was afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ampcourse.exercises.check import exercise
from ampcourse.exercises.engine import check_once


@pytest.fixture
def strange_settings() -> Iterator[None]:
    import keras
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    keras.config.set_floatx("float16")
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield
    tf.config.run_functions_eagerly(False)
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("name", ["train_step", "clip_and_apply", "nonfinite_counts", "training_loop"])
def test_right_answers_stay_right(name: str, strange_settings: None) -> None:
    import keras
    import tensorflow as tf

    wanted = exercise(f"custom_loops.{name}")
    assert check_once(wanted, wanted.right).outcome == "right"
    assert tf.config.functions_run_eagerly()
    assert keras.config.floatx() == "float16"
    assert keras.config.dtype_policy().name == "mixed_bfloat16"


def test_what_cannot_run_in_a_graph_is_still_found(strange_settings: None) -> None:
    def with_numpy(gradients: list) -> list:
        return [0 if g is None else int((~np.isfinite(g.numpy())).sum()) for g in gradients]

    verdict = check_once(exercise("custom_loops.nonfinite_counts"), with_numpy)
    assert [c.name for c in verdict.criteria if c.passed] == ["called eagerly"]
    assert verdict.says
    assert ".numpy()" in verdict.says[0]


def test_the_loop_that_calls_fit_is_refused() -> None:
    def by_fit(model, optimizer, loss_fn, x, y, batch_size, epochs):
        model.compile(optimizer, loss_fn)
        return model.fit(x, y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0).history["loss"]

    verdict = check_once(exercise("custom_loops.training_loop"), by_fit)
    assert verdict.score == 0
    assert any("a loop of your own" in line for line in verdict.traceback)
