"""Numbers that every backend must compute: weights and samples drawn by NumPy, outputs and losses kept in `fixed.json`.

`python tests/models/fixed.py` writes the file anew, with the backend that KERAS_BACKEND names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse.models import zoo

FILE = Path(__file__).with_suffix(".json")
STEPPED = ("resnet8", "vit_tiny", "ncf")  # they have no dropout, so that a training step is a fixed number too


def fix_weights(model: Any) -> None:
    """Give every weight a value that depends on its place and shape alone; variances stay positive."""
    draw = np.random.default_rng(3)
    for weight in model.weights:
        if "float" not in str(weight.dtype):  # the state of a random number generator
            continue
        value = draw.normal(0, 1 / np.sqrt(max(4, np.prod(weight.shape[:-1]))), weight.shape)
        if weight.name == "moving_variance":
            value = np.abs(value) + 0.5
        elif weight.name == "gamma":
            value = value + 1
        weight.assign(value)


def numbers(name: str) -> dict[str, Any]:
    """What the small model of that name makes of 4 samples in float32, and its loss before and after two steps."""
    import keras

    work = zoo.workload(name, "small")
    model = work.build()
    fix_weights(model)
    x, y = work.samples(4, 5)
    model.compile(keras.optimizers.SGD(0.01), work.loss, jit_compile=keras.backend.backend() == "jax")
    outputs = np.asarray(model.predict_on_batch(x))
    flat = outputs.reshape(-1)
    found = {
        "outputs": flat[:: max(1, flat.size // 8)][:8].tolist(),
        "size": float(np.abs(flat).mean()),
        "loss": float(work.loss(y, outputs)),
    }
    if name in STEPPED:
        found["steps"] = [float(model.train_on_batch(x, y)) for _ in range(3)]
    return found


def compare(name: str) -> None:
    """Fail where this backend's numbers are not the kept ones, but for the rounding of float32."""
    kept, found = json.loads(FILE.read_text("utf-8"))[name], numbers(name)
    assert sorted(found) == sorted(kept)
    np.testing.assert_allclose(found["outputs"], kept["outputs"], rtol=1e-3, atol=1e-4 * kept["size"])
    for key in ("size", "loss", "steps"):
        if key in kept:
            np.testing.assert_allclose(found[key], kept[key], rtol=1e-4, err_msg=key)


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: numbers(name) for name in zoo.names()}, indent=1) + "\n", "utf-8")
