"""The monitor on real small runs: one of each verdict, in fit and in loops, and what it leaves behind."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ampcourse.amp import GradientMonitor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(256, 8)).astype("float32")
Y = X[:, :1] * 2 + 0.1
SPOILT = np.full_like(X, np.nan)


@pytest.fixture(autouse=True)
def _policy() -> Any:
    before = keras.mixed_precision.global_policy()
    yield
    keras.mixed_precision.set_global_policy(before)


def made(policy: str = "mixed_float16", optimizer: Any = None, norm: bool = False, **settings: Any) -> keras.Model:
    """A small compiled regression model."""
    keras.mixed_precision.set_global_policy(policy)
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(8, activation="tanh")] + ([keras.layers.BatchNormalization()] if norm else [])
    model = keras.Sequential([keras.Input((8,)), *hidden, keras.layers.Dense(1, dtype="float32")])
    settings = {"jit_compile": False} | settings
    model.compile(optimizer or keras.optimizers.SGD(1e-2), "mse", **settings)
    return model


def run(model: keras.Model, monitor: GradientMonitor, x: np.ndarray = X, epochs: int = 1, **more: Any) -> dict:
    y = np.resize(Y, (len(x), 1))
    model.fit(x, y, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=[monitor, *more.pop("with_", [])])
    return monitor.summary()


def finite(model: keras.Model) -> bool:
    return all(np.isfinite(w).all() for w in model.get_weights())


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ("float32", {}),
        ("mixed_bfloat16", {}),
        ("mixed_float16", {"jit_compile": True}),
        ("mixed_float16", {"steps_per_execution": 7}),
        ("mixed_float16", {"run_eagerly": True}),
    ],
)
def test_a_healthy_run(policy: str, settings: dict[str, Any]) -> None:
    monitor = GradientMonitor()
    model = made(policy, **settings)
    summary = run(model, monitor, X[:200])
    assert summary["verdict"] == "healthy" and summary["steps"] == 25
    assert summary["skipped"] == summary["nonfinite_steps"] <= 2
    assert summary["scale"] == (2.0 ** (15 - summary["skipped"]) if policy == "mixed_float16" else 1.0)
    assert summary["scaled"] is (policy == "mixed_float16")
    good = ~monitor.history["skipped"]
    assert np.isfinite(monitor.history["norm"][good]).all()
    assert np.isfinite(monitor.history["update_ratio"][good][:-1]).all()


def test_the_measured_numbers_are_those_of_the_step() -> None:
    model, monitor = made("mixed_float16"), GradientMonitor()
    kernel = model.layers[0].kernel
    before = kernel.numpy()
    with tf.GradientTape() as tape:
        loss = keras.ops.mean((model(X[:8]) - Y[:8]) ** 2)
    wanted = tape.gradient(loss, model.trainable_variables)
    run(model, monitor, X[:16])
    first = monitor.history["norm"][0]
    assert first == pytest.approx(np.sqrt(sum(float(tf.reduce_sum(g * g)) for g in wanted)), rel=0.02)
    other = made("mixed_float16")
    run(other, GradientMonitor(), X[:8])
    moved = np.linalg.norm(other.layers[0].kernel.numpy() - before) / np.linalg.norm(other.layers[0].kernel.numpy())
    assert monitor.table().row(kernel.path).update_ratio == pytest.approx(moved, rel=1e-3)
    assert monitor.table().row(kernel.path).compute == "float16"


def test_watching_changes_nothing() -> None:
    plain, watched = made(norm=True), made(norm=True)
    plain.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    run(watched, GradientMonitor(stop=True), epochs=2)
    for a, b in zip(plain.get_weights(), watched.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_scale_that_finds_its_level_is_healthy() -> None:
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-3), initial_scale=2.0**24)
    model, monitor = made(optimizer=optimizer), GradientMonitor()
    early = run(model, monitor, X[:16])
    assert early["verdict"] == "settling" and "Healthy skip" in monitor.says[0]
    late = run(model, monitor, epochs=2)
    assert late["verdict"] == "healthy" and 0 < late["skipped"] < 20
    assert "Healthy skip" in monitor.says[0]
    assert late["scale"] == 2.0 ** (24 - late["skipped"])


def test_one_skip_after_each_growth_is_healthy() -> None:
    inner = keras.optimizers.SGD(1e-4)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**17, dynamic_growth_steps=25)
    monitor = GradientMonitor()
    summary = run(made(optimizer=optimizer), monitor, epochs=7)
    assert summary["skipped"] >= 4 and summary["verdict"] == "healthy"


def test_every_overflow_is_counted_where_is_nan_sees_fewer() -> None:
    x, y = X.copy(), Y.copy()
    x[64:128] = np.abs(x[64:128]) + 0.1  # all of one sign, and so are the overflowing sums: no NaN among them
    y[64:128] = 1e4
    x[128:136] = np.nan
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-9), initial_scale=2.0**15)
    monitor = GradientMonitor()
    made(optimizer=optimizer).fit(x, y, batch_size=8, shuffle=False, verbose=0, callbacks=[monitor])
    summary = monitor.summary()
    assert summary["nonfinite_steps"] >= 8
    bad = monitor.history["nonfinite"] > 0
    assert summary["nonfinite_steps"] == bad.sum() == summary["skipped"] == monitor.history["skipped"].sum()
    assert summary["scale"] == 2.0 ** (15 - bad.sum())
    assert 0 < summary["nan_steps"] < summary["nonfinite_steps"]
    assert any("is_nan" in sentence for sentence in monitor.says)


@pytest.mark.parametrize("settings", [{}, {"steps_per_execution": 300}])
def test_a_falling_scale_is_told_long_before_it_is_zero(
    settings: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    x = np.concatenate([X, *[SPOILT] * 5, X])
    monitor = GradientMonitor()
    model = made(**settings)
    summary = run(model, monitor, x)
    assert summary["verdict"] == "diverged" and not finite(model)
    said = capfd.readouterr()
    assert not said.err
    if not settings:
        assert "collapsing" in said.out and said.out.index("collapsing") < said.out.index("diverged")


@pytest.mark.parametrize("settings", [{}, {"steps_per_execution": 300}])
def test_stop_ends_it_with_finite_weights(
    settings: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    x = np.concatenate([X, *[SPOILT] * 5, X])
    monitor = GradientMonitor(stop=True, save=tmp_path / "good.weights.h5")
    model = made(norm=True, **settings)
    summary = run(model, monitor, x, epochs=3)
    assert summary["verdict"] == "collapsing" and summary["steps"] < 100
    assert finite(model)
    assert "stopped" in capfd.readouterr().out
    again = made(norm=True)
    again.load_weights(tmp_path / "good.weights.h5")
    assert finite(again)
    more = run(model, monitor, X[:80])  # a halt holds for one run
    assert more["steps"] == summary["steps"] + 10


@pytest.mark.parametrize("stop", [False, True])
def test_a_run_without_a_scaler_diverges(stop: bool, tmp_path: Path) -> None:
    monitor = GradientMonitor(stop=stop, save=tmp_path / "good.keras")
    model = made("float32", keras.optimizers.SGD(1e6))
    summary = run(model, monitor, epochs=3)
    assert summary["verdict"] == "diverged"
    assert finite(model) is stop
    if stop:
        assert "halted" in monitor.says[0]
    assert finite(keras.models.load_model(tmp_path / "good.keras"))


def loop(
    model: keras.Model, optimizer: Any, monitor: GradientMonitor, scaled: bool = True
) -> Callable[[Any, Any], Any]:
    """A step of a loop of one's own."""

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = keras.ops.mean((model(x) - y) ** 2)
            loss = optimizer.scale_loss(loss) if scaled else loss
        gradients = tape.gradient(loss, model.trainable_variables)
        monitor.record(gradients)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return step


@pytest.mark.parametrize("how", ["eager", "graph", "jit"])
def test_a_loop_of_ones_own(how: str) -> None:
    model, monitor = made(), GradientMonitor()
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1e-3))
    monitor.attach(optimizer, model)
    traced = []
    inner = loop(model, optimizer, monitor)

    def step(x: Any, y: Any) -> Any:
        traced.append(1)
        return inner(x, y)

    call = step if how == "eager" else tf.function(step, jit_compile=how == "jit")
    for i in range(6):
        bad = i == 3
        call(tf.constant(SPOILT[:8] if bad else X[:8]), tf.constant(Y[:8]))
    if how != "eager":
        assert len(traced) == 1
        call(tf.constant(X[:4]), tf.constant(Y[:4]))
        assert len(traced) == 2
    summary = monitor.summary()
    assert summary["steps"] == (6 if how == "eager" else 7)
    assert summary["skipped"] == summary["nonfinite_steps"] == 1
    np.testing.assert_array_equal(np.flatnonzero(monitor.history["skipped"]), [3])
    assert summary["scale"] == 2.0**14
    assert not monitor.should_stop


def test_keras_2_and_plain_variables() -> None:
    import tf_keras

    scaler = tf_keras.mixed_precision.LossScaleOptimizer(tf_keras.optimizers.SGD())
    weight, monitor = tf.Variable(tf.ones([3, 1])), GradientMonitor()
    monitor.attach(scaler, [weight])

    @tf.function
    def step(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = scaler.get_scaled_loss(tf.reduce_mean((x @ weight) ** 2))
        gradients = tape.gradient(loss, [weight])
        monitor.record(gradients)
        scaler.apply_gradients(zip(scaler.get_unscaled_gradients(gradients), [weight], strict=True))

    for i in range(5):
        step(tf.constant(np.full((2, 3), np.inf if i == 2 else 1.0, np.float32)))
    assert monitor.summary()["skipped"] == monitor.summary()["nonfinite_steps"] == 1
    assert monitor.summary()["scale"] == 2.0**14
    np.testing.assert_array_equal(np.flatnonzero(monitor.history["skipped"]), [2])


def test_underflow_is_told_and_scaling_mends_it() -> None:
    verdicts = {}
    for scaled in (False, True):
        model, monitor = made(), GradientMonitor()
        plain = keras.optimizers.SGD(1e-9)
        optimizer = keras.optimizers.LossScaleOptimizer(plain) if scaled else plain
        monitor.attach(optimizer, model)
        step = loop(model, optimizer, monitor, scaled)
        weights = model.layers[-1].kernel
        weights.assign(weights * 1e-6)
        call = tf.function(step)
        for _ in range(15):
            call(tf.constant(X[:8]), tf.constant(Y[:8]))
        verdicts[scaled] = monitor.summary()["verdict"], monitor.says[0]
    assert verdicts[False][0] == "underflowing" and "LossScaleOptimizer" in verdicts[False][1]
    assert verdicts[True][0] == "healthy"


def test_weights_that_round_updates_away() -> None:
    monitor = GradientMonitor()
    summary = run(made("bfloat16", keras.optimizers.SGD(1e-6)), monitor)
    assert summary["verdict"] == "underflowing" and "round away" in monitor.says[0]
    low = [row for row in monitor.table().rows if row.dtype == "bfloat16" and "kernel" in row.name]
    assert low and all(row.roundoffs < 1 and row.unmoved > 0.5 for row in low)


def test_accumulation_and_nested_scalers() -> None:
    inner = keras.optimizers.SGD(1e-3, gradient_accumulation_steps=4)
    twice = keras.optimizers.LossScaleOptimizer(keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**3))
    monitor = GradientMonitor()
    summary = run(made("float32", twice), monitor)
    assert summary["scale"] == 2.0**18 and summary["skipped"] == 0
    moved = np.isfinite(monitor.history["update_ratio"])
    np.testing.assert_array_equal(np.flatnonzero(moved)[:3], [3, 7, 11])


def test_a_sparse_gradient_counts_its_rows() -> None:
    keras.mixed_precision.set_global_policy("mixed_float16")
    layers = [keras.layers.Embedding(1000, 4), keras.layers.Flatten(), keras.layers.Dense(1, dtype="float32")]
    model = keras.Sequential([keras.Input((3,), dtype="int32"), *layers])
    model.compile(keras.optimizers.Adam(), "mse", jit_compile=False)
    monitor = GradientMonitor()
    words = RNG.integers(0, 1000, (256, 3))
    assert run(model, monitor, words)["verdict"] == "healthy"
    assert monitor.table().rows[0].flushed < 0.2


class Stops(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 5:
            raise KeyboardInterrupt


class Saves(keras.callbacks.Callback):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        assert "apply" not in vars(self.model.optimizer)
        self.model.save(self.path)


def test_no_trace_is_left(tmp_path: Path) -> None:
    model, monitor = made(), GradientMonitor()
    run(model, monitor, X[:80], with_=[Saves(tmp_path / "middle.keras")])
    loaded = keras.models.load_model(tmp_path / "middle.keras")
    for one in (model, loaded):
        assert "apply" not in vars(one.optimizer) and "make_train_function" not in vars(one)
    with pytest.raises(KeyboardInterrupt):
        run(model, monitor, with_=[Stops()])
    assert monitor.summary()["steps"] == 16
    assert "apply" not in vars(model.optimizer)
    model.fit(X[:80], Y[:80], batch_size=8, verbose=0)  # without the monitor: nothing is recorded any more
    assert monitor.summary()["steps"] == 16 and "make_train_function" not in vars(model)
    assert run(model, monitor, X[:80])["steps"] == 26


def test_the_logs(tmp_path: Path) -> None:
    x = X[:160].copy()
    x[48] = np.inf
    monitor = GradientMonitor(log=tmp_path / "run.csv", every=5)
    run(made(), monitor, x, epochs=2)
    with (tmp_path / "run.csv").open() as file:
        rows = list(csv.DictReader(file))
    steps = [int(row["step"]) for row in rows]
    assert steps == sorted({1, 7, 27, *range(5, 41, 5)})
    assert [int(r["step"]) for r in rows if r["skipped"] == "1"] == [7, 27]
    run(made(), GradientMonitor(log=tmp_path / "board"), x)
    files = list((tmp_path / "board").glob("*tfevents*"))
    seen = {v.tag for e in tf.compat.v1.train.summary_iterator(str(files[0])) for v in e.summary.value}
    assert {"gradients/scale", "gradients/norm"} <= seen


def test_a_picture_and_a_table() -> None:
    monitor = GradientMonitor(live=True)
    run(made(), monitor, X[:80])
    assert "healthy" in monitor.picture().alt
    table = monitor.table()
    assert table._repr_html_().count('scope="row"') == len(table.rows) == 4
    assert all(row.name in str(table) for row in table.rows)
    assert "healthy" in str(monitor)
