"""What XLA makes of functions and models: directions that hold on every machine, never counts of a version."""

from __future__ import annotations

import html.parser
import re
import subprocess
import sys

import numpy as np
import pytest

from ampcourse import amp, plots, quietly
from ampcourse.amp.xla import Hlo, hlo

with quietly():
    import keras
    import tensorflow as tf

X = np.linspace(-2, 2, 64 * 32, dtype="float32").reshape(64, 32)


def chain(x):
    return tf.tanh(tf.nn.relu(x * 2 + 1)) * x


@pytest.fixture(scope="module")
def fused() -> Hlo:
    return hlo(chain, X)


def small_model(policy: str = "float32") -> keras.Model:
    inputs = keras.Input((16, 16, 8))
    x = keras.layers.Conv2D(16, 3, padding="same", dtype=policy)(inputs)
    x = keras.layers.BatchNormalization(dtype=policy)(x)
    x = keras.layers.ReLU(dtype=policy)(x)
    x = keras.layers.GlobalAveragePooling2D(dtype=policy)(x)
    x = keras.layers.Dense(32, activation="gelu", dtype=policy)(x)
    return keras.Model(inputs, keras.layers.Dense(4, dtype="float32")(x), name="small")


def training_step(model: keras.Model, optimizer: keras.optimizers.Optimizer):
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return step


@pytest.fixture(scope="module", params=["float32", "mixed_bfloat16", "mixed_float16"])
def trained(request: pytest.FixtureRequest) -> tuple[str, Hlo, bool]:
    """A training step with loss scaling, by policy, and whether compiling it changed a variable."""
    keras.utils.set_random_seed(0)
    model = small_model(request.param)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    before = [w.copy() for w in model.get_weights()]
    seen = hlo(training_step(model, optimizer), np.ones((4, 16, 16, 8), "float32"), np.zeros((4, 4), "float32"))
    moved = any((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))
    return request.param, seen, moved or int(optimizer.iterations) > 0


def test_an_elementwise_chain_becomes_one_kernel(fused: Hlo) -> None:
    assert not fused.before.fusions
    assert len(fused.after.kernels) == len(fused.fusions) == 1
    contained = fused.largest_fusion.opcodes
    assert {"multiply", "tanh"} <= set(contained)
    assert fused.largest_fusion.bytes_moved == 2 * X.nbytes
    assert fused.after.bytes_moved == 2 * X.nbytes < fused.before.bytes_moved
    assert fused.largest_fusion.bytes_saved >= 2 * X.nbytes


def test_training_steps_run_nothing_and_change_nothing(trained: tuple[str, Hlo, bool]) -> None:
    assert not trained[2]


def test_every_written_instruction_is_read(trained: tuple[str, Hlo, bool]) -> None:
    for module in (trained[1].before, trained[1].after):
        written = re.findall(r"^\s+(?:ROOT )?%?\S+ = ", module.text, re.MULTILINE)
        assert len(module.instructions) == len(written)
        assert all((i.opcode != "unknown" and i.arrays) or i.opcode == "tuple" for i in module.instructions)
        takes = [i for i in module.instructions if i.opcode in ("add", "multiply", "dot", "convolution")]
        assert takes and all(len(i.operands) == 2 for i in takes)
        assert all(i.operands for i in module.fusions and [f.instruction for f in module.fusions if len(f.ops) > 1])


def test_training_is_fused_and_products_stay_their_own(trained: tuple[str, Hlo, bool]) -> None:
    seen = trained[1]
    assert len(seen.before.fusions) == 0 < len(seen.fusions)
    assert len(seen.after.kernels) < len(seen.before.kernels)
    assert seen.after.dots and seen.after.convolutions_by_dtype.total() + len(seen.after.dots) > 2
    assert seen.after.bytes_moved < seen.before.bytes_moved


def test_on_a_cpu_low_precision_products_run_in_float32_and_converts_are_added(trained: tuple[str, Hlo, bool]) -> None:
    policy, seen, _ = trained
    if seen.device != "CPU":
        pytest.skip("what a GPU does with low precision is another question")
    low = policy.removeprefix("mixed_")
    products = seen.before.dots_by_dtype + seen.before.convolutions_by_dtype
    assert (products[low] > 0) if policy != "float32" else (set(products) == {"float32"})
    if policy == "float32":
        assert not {n for n in seen.after.converts_by_dtype if "float16" in n}
    else:
        assert len(seen.after.converts) > 0


@pytest.mark.parametrize(
    "as_given",
    [
        pytest.param(lambda: tf.function(chain), id="tf.function"),
        pytest.param(lambda: tf.function(chain, jit_compile=True), id="jit_compile"),
        pytest.param(lambda: tf.function(chain, jit_compile=False), id="not jit_compile"),
        pytest.param(lambda: tf.function(chain).get_concrete_function(tf.TensorSpec([64, 32])), id="concrete"),
        pytest.param(lambda: tf.function(chain, input_signature=[tf.TensorSpec([None, 32])]), id="signature"),
        pytest.param(lambda: type("Holder", (), {"__call__": lambda self, x: chain(x)})(), id="object"),
    ],
)
def test_whatever_form_a_function_has(as_given, fused: Hlo) -> None:
    seen = hlo(as_given(), X)
    assert seen.after.count("tanh") == 1
    assert [f.bytes_moved for f in seen.fusions] == [f.bytes_moved for f in fused.fusions]


def test_models_are_compiled_as_they_predict_unless_asked_otherwise() -> None:
    model = keras.Sequential([keras.layers.Dense(8), keras.layers.BatchNormalization()])  # not built
    predicting, training = hlo(model, X), hlo(model, X, training=True)
    assert model.built
    assert training.before.count("reduce") > predicting.before.count("reduce")
    assert predicting.after.dots_by_dtype == {"float32": 1}


def test_arguments_of_many_kinds() -> None:
    assert hlo(lambda d, k: d["a"] * k, {"a": X}, 2.0).after.kernels
    assert hlo(lambda x: x * 2, tf.TensorSpec([3, 4], tf.bfloat16)).before.count("multiply", "bf16") == 1
    assert hlo(lambda: tf.ones(3) * 2).after.instructions
    assert hlo(lambda v: v * 2, tf.Variable(1.0)).after.kernels
    assert hlo(lambda x: None, X).after.kernels == ()


def test_a_learners_own_trace_count_grows_by_one_at_most() -> None:
    traces = []

    @tf.function
    def counted(x):
        traces.append(1)
        return x + 1

    hlo(counted, X)
    assert len(traces) == 1


def no_gradient(x):
    return x.numpy()


def wrong_shapes(x):
    return tf.matmul(x, tf.ones([3, 3]))


def says(x):
    tf.print(x)
    return x


def in_python(x):
    return tf.py_function(lambda y: y, [x], tf.float32)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: hlo(3), TypeError, "not int"),
        (lambda: hlo("f"), TypeError, "not str"),
        (lambda: hlo(keras.Sequential), TypeError, "class"),
        (lambda: hlo(tf.Graph()), ValueError, "TensorFlow 1"),
        (lambda: hlo(chain), ValueError, "missing a required argument: 'x'"),
        (lambda: hlo(tf.function(chain)), ValueError, "missing a required argument: 'x'"),
        (lambda: hlo(chain, X, X), ValueError, "too many"),
        (lambda: hlo(small_model()), ValueError, "missing"),
        (lambda: hlo(small_model(), X), ValueError, r"does not take .*\(None, 16, 16, 8\)|incompatible"),
        (lambda: hlo(tf.function(chain).get_concrete_function(X), X[:3]), ValueError, "cannot be traced"),
        (lambda: hlo(no_gradient, X), ValueError, "line .*numpy"),
        (lambda: hlo(wrong_shapes, X), ValueError, "32 and 3"),
        (lambda: hlo(lambda x: 1 / 0, X), ValueError, "division by zero"),
        (lambda: hlo(says, X), ValueError, r"tf\.print"),
        (lambda: hlo(in_python, X), ValueError, r"tf\.py_function"),
        (lambda: hlo(lambda x: tf.strings.length(x), tf.constant("a")), ValueError, "text"),
        (lambda: hlo(lambda x: tf.constant("a"), X), ValueError, "text"),
        (lambda: hlo(lambda x: x, np.array(["a"])), ValueError, "text"),
        (lambda: hlo(lambda x: x, tf.data.Dataset.range(3)), ValueError, "no array"),
        (lambda: hlo(chain, tf.TensorSpec([None, 3])), ValueError, r"\(None, 3\)"),
        (lambda: hlo(chain, tf.TensorSpec(None)), ValueError, "unknown"),
        (lambda: hlo(chain, keras.Input((3,))), ValueError, "symbolic"),
        (lambda: plots.fusion(3), ValueError, "no fusion"),
        (lambda: plots.fusion(hlo(chain, X)), ValueError, "no fusion"),
    ],
)
def test_mistakes_are_told_in_one_sentence_and_stderr_stays_empty(call, kind, words, capfd) -> None:
    with pytest.raises(kind, match=words) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 400
    assert (caught.value.__cause__ is None and caught.value.__suppress_context__) or caught.value.__context__ is None
    assert capfd.readouterr().err == ""


def test_a_tensorflow_1_program_is_told_so() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="TensorFlow 1 graph"):
        hlo(chain, X)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_of_keras_is_named(backend, monkeypatch) -> None:
    monkeypatch.setattr(keras.config, "backend", lambda: backend)
    with pytest.raises(ValueError, match=f"{backend} backend.*KERAS_BACKEND=tensorflow"):
        hlo(small_model(), X)


class _Cells(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scopes: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        if tag == "th":
            self.scopes.append(dict(attrs)["scope"])


def test_summary_as_text_and_as_an_accessible_table(trained: tuple[str, Hlo, bool]) -> None:
    seen = trained[1]
    text, markup = str(seen), seen._repr_html_()
    for word in ("before", "after", "fusions", "dots", "convolutions", "converts", "bytes moved"):
        assert word in text and word in markup
    cells = _Cells()
    cells.feed(markup)
    assert cells.tags.count("caption") == 1
    assert cells.scopes.count("col") == 3 and cells.scopes.count("row") == cells.tags.count("tr") - 1
    assert seen.largest_fusion.name in text


def test_every_real_fusion_can_be_drawn(trained: tuple[str, Hlo, bool]) -> None:
    fusions = sorted(trained[1].fusions, key=lambda fusion: len(fusion.inside))
    for fusion in (fusions[0], fusions[len(fusions) // 2], fusions[-1]):
        picture = fusion.picture()
        assert fusion.name in picture.alt and picture.png()


def test_the_tool_is_silent_in_a_fresh_process() -> None:
    script = (
        "from ampcourse import amp, quietly\n"
        "with quietly():\n    import tensorflow as tf\n    x = tf.ones([4, 4])\n"
        "assert amp.hlo(lambda x: tf.tanh(x) * x, x).fusions\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_is_public() -> None:
    assert amp.hlo is hlo
