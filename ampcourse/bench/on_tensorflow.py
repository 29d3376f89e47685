"""TensorFlow as the benchmark's engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ampcourse.bench.engine import Device, Memory, bytes_in, no_gpu, updates_of


class TensorFlow:
    """See `engine.Engine`."""

    name = "tensorflow"

    def __init__(self) -> None:
        self._gpu = False

    def device(self, wanted: str) -> Device:
        """A GPU, its memory growing as needed, or the CPU, with all GPUs hidden."""
        gpus = tf.config.list_physical_devices("GPU")
        if wanted == "gpu" and not gpus:
            raise no_gpu("TensorFlow")
        if wanted == "cpu" or not gpus:
            tf.config.set_visible_devices([], "GPU")
            from ampcourse.reproduce.machine import processor

            return Device("cpu", processor())
        tf.config.set_visible_devices(gpus[:1], "GPU")
        tf.config.experimental.set_memory_growth(gpus[0], True)
        self._gpu = True
        details = tf.config.experimental.get_device_details(gpus[0])
        return Device("gpu", details.get("device_name", "unknown GPU"), details.get("compute_capability"))

    @contextmanager
    def precision(self, tf32: bool) -> Iterator[None]:
        """TF32 is one switch for the whole process, which is why it is set again for every turn."""
        before = tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(tf32)
        try:
            yield
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(before)

    def step(self, model: Any, loss: Any, optimizer: Any, samples: Any, xla: bool) -> TensorFlowStep:
        """A `tf.function` with `jit_compile` given explicitly."""
        return TensorFlowStep(model, loss, optimizer, samples, xla)

    def optimizer_alone(self, model: Any, optimizer: Any, xla: bool) -> Callable[[int], None]:
        """Applies the same small gradients again and again."""
        variables = model.trainable_variables
        optimizer.build(variables)
        gradients = [tf.fill(v.shape, tf.constant(1e-3, v.dtype)) for v in variables]

        @tf.function(jit_compile=xla)
        def apply(given: Any) -> None:
            optimizer.apply(given, variables)

        def run(steps: int) -> None:
            for _ in range(steps):
                apply(gradients)
            self.wait()

        run(2)
        return run

    def feed(self, samples: Any) -> Any:
        """A dataset that repeats the batch."""
        return _dataset(samples)

    def product(self, size: int, dtype: str) -> Callable[[int], None]:
        """Two matrices of normal numbers, multiplied; the products are not read back, only waited for."""
        draw = tf.random.Generator.from_seed(0)
        a, b = (tf.cast(draw.normal((size, size)), dtype) for _ in range(2))
        return self._repeated(tf.function(lambda a, b: tf.linalg.matmul(a, b), jit_compile=False), a, b)

    def copy(self, numbers: int) -> Callable[[int], None]:
        """One is added to an array: it is read once and written once."""
        return self._repeated(tf.function(lambda a: a + 1.0, jit_compile=False), tf.zeros((numbers,)))

    def _repeated(self, function: Callable, *args: Any) -> Callable[[int], None]:
        def run(steps: int) -> None:
            for _ in range(steps):
                function(*args)
            self.wait()

        run(2)
        return run

    def wait(self) -> None:
        """TensorFlow's own barrier."""
        tf.test.experimental.sync_devices()

    def memory(self) -> Memory | None:
        """TensorFlow's allocator on the GPU; it does not count on a CPU."""
        if not self._gpu:
            return None
        found = tf.config.experimental.get_memory_info("GPU:0")
        return Memory(found["current"], found["peak"])

    def reset_peak(self) -> bool:
        """The peak becomes what is in use now."""
        if self._gpu:
            tf.config.experimental.reset_memory_stats("GPU:0")
        return self._gpu

    def ran_out(self, error: BaseException) -> bool:
        """Also when XLA says it in another error."""
        if isinstance(error, tf.errors.ResourceExhaustedError | MemoryError):
            return True
        return isinstance(error, tf.errors.OpError) and "RESOURCE_EXHAUSTED" in str(error)

    def versions(self) -> dict[str, str]:
        """TensorFlow with the CUDA and cuDNN that it was built for."""
        build = tf.sysconfig.get_build_info()
        found = {"tensorflow": tf.__version__, "cuda": build.get("cuda_version"), "cudnn": build.get("cudnn_version")}
        return {name: str(version) for name, version in found.items() if version}


class TensorFlowStep:
    """See `engine.Step`."""

    def __init__(self, model: Any, loss: Any, optimizer: Any, samples: Any, xla: bool) -> None:
        self._host, self._xla, self._optimizer = samples, xla, optimizer
        self._batch = tf.nest.map_structure(tf.constant, samples)
        self._loss: Any = None
        self._feed: Any = None
        optimizer.build(model.trainable_variables)

        @tf.function(jit_compile=xla)
        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                value = loss(y, model(x, training=True))
                value += sum(tf.cast(one, value.dtype) for one in model.losses)
                scaled = optimizer.scale_loss(value)
            gradients = tape.gradient(scaled, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            return value

        self._step = step
        self.run(1)

    def run(self, steps: int) -> None:
        """With the batch that lies on the device."""
        for _ in range(steps):
            self._loss = self._step(*self._batch)
        tf.test.experimental.sync_devices()

    def run_from_host(self, steps: int) -> None:
        """From the same kind of dataset that `fit` gets."""
        if self._feed is None:
            self._feed = iter(_dataset(self._host))
        for _ in range(steps):
            self._loss = self._step(*next(self._feed))
        tf.test.experimental.sync_devices()

    def facts(self) -> dict[str, Any]:
        """Loss and updates so far."""
        return {"loss": float(self._loss), "updates": int(updates_of(self._optimizer).numpy())}

    def bytes_moved(self) -> float | None:
        """From the optimised HLO, which costs a second compilation."""
        if not self._xla:
            return None
        return bytes_in(self._step.experimental_get_compiler_ir(*self._batch)(stage="optimized_hlo"))

    def planned_bytes(self) -> int | None:
        """TensorFlow does not tell XLA's plan."""
        return None


def _dataset(samples: Any) -> Any:
    with tf.device("/CPU:0"):
        return tf.data.Dataset.from_tensors(tuple(samples)).repeat().prefetch(2)
