"""The monitor among things that go wrong around it: interruptions, logs that vanish, kernels."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcourse.amp import GradientMonitor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 8)).astype("float32")
Y = X[:, :1] * 2 + 0.1


@pytest.fixture(autouse=True)
def _policy() -> Any:
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    yield
    keras.mixed_precision.set_global_policy(before)


class Own(keras.Model):
    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.dense, self.broken = keras.layers.Dense(1, dtype="float32"), broken

    def call(self, x: Any) -> Any:
        if self.broken:
            raise RuntimeError("no")
        return self.dense(x["x"] if isinstance(x, dict) else x)


def made(optimizer: Any = None) -> keras.Model:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, dtype="float32")])
    model.compile(optimizer or keras.optimizers.SGD(1e-3), "mse", jit_compile=False)
    return model


def fit(model: keras.Model, *callbacks: Any, x: Any = X, epochs: int = 1) -> None:
    model.fit(x, Y, batch_size=16, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks))


def layers() -> list[Any]:
    return [keras.layers.Dense(4), keras.layers.Dense(1, dtype="float32")]


UNBUILT = {
    "a Sequential without Input": lambda: keras.Sequential(layers()),
    "a model of one's own": Own,
    "layers of another model": lambda: keras.Sequential(keras.Sequential([keras.Input((8,)), *layers()]).layers),
}


@pytest.mark.parametrize("kind", UNBUILT)
def test_models_without_weights(kind: str) -> None:
    weights = []
    for watched in (True, False):
        keras.utils.set_random_seed(1)
        model, monitor = UNBUILT[kind](), GradientMonitor()
        model.compile("sgd", "mse", jit_compile=False)
        fit(model, *([monitor] if watched else []), x={"x": X} if isinstance(model, Own) else X)
        weights.append(model.get_weights())
        assert monitor.summary()["steps"] == (4 if watched else 0)
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore:Layer 'own", "ignore:`build")
def test_a_model_that_cannot_be_built() -> None:
    model = Own(broken=True)
    model.compile("sgd", "mse", jit_compile=False)
    with pytest.raises(ValueError, match="no weights yet"):
        fit(model, GradientMonitor())
    assert "apply" not in vars(model.optimizer)


class Between(keras.callbacks.Callback):
    def __init__(self, act: Any) -> None:
        super().__init__()
        self.act = act

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 0:
            self.act(self.model)


def anew(model: keras.Model) -> None:
    model.compile(keras.optimizers.SGD(1e-3), "mse", jit_compile=False)
    model.make_train_function()


@pytest.mark.parametrize(("act", "steps"), [(anew, 4), (lambda m: m.train_on_batch(X[:16], Y[:16]), 8)])
def test_what_interrupts_the_watching_is_told(act: Any, steps: int) -> None:
    model, monitor = made(), GradientMonitor()
    fit(model, monitor, Between(act), epochs=2)
    assert monitor.summary()["steps"] == steps and monitor.summary()["skipped"] == 0
    assert any("nothing was watched" in sentence for sentence in monitor.says)
    assert "make_train_function" not in vars(model) and "apply" not in vars(model.optimizer)


def test_steps_taken_unwatched_hide_no_skipped_step() -> None:
    model, monitor = made(), GradientMonitor()
    spoilt = X.copy()
    spoilt[-1] = np.nan
    fit(model, monitor, x=spoilt)
    fit(model)
    fit(model, monitor, x=spoilt)
    assert monitor.summary()["skipped"] == 2
    np.testing.assert_array_equal(np.flatnonzero(monitor.history["skipped"]), [3, 7])


def test_copies_and_models_saved_on_the_way_carry_nothing(tmp_path: Path) -> None:
    kept: list[Any] = []

    def act(model: keras.Model) -> None:
        kept.append(copy.deepcopy(model.optimizer))
        model.save(tmp_path / "x.keras")

    fit(made(), GradientMonitor(), Between(act), epochs=2)
    kept.append(keras.models.load_model(tmp_path / "x.keras").optimizer)
    assert all("apply" not in vars(optimizer) for optimizer in kept)


def test_a_log_that_vanishes_does_not_end_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    monitor = GradientMonitor(log=tmp_path / "logs" / "run.csv")
    shutil.rmtree(tmp_path / "logs")
    fit(made(), monitor)
    said = capfd.readouterr()
    assert monitor.summary()["steps"] == 4 and said.out.count("cannot be written any more") == 1 and not said.err


def test_a_run_that_is_there_is_not_written_over(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.csv"
    for number in (1, 2, 3):
        GradientMonitor(log=path)  # a cell that is run again before fit: nothing is there that could be lost
        fit(made(), GradientMonitor(log=path), epochs=number)
    rows = {file.name: file.read_text().count("\n") - 1 for file in tmp_path.iterdir()}
    assert rows == {"run.csv": 4, "run-2.csv": 8, "run-3.csv": 12}
    said = capfd.readouterr().out
    assert f"{path} already holds a run, so this one is logged to {tmp_path / 'run-2.csv'}" in said
    other = tmp_path / "notes.csv"
    other.write_text("my own table")
    fit(made(), GradientMonitor(log=other, verbose=0))
    assert other.read_text() == "my own table" and (tmp_path / "notes-2.csv").exists()


def test_each_run_has_a_folder_of_its_own_for_tensorboard(tmp_path: Path) -> None:
    for _ in range(2):
        fit(made(), GradientMonitor(log=tmp_path / "board", verbose=0))
    assert [len(list((tmp_path / name).glob("events*"))) for name in ("board", "board-2")] == [1, 1]


@pytest.mark.parametrize("built", [True, False])
def test_a_step_that_raises_leaves_no_trace(built: bool) -> None:
    model, monitor = made() if built else keras.Sequential(layers()), GradientMonitor()
    if not built:
        model.compile("sgd", "mse", jit_compile=False)

    def data() -> Any:
        yield X[:16], Y[:16]
        yield X[16:32], Y[16:32]
        raise RuntimeError("the disk is gone")

    with pytest.raises(Exception, match="the disk is gone"):
        model.fit(data(), verbose=0, callbacks=[monitor])
    assert "make_train_function" not in vars(model) and "apply" not in vars(model.optimizer)
    assert "FitHook" not in repr(model.train_function)
    assert monitor.summary()["steps"] == 2
    fit(model, monitor)
    assert monitor.summary()["steps"] == 6


def test_one_step_is_said_in_the_singular() -> None:
    monitor, model = GradientMonitor(), made()
    model.fit(X[:16], Y[:16], batch_size=16, verbose=0, callbacks=[monitor])
    told = f"{monitor}\n{monitor.table()}"
    assert "All gradients of 1 step were finite" in told and "Gradients of 1 step, by variable" in told
    assert "1 steps" not in told


def test_attached_first_and_then_used_in_fit() -> None:
    model, monitor = made(), GradientMonitor()
    fit(model)
    monitor.attach(model.optimizer, model)
    fit(model, monitor)
    assert monitor.summary()["steps"] == 4 and monitor.summary()["skipped"] == 0


def test_thirteen_overflows_of_which_the_loss_shows_none() -> None:
    """Infinite gradients of one sign hold no NaN; the loss is that of the forward pass, and finite at every step."""
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.0))
    weight, monitor = tf.Variable(tf.ones([2, 1])), GradientMonitor()
    monitor.attach(optimizer, [weight])
    losses, nan = [], []
    for i in range(40):
        x = tf.constant([[30.0, 40.0]] if i % 3 == 0 and i < 39 else [[1e-4, 1e-4]], tf.float16)
        with tf.GradientTape() as tape:
            loss = tf.cast(tf.reduce_sum(tf.matmul(x, tf.cast(weight, tf.float16))), tf.float32)
            big = optimizer.scale_loss(loss) * (1e3 if i % 3 == 0 and i < 39 else 1.0)
        gradients = [tf.where(tf.math.is_finite(g), g, np.inf) for g in tape.gradient(big, [weight])]
        if i == 3:
            gradients = [gradients[0] * 0.0]
        losses.append(float(loss))
        nan.append(bool(tf.reduce_any(tf.math.is_nan(gradients[0]))))
        monitor.record(gradients)
        optimizer.apply(gradients, [weight])
    summary = monitor.summary()
    assert np.isfinite(losses).all()
    assert summary["nonfinite_steps"] == summary["skipped"] == 13
    assert summary["nan_steps"] == sum(nan) == 1


@pytest.mark.parametrize("kind", ["right", "forgotten", "clipped"])
def test_a_loss_that_was_not_scaled_is_asked_for(kind: str) -> None:
    model, monitor = made(), GradientMonitor()
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-2))
    monitor.attach(optimizer, model)

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
            loss = loss if kind == "forgotten" else optimizer.scale_loss(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        if kind == "clipped":
            gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        monitor.record(gradients)
        optimizer.apply(gradients, model.trainable_variables)

    for _ in range(25):
        step(tf.constant(X[:16]), tf.constant(Y[:16]))
    assert any("is the loss scaled" in sentence for sentence in monitor.says) is (kind != "right")


def test_keras_2_stops_at_one() -> None:
    import tf_keras

    scaler = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())
    weight, monitor = tf.Variable(tf.ones([3, 1])), GradientMonitor()
    monitor.attach(scaler, [weight])
    for i in range(20):
        gradients = [tf.fill([3, 1], np.inf if i > 3 else 1.0)]
        monitor.record(gradients)
        scaler.apply_gradients([(scaler.get_unscaled_gradients(gradients)[0], weight)])
    assert monitor.summary()["scale"] == 1.0 and monitor.summary()["verdict"] == "collapsing"
    assert "at 1.0 it stops" in monitor.says[0] and "0.0," not in monitor.says[0]
    known = np.isfinite(monitor.history["update_ratio"])
    np.testing.assert_array_equal(np.flatnonzero(known), [0, 1, 2, 3])
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(8,))])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="tf_keras"):
        model.fit(X, Y, verbose=0, callbacks=[GradientMonitor()])
    with pytest.raises(ValueError, match="no weights yet"):
        GradientMonitor().attach(tf_keras.optimizers.SGD(), tf_keras.Sequential([tf_keras.layers.Dense(1)]))


REPLICAS = """
import tensorflow as tf, keras, numpy as np
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from ampcourse.amp import GradientMonitor
keras.mixed_precision.set_global_policy("mixed_float16")
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, dtype="float32")])
    model.compile(keras.optimizers.SGD(1e-3), "mse", jit_compile=False)
x = np.ones((64, 8), "float32")
x[16] = np.nan  # the first half of the second batch: the first replica
monitor = GradientMonitor()
for _ in range(2):
    model.fit(x, np.ones((64, 1)), batch_size=16, shuffle=False, verbose=0, callbacks=[monitor])
s = monitor.summary()
where = np.flatnonzero(monitor.history["skipped"]).tolist()
print("SEEN", s["steps"], s["skipped"], s["nonfinite_steps"], s["scale"], where)
"""


@pytest.mark.full
def test_two_replicas() -> None:
    done = subprocess.run([sys.executable, "-c", REPLICAS], capture_output=True, text=True, timeout=600, check=False)
    assert "SEEN 8 2 2 8192.0 [1, 5]" in done.stdout, done.stderr[-2000:]


LIVE = """
import keras, numpy as np
from ampcourse.amp import GradientMonitor
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
monitor = GradientMonitor(live=True)
model.fit(np.ones((640, 8)), np.ones(640), batch_size=8, verbose=0, epochs=3, callbacks=[monitor]);
"""


@pytest.mark.full
def test_live_in_a_kernel() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    quiet = "from ampcourse import quietly\nwith quietly():\n    import tensorflow"
    cells = [nbformat.v4.new_code_cell(text) for text in (quiet, LIVE)]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3").execute()
    outputs = [output for cell in book.cells for output in cell.outputs]
    assert [output.output_type for output in outputs] == ["display_data"], outputs
    assert any(kind in outputs[0].data for kind in ("text/html", "image/svg+xml", "image/png"))
