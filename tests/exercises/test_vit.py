"""The rules behind lesson 08's exercises are Keras's own: attention layers are traced and run, and compared."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ampcourse.exercises.answers.vit.attend import attention
from ampcourse.exercises.answers.vit.compare import compare
from ampcourse.exercises.answers.vit.patches import patches
from ampcourse.exercises.answers.vit.paths import POLICIES, softmax_path
from ampcourse.exercises.answers.vit.scores import scaled_scores
from ampcourse.exercises.answers.vit.softmax import softmax

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")


def traced(policy: str, dropout: float, training: bool, with_scores: bool) -> tuple[str, str]:
    """The dtype of the softmax in Keras's graph, and whether a product of matrices comes before the scale or after."""
    layer = keras.layers.MultiHeadAttention(2, 8, dropout=dropout, dtype=policy, use_bias=False)
    x = tf.zeros((1, 4, 16), layer.compute_dtype)
    layer(x, x)
    graph = tf.function(
        lambda x: layer(x, x, training=training, return_attention_scores=with_scores), autograph=False
    ).get_concrete_function(x)
    operations = graph.graph.get_operations()
    (softmax,) = [op for op in operations if op.type == "Softmax"]
    kinds = [op.type for op in operations[: operations.index(softmax)]]
    last_product = max(place for place, kind in enumerate(kinds) if kind in ("Einsum", "BatchMatMulV2"))
    return softmax.outputs[0].dtype.name, "scores" if "Mul" in kinds[last_product:] else "query"


CASES = list(itertools.product(POLICIES, (0.0, 0.1), (False, True), (False, True)))


@pytest.mark.parametrize("row", CASES, ids=str)
def test_the_path_and_its_dtype_are_those_of_keras(row: tuple) -> None:
    assert softmax_path.right(*row) == traced(*row)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_attention_is_that_of_keras(dtype: str) -> None:
    rng = np.random.default_rng(0)
    query, key, value = (tf.cast(rng.normal(size=(2, n, 8)), dtype) for n in (3, 5, 5))
    allowed = rng.random((2, 3, 5)) < 0.6
    allowed[..., 0] = True
    heads: list[Any] = [tf.expand_dims(x, 2) for x in (query, key, value)]
    want = keras.ops.dot_product_attention(*heads, mask=allowed[:, np.newaxis])[:, :, 0]
    got = attention.right(query, key, value, tf.constant(allowed))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(tf.cast(got, tf.float32), tf.cast(want, tf.float32), rtol=0.02, atol=0.02)


def test_patches_are_those_of_keras() -> None:
    pictures = np.random.default_rng(0).random((2, 8, 12, 3)).astype(np.float32)
    cut = keras.ops.convert_to_numpy(keras.ops.image.extract_patches(pictures, 4))
    np.testing.assert_array_equal(patches.right(pictures, 4), cut.reshape(2, 6, 48))


def test_the_examples_beside_the_blanks_hold() -> None:
    pictures = np.arange(8.0).reshape(1, 2, 4, 1)
    np.testing.assert_array_equal(patches.right(pictures, 2), [[[0, 1, 4, 5], [2, 3, 6, 7]]])
    query, key = tf.constant([[[4, 0, 0, 0]]], tf.float16), tf.constant([[[3, 1, 1, 1]]], tf.float16)
    np.testing.assert_array_equal(scaled_scores.right(query, key), [[[6]]])
    np.testing.assert_array_equal(softmax.right(tf.constant([[0, 0], [-300, -300]], tf.float16)), [[0.5] * 2] * 2)
    answer = compare.right(*np.array([[1, 2, 3, 3], [1, 2, 0, 0], [1, 0, 3, 3]]))
    np.testing.assert_allclose(answer, [0.25, -0.56257, 1.06257, 1 / 3], rtol=1e-4)
    assert softmax_path.right("mixed_float16", 0.0, False, False) == ("float32", "scores")
