"""The backend that Keras runs on, as the benchmark sees it: devices, TF32, training steps, memory."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ampcourse.bench.plan import KERAS_POLICY, BenchError, Variant


@dataclass(frozen=True)
class Device:
    """Where everything runs: "cpu" or "gpu", its name, and the compute capability of an NVIDIA GPU."""

    kind: str
    name: str
    capability: tuple[int, int] | None = None

    @property
    def has_tf32(self) -> bool:
        """TF32 is a mode of the tensor cores from compute capability 8.0 on; where that is not known, it is tried."""
        return self.kind == "gpu" and (self.capability is None or self.capability >= (8, 0))


@dataclass(frozen=True)
class Memory:
    """Bytes of device memory in use now, and the most at any time since the peak was reset (or ever)."""

    now: int
    peak: int


class Step(Protocol):
    """A training step that is compiled for one batch; the batch lies on the device."""

    def run(self, steps: int) -> None:
        """So many steps, and wait for the device."""

    def run_from_host(self, steps: int) -> None:
        """The same, with the batch handed over from the host before each step."""

    def facts(self) -> dict[str, Any]:
        """`loss` of the last step, and `updates`: how often the optimizer has really changed the weights."""

    def bytes_moved(self) -> float | None:
        """Bytes that the kernels of XLA's program read and write, at most; None where nothing was compiled,
        or where a loop makes them uncountable."""

    def planned_bytes(self) -> int | None:
        """The memory that XLA's plan needs; None where the backend does not tell."""


class Engine(Protocol):
    """What differs between TensorFlow and JAX."""

    name: str

    def device(self, wanted: str) -> Device:
        """Take the device, before anything runs on it; None of the kind: BenchError."""

    def precision(self, tf32: bool) -> Any:
        """A context in which float32 matrix products and convolutions use TF32, or do not."""

    def step(self, model: Any, loss: Any, optimizer: Any, samples: Any, xla: bool) -> Step:
        """A training step, traced and run once."""

    def optimizer_alone(self, model: Any, optimizer: Any, xla: bool) -> Callable[[int], None]:
        """A runner that only applies gradients."""

    def feed(self, samples: Any) -> Any:
        """The batch again and again, from the host, as `fit` takes it."""

    def product(self, size: int, dtype: str) -> Callable[[int], None]:
        """A runner that multiplies square matrices."""

    def copy(self, numbers: int) -> Callable[[int], None]:
        """A runner that reads and writes so many float32 numbers."""

    def wait(self) -> None:
        """Until the device has done everything."""

    def memory(self) -> Memory | None:
        """The allocator's count; None where none counts."""

    def reset_peak(self) -> bool:
        """Count the peak anew; False where the backend cannot."""

    def ran_out(self, error: BaseException) -> bool:
        """Whether the error says that the device's memory was too small."""

    def versions(self) -> dict[str, str]:
        """Of the backend's packages."""


def choose() -> Engine:
    """The engine for the backend that Keras runs on; where only JAX is installed, Keras is told so first.

    Raises:
        BenchError: if there is no backend, or another one.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    there = [name for name in ("tensorflow", "jax") if importlib.util.find_spec(name)]
    if there == ["jax"]:
        os.environ.setdefault("KERAS_BACKEND", "jax")
    try:
        import keras
    except ImportError as error:
        raise BenchError(f"Keras does not import here ({error}): 'ampcourse doctor' says what to install.") from None
    backend = keras.config.backend()
    if backend == "tensorflow":
        from ampcourse.bench.on_tensorflow import TensorFlow

        return TensorFlow()
    if backend == "jax":
        from ampcourse.bench.on_jax import Jax

        return Jax()
    raise BenchError(f"Keras runs on {backend} here: set KERAS_BACKEND to tensorflow or jax.")


def no_gpu(backend: str) -> BenchError:
    """The sentence for a GPU that was asked for and is not there."""
    return BenchError(
        f"{backend} finds no GPU here: leave out '--device gpu', or see 'ampcourse doctor' for the reason."
    )


@contextmanager
def under(engine: Engine, policy: str) -> Iterator[None]:
    """Keras's global dtype policy, and TF32 on or off; afterwards the policy is what it was.

    Keras's `clear_session` puts the global policy back to float32. So the policy is set here, directly before a model
    is built, and `assert_policy` looks at the model afterwards.
    """
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(KERAS_POLICY[policy])
    try:
        with engine.precision(policy != "float32"):
            yield
    finally:
        keras.config.set_dtype_policy(before)


def layers_of(model: Any) -> list[Any]:
    """All layers of a model, those inside of others too."""
    return [layer for layer in model._flatten_layers(include_self=False) if not list(layer._layers)]


def assert_policy(model: Any, policy: str) -> dict[str, int]:
    """How many layers with weights compute in each dtype.

    Raises:
        RuntimeError: if the policy did not reach the model: none computes in its compute dtype, some compute in one
            that is neither this nor float32, or a floating-point weight is not kept in float32.
    """
    import keras

    wanted = keras.dtype_policies.get(KERAS_POLICY[policy])
    dtypes: dict[str, int] = {}
    for layer in layers_of(model):
        if layer.weights:
            dtypes[layer.compute_dtype] = dtypes.get(layer.compute_dtype, 0) + 1
    kept = {str(w.dtype) for w in model.trainable_weights}
    if wanted.compute_dtype not in dtypes or set(dtypes) - {wanted.compute_dtype, "float32"} or kept - {"float32"}:
        found = ", ".join(f"{count} in {dtype}" for dtype, count in sorted(dtypes.items())) or "none"
        raise RuntimeError(
            f"the policy {wanted.name} did not reach the model: layers with weights that compute {found}; "
            f"weights kept in {', '.join(sorted(kept)) or 'nothing'}"
        )
    return dtypes


def wrapped(optimizer: Any, variant: Variant) -> Any:
    """The optimizer, with dynamic loss scaling under mixed_float16, as `compile` adds it for `fit`."""
    import keras

    if KERAS_POLICY[variant.policy] != "mixed_float16":
        return optimizer
    return keras.optimizers.LossScaleOptimizer(optimizer)


def updates_of(optimizer: Any) -> Any:
    """The variable that counts updates: steps that loss scaling skipped are not among them."""
    return getattr(optimizer, "inner_optimizer", optimizer).iterations


def forget() -> None:
    """Let go of what Keras holds of earlier models. It also puts the global policy back to float32."""
    import keras

    keras.utils.clear_session(free_memory=True)


def bytes_in(hlo: str) -> float | None:
    """Bytes that the kernels of an optimised HLO module read and write, at most; None where it has a loop.

    How often a loop turns is not in the text, so its bytes cannot be counted.
    """
    from ampcourse.amp.xla_module import HloModule

    module = HloModule.from_text(hlo)
    return None if module.count("while") else float(module.bytes_moved)


def driver() -> str:
    """The version of NVIDIA's driver; empty where there is none that answers."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.split()[0] if asked.returncode == 0 and asked.stdout.split() else ""


def reason_of(error: BaseException, engine: Engine | None = None, batch: int = 0) -> str:
    """An error as the reason in a row: one line, no longer than 240 characters."""
    if engine is not None and engine.ran_out(error):
        return f"out of memory at batch {batch}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    return said if len(said) <= 240 else f"{said[:237]}..."
