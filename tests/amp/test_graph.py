"""The graph rewrite, watched on a GPU that is not there: what changes, what does not and why, and bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ampcourse.amp import rewritten_graph

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")


@pytest.fixture(scope="module")
def weights() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    first = tf.Variable(rng.normal(size=(16, 16)).astype("float32") / 4, name="first")
    return first, tf.Variable(rng.normal(size=(16, 4)).astype("float32") / 4, name="second")


@pytest.fixture(scope="module")
def step(weights: tuple[Any, Any]) -> Callable:
    """A training step by hand: 2 multiplications forward, 3 backward."""
    first, second = weights

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = tf.nn.relu(x @ first) @ second
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        for variable, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    return step


BATCH = (np.ones((8, 16), "float32"), np.zeros(8, "int32"))


def test_multiplications_become_float16_and_the_loss_does_not(step: Callable) -> None:
    seen = rewritten_graph(step, *BATCH)
    assert seen.rewritten
    assert {n.after for n in seen.of("MatMul")} == {"float16"}
    assert all((n.list, n.why) == ("allow", "on the allow list") for n in seen.of("MatMul"))
    assert {n.after for op in ("Mean", "SparseSoftmaxCrossEntropyWithLogits") for n in seen.of(op)} == {"float32"}
    assert seen.of("Mean")[0].list == "deny"
    assert seen.count("float16", "MatMul") == len(seen.of("MatMul")) == 5


def test_variables_stay_and_no_loss_scaling_comes(step: Callable) -> None:
    seen = rewritten_graph(step, *BATCH)
    assert dict(seen.variables) == {"first:0": "float32", "second:0": "float32"}
    assert seen.loss_scaling is False
    assert set(seen.added) == {"Cast"}
    assert seen.added["Cast"] == len(seen.casts) > 0
    assert {c.before for c in seen.casts} | {c.after for c in seen.casts} == {"float32", "float16"}


def test_every_cast_joins_two_dtypes(step: Callable) -> None:
    seen = rewritten_graph(step, *BATCH)
    after = {n.name: n.after for n in seen.nodes}
    for cast in seen.casts:
        assert cast.readers
        assert {after[reader] for reader in cast.readers} == {cast.after}
        assert after[cast.source] == cast.before


@pytest.mark.parametrize("device", ["sm_70", "sm_75", "sm_80", "sm_100", "SM_120"])
def test_new_gpus_are_rewritten_for(step: Callable, device: str) -> None:
    assert rewritten_graph(step, *BATCH, device=device).rewritten


@pytest.mark.parametrize("device", ["sm_37", "sm_60", "sm_62"])
def test_old_gpus_are_refused_with_the_reason(step: Callable, device: str) -> None:
    seen = rewritten_graph(step, *BATCH, device=device)
    assert not seen.rewritten
    assert "below 7.0" in seen.reason
    assert not seen.casts
    assert all(n.before == n.after and n.why == "" for n in seen.nodes)


def test_what_does_not_apply_says_why(step: Callable) -> None:
    reasons = {
        rewritten_graph(step, *BATCH, device=device, option=option).reason
        for device, option in [
            ("cpu", "auto_mixed_precision"),
            ("sm_80", "auto_mixed_precision_onednn_bfloat16"),
            ("cpu", "auto_mixed_precision_cpu"),
        ]
    }
    reasons |= {rewritten_graph(f, np.ones((4, 4))).reason for f in (tf.exp, lambda x: x @ x)}
    assert len(reasons) == 5
    assert all(reason.startswith("Nothing was rewritten: ") for reason in reasons)


def test_words_for_what_stayed(weights: tuple[Any, Any]) -> None:
    def chain(x: Any) -> Any:
        risky = tf.exp(x @ weights[0])
        return tf.cos(tf.nn.relu(risky * 2.0)), tf.tanh(x), tf.abs(x)

    why = {n.op: n.why for n in rewritten_graph(chain, BATCH[0]).nodes}
    assert why["Exp"] == "on the deny list"
    assert why["Mul"] == "behind Exp, which is on the deny list"
    assert why["Relu"] == "no rewritten neighbour"
    assert why["Cos"] == "on no list"
    assert why["Tanh"] == "follows no rewritten operation"
    assert why["Identity"] == "an input or output of the function"


def test_lists_come_from_the_pass_and_follow_its_environment(
    weights: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def mean(x: Any) -> Any:
        return tf.reduce_mean(x @ weights[0])

    usual = rewritten_graph(mean, BATCH[0])
    known = {"MatMul": "allow", "Conv2D": "allow", "Exp": "deny", "Mean": "deny", "BiasAdd": "infer", "Relu": "clear"}
    assert known.items() <= usual.lists.items()
    assert usual.of("Mean")[0].after == "float32"
    monkeypatch.setenv("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_DENYLIST_REMOVE", "Mean")
    monkeypatch.setenv("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_INFERLIST_ADD", "Mean")
    tuned = rewritten_graph(mean, BATCH[0])
    assert tuned.lists["Mean"] == "infer"
    assert tuned.of("Mean")[0].after == "float16"


def test_nested_functions_and_loops_are_looked_into(weights: tuple[Any, Any]) -> None:
    layer = tf.function(lambda x: tf.nn.relu(x @ weights[0]))

    @tf.function
    def outer(x: Any) -> Any:
        for _ in tf.range(3):
            x = layer(x)
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ weights[1], lambda: tf.zeros((8, 4)))

    seen = rewritten_graph(outer, tf.TensorSpec((8, 16)))
    assert len(seen.of("MatMul")) == 2
    assert seen.count("float16", "MatMul") == 2


def test_a_function_a_tf_function_and_a_concrete_function_are_the_same(step: Callable) -> None:
    compiled = tf.function(step)
    concrete = compiled.get_concrete_function(*map(tf.TensorSpec.from_tensor, map(tf.constant, BATCH)))
    ways = [rewritten_graph(step, *BATCH), rewritten_graph(compiled, *BATCH), rewritten_graph(concrete)]
    assert len({tuple((n.op, n.after) for n in seen.nodes) for seen in ways}) == 1


@pytest.fixture(scope="module")
def model() -> Any:
    layers = [keras.layers.Dense(8, activation="relu", dtype="float32"), keras.layers.Dense(3, dtype="float32")]
    return keras.Sequential([keras.Input((16,)), *layers], name="small")


def test_keras_models_and_their_training_step(model: Any) -> None:
    for seen in (rewritten_graph(model), rewritten_graph(model, tf.TensorSpec((4, 16)))):
        assert seen.count("float16", "MatMul") == 2
        assert set(seen.variables.values()) == {"float32"}
    model.compile(keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.optimizer.build(model.trainable_variables)
    seen = rewritten_graph(lambda x, y: model.train_step((x, y)), *BATCH)
    assert {n.after for n in seen.of("MatMul")} == {"float16"}
    assert {n.after for n in seen.of("Sqrt")} == {"float32"}, "Adam's own arithmetic"
    assert not seen.loss_scaling


def test_loss_scaling_that_the_program_brings_is_seen(model: Any) -> None:
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    optimizer.build(model.trainable_variables)

    def scaled(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x))))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    seen = rewritten_graph(scaled, *BATCH)
    assert seen.loss_scaling
    assert set(seen.added) == {"Cast"}


def test_running_it_rounds_overflows_and_updates(weights: tuple[Any, Any], step: Callable) -> None:
    big = rewritten_graph(lambda x: x @ x, tf.TensorSpec((4, 4)))
    assert np.isinf(big.run(np.full((4, 4), 300.0, "float32"))).all()
    assert big.run(np.full((4, 4), 2.0, "float32")).numpy().tolist() == [[16.0] * 4] * 4
    with pytest.raises(ValueError, match="takes 1 array or tensor, and 2"):
        big.run(np.ones((4, 4)), np.ones((4, 4)))
    seen, start = rewritten_graph(step, *BATCH), [w.numpy() for w in weights]
    loss = float(seen.run(*BATCH))
    moved = [w.numpy() - s for w, s in zip(weights, start, strict=True)]
    for w, s in zip(weights, start, strict=True):
        w.assign(s)
    assert loss == pytest.approx(float(step(*map(tf.constant, BATCH))), rel=1e-2)
    for w, s, m in zip(weights, start, moved, strict=True):
        assert np.abs(m).max() > 0
        np.testing.assert_allclose(m, w.numpy() - s, rtol=0.02, atol=1e-5)
        w.assign(s)


def test_text_and_html_tell_the_same(step: Callable) -> None:
    seen = rewritten_graph(step, *BATCH)
    text, page = str(seen), seen._repr_html_()
    for part in (seen.reason, "no IsFinite", "Variables", "SparseSoftmaxCrossEntropyWithLogits"):
        assert part in text
        assert part in page
    assert page.count("<caption") == 1
    assert 'scope="col"' in page
    assert 'scope="row"' in page


def test_a_large_graph_is_counted_instead_of_listed() -> None:
    layers = [keras.layers.Dense(4, activation="relu") for _ in range(30)]
    seen = rewritten_graph(keras.Sequential([keras.Input((4,)), *layers]))
    assert "How many" in str(seen)
    assert len(str(seen).splitlines()) < 20
    with pytest.raises(ValueError, match="a picture shows 1 to"):
        seen.picture()


def test_the_picture_names_every_operation(weights: tuple[Any, Any]) -> None:
    picture = rewritten_graph(lambda x: tf.exp(tf.nn.relu(x @ weights[0])), BATCH[0]).picture()
    for part in ("MatMul float32 to float16", "Relu float32 to float16", "Exp float32", "casts are inserted"):
        assert part in picture.alt


def _does_not_trace(x: Any) -> Any:
    return x.numpy() + 1


@tf.autograph.experimental.do_not_convert
def _python_if(x: Any) -> Any:
    return x if x > 0 else -x


class _Unbuilt(keras.Model):
    def call(self, x: Any) -> Any:
        return x * 2


BAD = {
    "no arguments": (lambda f, m: rewritten_graph(f), ValueError, "step takes x, y, and nothing was given"),
    "too few": (lambda f, m: rewritten_graph(f, BATCH[0]), ValueError, "with 1 argument: missing .* 'y'"),
    "too many": (lambda f, m: rewritten_graph(f, *BATCH, 1.0), ValueError, "with 3 arguments: too many"),
    "a shape that does not fit": (
        lambda f, m: rewritten_graph(f, np.ones((8, 3), "float32"), BATCH[1]),
        ValueError,
        r"step does not accept arguments of shape \(8, 3\)",
    ),
    "a sample that does not fit the model": (
        lambda f, m: rewritten_graph(m, np.ones((8, 3), "float32")),
        ValueError,
        r"small does not accept arguments of shape \(8, 3\)",
    ),
    "another shape than traced": (
        lambda f, m: rewritten_graph(tf.function(m).get_concrete_function(tf.TensorSpec((4, 16))), np.ones((3, 3))),
        ValueError,
        "the ConcreteFunction was traced for",
    ),
    "a model that knows no inputs": (lambda f, m: rewritten_graph(_Unbuilt()), ValueError, "give a sample batch"),
    "values asked for": (
        lambda f, m: rewritten_graph(_does_not_trace, BATCH[0]),
        ValueError,
        r"_does_not_trace does not trace into a graph \(line \d+\).*numpy",
    ),
    "control flow on a value": (
        lambda f, m: rewritten_graph(_python_if, np.float32(1)),
        ValueError,
        "_python_if does not trace into a graph",
    ),
    "a graph of TensorFlow 1": (lambda f, m: rewritten_graph(tf.Graph()), TypeError, "TensorFlow 1 Graph"),
    "a session": (lambda f, m: rewritten_graph(tf.compat.v1.Session()), TypeError, "TensorFlow 1 Session"),
    "another framework": (lambda f, m: rewritten_graph(_fake_torch()), TypeError, "not TensorFlow's"),
    "text": (lambda f, m: rewritten_graph("step"), TypeError, "not a str"),
    "nothing": (lambda f, m: rewritten_graph(None), TypeError, "not a NoneType"),
    "a class": (lambda f, m: rewritten_graph(_Unbuilt), TypeError, "the class _Unbuilt"),
    "a card's name": (lambda f, m: rewritten_graph(f, *BATCH, device="h100"), ValueError, "'h100' is not known"),
    "no number": (lambda f, m: rewritten_graph(f, *BATCH, device="sm_xx"), ValueError, "'sm_xx' is not known"),
    "no such capability": (
        lambda f, m: rewritten_graph(f, *BATCH, device="sm_999"),
        ValueError,
        "'sm_999' is not known",
    ),
    "capability 0": (lambda f, m: rewritten_graph(f, *BATCH, device="sm_05"), ValueError, "'sm_05' is not known"),
    "another array to run": (
        lambda f, m: rewritten_graph(m).run(np.ones((8, 3), "float32")),
        ValueError,
        r"Array 1 has the shape \(8, 3\)",
    ),
    "nothing to run": (lambda f, m: rewritten_graph(m).run("text"), ValueError, "takes 1 array or tensor, and 0 were"),
    "a number": (lambda f, m: rewritten_graph(f, *BATCH, device=80), ValueError, "The device 80 is not known"),
    "an option": (lambda f, m: rewritten_graph(f, *BATCH, option="amp"), ValueError, "'amp' is not known"),
}


def _fake_torch() -> Any:
    return type("Linear", (), {"__module__": "torch.nn", "__call__": lambda self: None})()


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case: str, step: Callable, model: Any) -> None:
    call, kind, says = BAD[case]
    with pytest.raises(kind, match=says) as caught:
        call(step, model)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_another_keras_backend_is_named(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(TypeError, match="backend 'jax'"):
        rewritten_graph(model)


def test_tensorflow_1_behaviour_is_named(step: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.compat.v1, "executing_eagerly_outside_functions", lambda: False)
    with pytest.raises(ValueError, match="Eager execution is switched off"):
        rewritten_graph(step, *BATCH)


def test_nothing_reaches_stderr(step: Callable, capfd: pytest.CaptureFixture) -> None:
    rewritten_graph(step, *BATCH).run(*BATCH)
    rewritten_graph(step, *BATCH, device="sm_60")
    assert capfd.readouterr().err == ""


BFLOAT16 = """
import sys
from ampcourse import quietly
from ampcourse.amp import graph_pass, rewritten_graph
with quietly():
    import tensorflow as tf
    w = tf.ones((4, 4))
seen = rewritten_graph(lambda x: tf.exp(x @ w), tf.TensorSpec((4, 4)), device="cpu",
                       option="auto_mixed_precision_onednn_bfloat16")
print(graph_pass.onednn_is_on(), seen.rewritten, seen.of("MatMul")[0].after, seen.of("Exp")[0].after, seen.reason)
"""


@pytest.mark.parametrize("on", ["0", "1"])
def test_bfloat16_on_a_cpu_needs_onednn(on: str) -> None:
    """It is decided before TensorFlow is imported, so each way needs a process of its own."""
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": on}
    done = subprocess.run([sys.executable, "-c", BFLOAT16], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == ""
    is_on, rewritten, product, exponential, reason = done.stdout.split(maxsplit=4)
    assert rewritten == is_on
    assert product == ("bfloat16" if is_on == "True" else "float32")
    assert exponential == "float32"
    assert ("oneDNN is off" in reason) == (is_on == "False")
