"""What the monitor says to input that it cannot use: one sentence each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcourse.amp import GradientMonitor


def model(units: int = 2) -> keras.Model:
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
    made.compile(keras.optimizers.SGD(), "mse", jit_compile=False)
    return made


def attached() -> GradientMonitor:
    monitor, one = GradientMonitor(), model()
    monitor.attach(one.optimizer, one)
    return monitor


GRADIENTS = [np.ones((3, 2), "float32"), np.ones(2, "float32")]
CASES: dict[str, tuple[Any, str]] = {
    "every": (lambda _: GradientMonitor(every=0), "every must be a whole number"),
    "every as text": (lambda _: GradientMonitor(every="5"), "every must be a whole number"),
    "stop as text": (lambda _: GradientMonitor(stop="yes"), "stop must be True or False, not 'yes'"),
    "live as a number": (lambda _: GradientMonitor(live=2), "live must be True or False, not 2"),
    "verbose as text": (lambda _: GradientMonitor(verbose="no"), "verbose must be 0"),
    "log is a folder": (
        lambda d: GradientMonitor(log=(d / "folder.csv").mkdir() or d / "folder.csv"),
        "cannot be written",
    ),
    "log of a wrong kind": (lambda _: GradientMonitor(log=3), "log must be a path"),
    "log below a file": (lambda d: GradientMonitor(log=d / "file" / "run.csv"), "cannot be written"),
    "save of a wrong ending": (lambda d: GradientMonitor(save=d / "x.npz"), "must end in .weights.h5"),
    "save in no folder": (lambda d: GradientMonitor(save=d / "none" / "x.keras"), "does not exist"),
    "record before attach": (lambda _: GradientMonitor().record(GRADIENTS), "Call monitor.attach"),
    "too few": (lambda _: attached().record(GRADIENTS[:1]), "1 gradients for 2 variables"),
    "none at all": (lambda _: attached().record([None, None]), "does not depend"),
    "other shape": (lambda _: attached().record(GRADIENTS[::-1]), "has shape"),
    "not a list": (lambda _: attached().record(3), "list of gradients"),
    "not an optimizer": (lambda _: GradientMonitor().attach("adam", model()), "needs an optimizer"),
    "not a model": (lambda _: GradientMonitor().attach(keras.optimizers.SGD(), 3), "needs a model"),
    "no variables": (lambda _: GradientMonitor().attach(keras.optimizers.SGD(), []), "nothing to watch"),
    "no weights yet": (
        lambda _: GradientMonitor().attach(keras.optimizers.SGD(), keras.Sequential([keras.layers.Dense(1)])),
        "no weights yet",
    ),
    "stop in a loop": (lambda _: GradientMonitor(stop=True).attach(keras.optimizers.SGD(), model()), "should_stop"),
    "attach in a graph": (
        lambda _: tf.function(lambda: GradientMonitor().attach(keras.optimizers.SGD(), model()))(),
        "outside of tf.function",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input(case: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    call, words = CASES[case]
    with pytest.raises(ValueError, match=words) as caught:
        call(tmp_path)
    assert "\n" not in str(caught.value).strip() or case == "attach in a graph"


def test_other_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="Keras runs on jax"):
        GradientMonitor()


def test_one_monitor_for_each_model_and_one_model_for_each_monitor() -> None:
    x, y = np.ones((8, 3), "float32"), np.ones((8, 2), "float32")
    monitor, one = GradientMonitor(), model()
    one.fit(x, y, verbose=0, callbacks=[monitor])
    with pytest.raises(ValueError, match="another model"):
        model().fit(x, y, verbose=0, callbacks=[monitor])
    with pytest.raises(ValueError, match="only one of them"):
        one.fit(x, y, verbose=0, callbacks=[GradientMonitor(), GradientMonitor()])
    assert "apply" not in vars(one.optimizer)


def test_before_the_first_step() -> None:
    monitor = GradientMonitor()
    assert monitor.summary()["steps"] == 0 and monitor.summary()["verdict"] == "settling"
    assert "No step" in monitor.says[0]
    attached().record([None, GRADIENTS[1]])  # a variable without a part in the loss is allowed


def test_a_train_step_that_goes_past_the_optimizer() -> None:
    class Past(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.other = keras.layers.Dense(2), keras.optimizers.SGD()

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                loss = keras.ops.mean((self(x) - y) ** 2)
            self.other.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    past, monitor = Past(), GradientMonitor()
    past.compile(keras.optimizers.SGD(), "mse", run_eagerly=True)
    past.other.build(past.trainable_variables)
    past(np.ones((1, 3), "float32"))
    past.other = keras.optimizers.SGD()
    past.fit(np.ones((8, 3), "float32"), np.ones((8, 2), "float32"), verbose=0, callbacks=[monitor])
    assert monitor.summary()["steps"] == 0 and "does not call apply" in monitor.says[0]
