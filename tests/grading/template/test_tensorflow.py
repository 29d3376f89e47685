"""TensorFlow, loaded before the fork, starts and works after it, and draws differently in each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from sandbox_talk import Talk, talking

from ampcourse.grading.model import Box
from ampcourse.grading.settings import Settings
from ampcourse.grading.template import TemplateStarter

pytestmark = pytest.mark.sandbox

BOX = Box("01_some", {"__init__.py": b""}, preload=("tensorflow", "keras", "matplotlib.pyplot"))
WORKS = {
    "fit": """
model = keras.Sequential([keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
losses = model.fit(np.ones((64, 3)), np.ones((64, 1)), epochs=3, verbose=0).history["loss"]
print(losses[-1] < losses[0])
""",
    "mixed precision": """
layer = keras.layers.Dense(3, dtype="mixed_float16")
print(layer(np.ones((2, 2), "float32")).dtype.name == "float16" and layer.kernel.dtype == "float32")
""",
    "XLA": """
squared = tf.function(lambda x: tf.reduce_sum(x * x), jit_compile=True)
print(float(squared(tf.range(4.0))) == 14.0)
""",
    "tf.data": """
data = tf.data.Dataset.range(10).map(lambda x: x * 2, num_parallel_calls=2).batch(5).prefetch(1)
print([int(tf.reduce_sum(batch)) for batch in data] == [20, 70])
""",
    "saving": """
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.save("model.keras")
print(keras.models.load_model("model.keras").count_params() == 3)
""",
    "figure": """
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.show()
print(True)
""",
}
DEVICES = """
import numpy as np, tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    import keras
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=4, verbose=0)
print(strategy.num_replicas_in_sync)
"""
DRAWS = "print([float(tf.random.uniform(())), float(keras.random.uniform(())), float(np.random.rand())])"


@pytest.fixture(scope="module")
def loaded() -> Iterator[TemplateStarter]:
    starter = TemplateStarter(BOX, Settings())
    try:
        yield starter
    finally:
        starter.close()


@pytest.fixture(scope="module")
def one(loaded: TemplateStarter) -> Iterator[Talk]:
    with talking(loaded.start({})) as talk:
        talk.run("import keras, numpy as np, tensorflow as tf")
        yield talk


@pytest.mark.parametrize("name", WORKS)
def test_it_works_after_the_fork(name: str, one: Talk) -> None:
    assert one.run(WORKS[name], 120).splitlines()[-1] == "True"


def test_it_may_still_be_configured(loaded: TemplateStarter) -> None:
    with talking(loaded.start({})) as talk:
        assert talk.run(DEVICES, 120).splitlines()[-1] == "2"


def test_it_draws_differently_in_each(loaded: TemplateStarter, one: Talk) -> None:
    with talking(loaded.start({})) as other:
        other.run("import keras, numpy as np, tensorflow as tf")
        drawn = [ast.literal_eval(talk.run(DRAWS).splitlines()[-1]) for talk in (one, other)]
    assert all(a != b for a, b in zip(*drawn, strict=True)), drawn


def test_a_figure_is_shown_as_in_a_notebook(one: Talk) -> None:
    shown = []
    one._client.execute_interactive(
        "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])",
        timeout=60,
        output_hook=lambda message: shown.append(message["content"].get("data", {})),
    )
    assert any("image/png" in data for data in shown)
