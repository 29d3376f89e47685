"""Several devices share a batch of the pipeline: each gets its part, and together they see what one would have seen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from ampcourse import data

pictures = data.pictures(limit=100)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for train in (True, False):
    asked = {"pictures": pictures, "train": train}
    shared = strategy.experimental_distribute_dataset(data.pipeline(pictures.train, 16, **asked))
    alone = list(data.batches(pictures.train, 16, **asked))
    for (x, _), (u, _) in zip(shared, alone, strict=True):
        parts = [part.numpy() for part in strategy.experimental_local_results(x)]
        assert len({len(part) for part in parts}) == 1, [len(part) for part in parts]
        np.testing.assert_allclose(np.concatenate(parts), u, atol=1e-5)
print("shared")
"""


@pytest.mark.full
def test_devices_share_a_batch_without_losing_or_repeating_a_picture() -> None:
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "shared\n", done.stderr
