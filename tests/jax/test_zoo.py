"""The models on JAX: the numbers that TensorFlow computes, every policy, and loss scaling that halves and skips."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import fixed
import keras
import numpy as np
import pytest

from ampcourse.models import zoo

# Each kind every day; Swin in the test of the policies. The others are the same code in another size.
KINDS = ("resnet8", "resnet50", "vit_tiny", "bert_base", "retinanet_r50", "ncf", "gnmt")
NAMES = [name if name in KINDS else pytest.param(name, marks=pytest.mark.full) for name in zoo.names()]
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
# In float32 the test of the numbers trains these three.
LIGHT = [(name, policy) for name in fixed.STEPPED for policy in POLICIES[1:]]
# The others are long in compiling: one policy each, and RetinaNet and ResNet-50 only before a release.
HEAVY = [("bert_base", "mixed_float16"), ("gnmt", "mixed_float16"), ("swin_t", "mixed_bfloat16")]
EVERY_DAY = LIGHT + HEAVY
LONG = [(name, policy) for name in zoo.names() for policy in POLICIES if (name, policy) not in EVERY_DAY]


@pytest.fixture(autouse=True)
def _own_policy() -> Iterator[None]:
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


def skip_what_cannot_run(work: zoo.Workload, policy: str) -> None:
    if reason := work.obstacle(policy):
        pytest.skip(reason)


def trained(name: str, policy: str, initial_scale: float, steps: int = 1) -> tuple[Any, Any, list[float]]:
    """The small model after some steps of `fit` on one batch, its optimizer, and the loss of each step."""
    work = zoo.workload(name, "small")
    skip_what_cannot_run(work, policy)
    keras.config.set_dtype_policy(policy)
    model = work.build()
    optimizer = keras.optimizers.LossScaleOptimizer(work.optimizer(), initial_scale=initial_scale)
    model.compile(optimizer, work.loss)
    x, y = work.samples(4, 1)
    losses = model.fit(x, y, batch_size=4, epochs=steps, verbose=0).history["loss"]
    return model, optimizer, losses


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_those_of_tensorflow(name: str) -> None:
    fixed.compare(name)


@pytest.mark.parametrize(("name", "policy"), EVERY_DAY + [pytest.param(*p, marks=pytest.mark.full) for p in LONG])
def test_a_model_computes_and_learns_under_every_policy(name: str, policy: str) -> None:
    model, optimizer, losses = trained(name, policy, 128.0)
    narrow = policy.removeprefix("mixed_")
    assert narrow in {layer.compute_dtype for layer in model._flatten_layers(include_self=False) if layer.weights}
    floats = {str(w.dtype) for w in model.weights if "int" not in str(w.dtype)}
    assert floats == {"float32"}
    assert np.isfinite(losses).all()
    assert int(optimizer.inner_optimizer.iterations) == 1, "the gradients are not finite"
    assert {output.dtype for output in model.outputs} == {"float32"}


def test_a_scale_that_is_too_large_is_halved_and_the_step_skipped() -> None:
    """As on TensorFlow: nothing moves, also no counted step, until the scaled gradients are finite."""
    model, optimizer, losses = trained("resnet8", "mixed_float16", 2.0**40, steps=3)
    assert float(optimizer.dynamic_scale) == 2.0**37
    assert int(optimizer.inner_optimizer.iterations) == 0
    np.testing.assert_allclose(losses[1:], losses[0], rtol=1e-4)  # the order of a sum may differ
    keras.utils.set_random_seed(0)
    fresh = zoo.workload("resnet8", "small").build()
    for weight, start in zip(model.trainable_variables, fresh.trainable_variables, strict=True):
        np.testing.assert_array_equal(weight, start)


@pytest.mark.parametrize("name", zoo.names())
def test_only_float16_attention_cannot_run_on_a_cpu_and_says_so_in_one_sentence(name: str) -> None:
    work = zoo.workload(name, "small")
    assert work.obstacle("float32") is None and work.obstacle("mixed_bfloat16") is None
    said = work.obstacle("mixed_float16")
    assert (said is not None) == name.startswith("vit")
    assert said is None or ("mixed_bfloat16" in said and "\n" not in said and said.endswith("."))


def test_the_obstacle_is_really_there() -> None:
    """The day that JAX multiplies float16 on a CPU, this fails, and the sentence can go."""
    work = zoo.workload("vit_tiny", "small")
    keras.config.set_dtype_policy("mixed_float16")
    model = work.build()
    model.compile(work.optimizer(), work.loss)
    with pytest.raises(ValueError, match="F16_F16_F32"):
        model.train_on_batch(*work.samples(1, 0))
