"""JAX as the benchmark's engine; it needs no TensorFlow. Everything is compiled: JAX has no switch for XLA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from ampcourse.bench.engine import Device, Memory, bytes_in, no_gpu, updates_of


class Jax:
    """See `engine.Engine`."""

    name = "jax"

    def __init__(self) -> None:
        self._device: Any = None

    def device(self, wanted: str) -> Device:
        """The first GPU, or the CPU; from then on arrays are made there."""
        gpus = [one for one in jax.devices() if one.platform in ("gpu", "cuda", "rocm")] if wanted != "cpu" else []
        if wanted == "gpu" and not gpus:
            raise no_gpu("JAX")
        self._device = gpus[0] if gpus else jax.devices("cpu")[0]
        jax.config.update("jax_default_device", self._device)
        if not gpus:
            from ampcourse.reproduce.machine import processor

            return Device("cpu", processor())
        capability = str(getattr(self._device, "compute_capability", "")).split(".")
        known = len(capability) == 2 and all(part.isdigit() for part in capability)
        return Device("gpu", self._device.device_kind, (int(capability[0]), int(capability[1])) if known else None)

    def precision(self, tf32: bool) -> Any:
        """Always said explicitly: JAX's own default differs between devices."""
        return jax.default_matmul_precision("tensorfloat32" if tf32 else "float32")

    def step(self, model: Any, loss: Any, optimizer: Any, samples: Any, xla: bool) -> JaxStep:
        """A compiled step over the state of model and optimizer."""
        return JaxStep(model, loss, optimizer, samples, self._device)

    def optimizer_alone(self, model: Any, optimizer: Any, xla: bool) -> Callable[[int], None]:
        """Applies the same small gradients again and again."""
        weights = [v.value for v in model.trainable_variables]
        optimizer.build(model.trainable_variables)
        gradients = [jnp.full(w.shape, 1e-3, w.dtype) for w in weights]
        state = (weights, [v.value for v in optimizer.variables])

        def apply(state: Any, gradients: Any) -> Any:
            weights, slots = state
            return optimizer.stateless_apply(slots, gradients, weights)

        compiled = jax.jit(apply, donate_argnums=0).lower(state, gradients).compile()

        def run(steps: int) -> None:
            nonlocal state
            for _ in range(steps):
                state = compiled(state, gradients)
            jax.block_until_ready(state)

        run(2)
        return run

    def feed(self, samples: Any) -> Iterator[Any]:
        """The batch for ever, as NumPy arrays."""
        while True:
            yield tuple(samples)

    def product(self, size: int, dtype: str) -> Callable[[int], None]:
        """Two matrices of normal numbers, multiplied."""
        keys = jax.random.split(jax.random.key(0))
        a, b = (jax.random.normal(key, (size, size)).astype(dtype) for key in keys)
        return self._repeated(jax.jit(jnp.matmul), a, b)

    def copy(self, numbers: int) -> Callable[[int], None]:
        """One is added to an array: it is read once and written once."""
        return self._repeated(jax.jit(lambda a: a + 1.0), jnp.zeros((numbers,), jnp.float32))

    @staticmethod
    def _repeated(function: Callable, *args: Any) -> Callable[[int], None]:
        def run(steps: int) -> None:
            for _ in range(steps):
                result = function(*args)
            jax.block_until_ready(result)

        run(2)
        return run

    def wait(self) -> None:
        """An empty piece of work on the same device comes last in its queue."""
        jax.block_until_ready(jnp.zeros(()) + 0)

    def memory(self) -> Memory | None:
        """The allocator of the device, where it counts."""
        found = self._device.memory_stats() or {}
        if "bytes_in_use" not in found or "peak_bytes_in_use" not in found:
            return None
        return Memory(found["bytes_in_use"], found["peak_bytes_in_use"])

    def reset_peak(self) -> bool:
        """JAX's peak is that of the whole process."""
        return False

    def ran_out(self, error: BaseException) -> bool:
        """XLA's status code, which JAX hands on in a RuntimeError."""
        return isinstance(error, MemoryError) or (
            isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
        )

    def versions(self) -> dict[str, str]:
        """JAX and its compiled half, which holds XLA."""
        import jaxlib

        return {"jax": jax.__version__, "jaxlib": jaxlib.__version__}


class JaxStep:
    """See `engine.Step`."""

    def __init__(self, model: Any, loss: Any, optimizer: Any, samples: Any, device: Any) -> None:
        self._host, self._device, self._optimizer = samples, device, optimizer
        self._batch = self._hand_over()
        optimizer.build(model.trainable_variables)
        held = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
        self._state = jax.device_put([[v.value for v in variables] for variables in held], device)
        step = _stateless(model, loss, optimizer)
        self._compiled = jax.jit(step, donate_argnums=0).lower(self._state, *self._batch).compile()
        self._loss: Any = None
        self.run(1)

    def _hand_over(self) -> Any:
        return jax.device_put(jax.tree.map(_as_jax, tuple(self._host)), self._device)

    def run(self, steps: int) -> None:
        """With the batch that lies on the device."""
        for _ in range(steps):
            self._state, self._loss = self._compiled(self._state, *self._batch)
        jax.block_until_ready((self._state, self._loss))

    def run_from_host(self, steps: int) -> None:
        """With a copy to the device before each step."""
        for _ in range(steps):
            self._state, self._loss = self._compiled(self._state, *self._hand_over())
        jax.block_until_ready((self._state, self._loss))

    def facts(self) -> dict[str, Any]:
        """Loss and updates so far; the optimizer's variables themselves were given away to the first step."""
        counter = updates_of(self._optimizer)
        place = next(i for i, v in enumerate(self._optimizer.variables) if v is counter)
        return {"loss": float(self._loss), "updates": int(self._state[2][place])}

    def bytes_moved(self) -> float | None:
        """From the optimised HLO."""
        return bytes_in(self._compiled.as_text())

    def planned_bytes(self) -> int | None:
        """Arguments, results and temporaries of XLA's plan; what lies in the same place counts once."""
        plan = self._compiled.memory_analysis()
        if plan is None:
            return None
        held = plan.argument_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes
        return int(held + plan.temp_size_in_bytes)


def _stateless(model: Any, loss: Any, optimizer: Any) -> Callable:
    """A training step as a pure function of (state, x, y), the same as Keras's own trainer compiles."""

    def scaled_loss(weights: Any, others: Any, slots: Any, x: Any, y: Any) -> Any:
        predicted, others, extra = model.stateless_call(weights, others, x, training=True, return_losses=True)
        value = loss(y, predicted)
        value += sum(one.astype(value.dtype) for one in extra)
        with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, slots, strict=True))):
            return optimizer.scale_loss(value), (value, others)

    def step(state: Any, x: Any, y: Any) -> Any:
        weights, others, slots = state
        with_aux = jax.value_and_grad(scaled_loss, has_aux=True)
        (_, (value, others)), gradients = with_aux(weights, others, slots, x, y)
        weights, slots = optimizer.stateless_apply(slots, gradients, weights)
        return [weights, others, slots], value

    return step


def _as_jax(array: Any) -> np.ndarray:
    """64-bit numbers as 32-bit ones, which is what JAX would make of them."""
    array = np.asarray(array)
    return array.astype({"int64": np.int32, "float64": np.float32}.get(str(array.dtype), array.dtype))
