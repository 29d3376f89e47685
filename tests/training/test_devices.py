"""Several devices that share each batch: two logical CPUs, in a process of their own."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from ampcourse.training import Config, TrainingError, train

TWO = """
import json
import keras
import numpy as np
import tensorflow as tf
from ampcourse.training import Config, train

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
settings = small.SMALL | {"model": "plain", "steps": 4, "weight_decay": 0.1}
found = {}


def run(**options):
    result = train(Config(**settings | options), progress=False)
    return result, [np.asarray(v.numpy()) for v in result.model.trainable_variables]


def apart(one, other):
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other))


one = {"plain": run(devices=1)[1]}
for loop in ("fit", "custom"):
    found[loop] = apart(one["plain"], run(devices=2, loop=loop, monitor=True)[1])
for name, options in {
    "clip": {"clip": 0.1},
    "accumulate": {"accumulate": 2, "batch": 4},
    "ema": {"ema": 0.9},
    "float16": {"policy": "mixed_float16", "clip": 0.1, "accumulate": 2, "batch": 4, "loss_scale": 256.0},
}.items():
    found[name] = apart(run(devices=1, loop="custom", **options)[1], run(devices=2, loop="custom", **options)[1])

# An overflow on the last replica alone: one picture of the second half of a batch is infinite.
whole = small.feed.Feed.train


def spoiled(self, epoch, start, stop):
    for i, (x, y) in enumerate(whole(self, epoch, start, stop)):
        x = x.numpy()
        x[-1] = np.inf if i == 1 else x[-1]
        yield x, y.numpy()


def dataset(self, epoch, start, stop):
    spec = (tf.TensorSpec((8, 12, 12, 1), tf.float32), tf.TensorSpec((8,), tf.int64))
    return tf.data.Dataset.from_generator(lambda: spoiled(self, epoch, start, stop), output_signature=spec)


small.feed.Feed.train = dataset
for loop in ("fit", "custom"):
    result, weights = run(devices=2, loop=loop, policy="mixed_float16", loss_scale=1024.0)
    scales = result.history[-1]["loss_scale"]
    finite = all(np.isfinite(w).all() for w in weights)
    found[f"overflow {loop}"] = [result.devices, result.skipped, scales, finite]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import sys
    from pathlib import Path

    here = Path(__file__).parent
    head = f"import sys\nsys.path[:0] = [{str(here.parents[1])!r}, {str(here)!r}]\nimport small\nsmall.install()\n"
    path = tmp_path_factory.mktemp("two") / "script.py"
    path.write_text(head + TWO)
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["fit", "custom", "clip", "accumulate", "ema", "float16"])
def test_two_devices_do_what_one_does(found: dict[str, Any], name: str) -> None:
    assert found[name] < (1e-3 if name == "float16" else 1e-5)


@pytest.mark.parametrize("loop", ["fit", "custom"])
def test_an_overflow_on_any_replica_is_skipped_on_all(found: dict[str, Any], loop: str) -> None:
    assert found[f"overflow {loop}"] == [2, 1, 512.0, True]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"devices": 64}, "devices is 64, and TensorFlow has"),
        ({"devices": 2}, "devices is 2, and TensorFlow has 1 CPU device."),
    ],
)
def test_devices_that_are_not_there(small: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(TrainingError, match=says):
        train(Config(**small.SMALL | options))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch": 9}, "A batch of 9 cannot be shared by 2 devices"),
        ({"xla": True}, "XLA does not compile a step of 2 devices"),
        ({"clip": 1.0}, "choose the loop 'custom'"),
        ({"accumulate": 2}, "choose the loop 'custom'"),
        ({"ema": 0.9}, "choose the loop 'custom'"),
    ],
)
def test_what_several_devices_cannot_do_is_said(options: dict[str, Any], says: str) -> None:
    from ampcourse.training.on_tensorflow import _check_several

    with pytest.raises(TrainingError, match=says):
        _check_several(Config(**{"batch": 8} | options), 2)
