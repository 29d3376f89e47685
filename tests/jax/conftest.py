"""What also runs on JAX, tested in an environment without TensorFlow: `make test-jax`."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

# Small programs that each run a few times: compiling them well would take longer than running them badly.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

if os.environ.get("KERAS_BACKEND") != "jax" or importlib.util.find_spec("tensorflow"):
    raise pytest.UsageError("tests/jax needs Keras on JAX, without TensorFlow: run `make test-jax`.")
