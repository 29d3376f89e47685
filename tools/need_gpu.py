"""Stop where TensorFlow sees no GPU, so that a run on a CPU is never taken for one on a GPU."""

from __future__ import annotations

import sys

import tensorflow as tf

devices = [tf.config.experimental.get_device_details(one) for one in tf.config.list_physical_devices("GPU")]
if not devices:
    sys.exit("TensorFlow sees no GPU here: check the driver (nvidia-smi), and that requirements-gpu.lock is installed.")
for number, details in enumerate(devices):
    major, minor = details.get("compute_capability", ("?", "?"))
    print(f"GPU {number}: {details.get('device_name', 'unknown')}, compute capability {major}.{minor}")
