"""What mixed precision will and will not gain on a machine, and why: sentences from facts, nothing else."""

from __future__ import annotations

from typing import Any

from ampcourse.doctor.answer import Answer, Gpu
from ampcourse.doctor.machine import Cpu, Driver

# A ratio this near to 1 is no difference that a learner would notice.
_FASTER, _SLOWER = 1.15, 1 / 1.15


def gains(cpu: Cpu, driver: Driver, answer: Answer) -> tuple[str, ...]:
    """What to expect here, GPU first; one sentence or two an entry."""
    if not answer.tensorflow:
        return ("TensorFlow does not import here, so nothing can be gained yet.",)
    if answer.gpus:
        return (*(gpu_gain(gpu) for gpu in answer.gpus), _memory(), *cpu_gains(cpu, answer.measurement))
    if driver.gpus:
        head = f"There is a GPU ({driver.gpus[0]}), but TensorFlow does not use it: until it does, the CPU counts."
    else:
        head = "No GPU: its gain in speed cannot be measured here; ranges, rounding and loss scaling are the same."
    return (head, *cpu_gains(cpu, answer.measurement))


def gpu_gain(gpu: Gpu) -> str:
    """What a GPU's compute capability means: Tensor Cores for float16 came with 7.0, for bfloat16 and TF32 with 8.0."""
    if gpu.capability is None:
        return f"{gpu.name}: its compute capability is not known, so only a measurement can tell."
    label = "{}: compute capability {}.{}".format(gpu.name, *gpu.capability)
    if gpu.capability < (7, 0):
        return (
            f"{label} is below 7.0: no Tensor Cores. mixed_float16 saves memory but may be slower than float32, and "
            "graph-rewriting AMP refuses this GPU."
        )
    if "GTX 16" in gpu.name:
        return f"{label}, but the GTX 16 series has no Tensor Cores: expect less memory, and little or no speed."
    if gpu.capability < (8, 0):
        return (
            f"{label}: Tensor Cores multiply float16, so mixed_float16 (with loss scaling) can gain; bfloat16 and TF32 "
            "need 8.0, so mixed_bfloat16 gains no speed here."
        )
    return (
        f"{label}: Tensor Cores multiply float16 and bfloat16; mixed_bfloat16 needs no loss scaling. float32 products "
        "already run as TF32 by default, so compare with that: the gain is smaller than against true float32."
    )


def _memory() -> str:
    return (
        "Memory: activations kept for the backward pass shrink, but not everything halves: weights, their gradients "
        "and the optimizer's state stay float32."
    )


def cpu_gains(cpu: Cpu, measurement: dict[str, Any] | None) -> tuple[str, ...]:
    """bfloat16 and float16 on the CPU: what its instructions promise, and what was measured."""
    if cpu.bfloat16 is None:
        promise = "bfloat16 on this CPU: whether it has instructions for it is not known"
    elif cpu.bfloat16:
        promise = f"bfloat16 on this CPU: it has {' and '.join(cpu.bfloat16)}, so bfloat16 products can be fast"
    else:
        promise = "bfloat16 on this CPU: it has neither avx512_bf16 nor amx_bf16, so bfloat16 has to be emulated"
    if measurement is None:
        usual = "float16 on a CPU: expect it to be slower than float32. Nothing was measured."
        return (f"{promise}.", usual, _XLA)
    return (
        f"{promise}; {measured('bfloat16', measurement)}",
        f"float16 on this CPU: {measured('float16', measurement)}",
        _XLA,
    )


_XLA = (
    "With jit_compile=True, XLA computes such products in float32 on a CPU: no gain there, whatever the instructions."
)


def measured(dtype: str, measurement: dict[str, Any]) -> str:
    """The sentence that a measurement supports about one dtype."""
    speed = measurement["speed"][dtype]
    if speed["median"] > _FASTER and speed["low"] > 1:
        verdict = f"faster than float32, so mixed_{dtype} can gain where matrix products dominate"
    elif speed["median"] < _SLOWER and speed["high"] < 1:
        verdict = f"slower than float32, so mixed_{dtype} will not gain"
    else:
        verdict = f"no clear difference, so expect little of mixed_{dtype}"
    return (
        f"measured, {speed['median']:.2f} times the speed of float32 (middle half of {measurement['rounds']} rounds: "
        f"{speed['low']:.2f} to {speed['high']:.2f}), {verdict}."
    )
