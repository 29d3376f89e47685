"""What mixed precision will and will not gain on a machine, and why: sentences from facts, nothing else.

TensorFlow is not needed here. `hardware()` has asked it in its own process, `ampcourse doctor` in another one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ampcourse.amp.machine_facts import Cpu, Driver, Gpu

# A ratio this near to 1 is no difference that a learner would notice.
_FASTER, _SLOWER = 1.15, 1 / 1.15


class Facts(Protocol):
    """What TensorFlow told: the doctor's `Answer` and `hardware()`'s `Hardware` are such facts."""

    @property
    def tensorflow(self) -> str:
        """Its version; empty where it does not import."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that it uses."""

    @property
    def measurement(self) -> dict[str, Any] | None:
        """What `machine_speed.measure` timed; None where nothing was."""


class Choice(NamedTuple):
    """The dtype policy that pays on a machine, and why."""

    policy: str
    reason: str


def gains(cpu: Cpu, driver: Driver, facts: Facts) -> tuple[str, ...]:
    """What to expect here, GPU first; one sentence or two an entry, the policy that pays last."""
    if not facts.tensorflow:
        return ("TensorFlow does not import here, so nothing can be gained yet.",)
    policy, reason = choose(cpu, facts)
    last = f"The policy that pays here is {policy}: {reason}"
    if facts.gpus:
        each = dict.fromkeys(gpu_gain(gpu) for gpu in facts.gpus)  # of equal GPUs one sentence is enough
        return (*each, _memory(), *cpu_gains(cpu, facts.measurement), last)
    if driver.gpus:
        head = f"There is a GPU ({driver.gpus[0]}), but TensorFlow does not use it: until it does, the CPU counts."
    else:
        head = "No GPU: its gain in speed cannot be measured here; ranges, rounding and loss scaling are the same."
    return (head, *cpu_gains(cpu, facts.measurement), last)


def choose(cpu: Cpu, facts: Facts) -> Choice:
    """The policy under which training can be expected to be fastest here without becoming less safe.

    Where nothing 16-bit is faster, that is float32. Several GPUs that work together run one policy, so the least able
    of them decides.
    """
    if not facts.tensorflow:
        return Choice("float32", "TensorFlow does not import here, so nothing else has been tried.")
    if facts.gpus:
        return _for_gpu(min(facts.gpus, key=_ability), several=len({_ability(gpu) for gpu in facts.gpus}) > 1)
    return _for_cpu(cpu, facts.measurement)


def _ability(gpu: Gpu) -> int:
    """0: no Tensor Cores, or nothing known; 1: they multiply float16; 2: they multiply bfloat16, too."""
    if gpu.capability is None or gpu.capability < (7, 0) or "GTX 16" in gpu.name:
        return 0
    return 1 if gpu.capability < (8, 0) else 2


def _for_gpu(gpu: Gpu, several: bool) -> Choice:
    whose = f"the least able of these GPUs, {gpu.name}," if several else gpu.name
    if _ability(gpu) == 2:
        return Choice(
            "mixed_bfloat16",
            f"{whose} multiplies bfloat16 as fast as float16, and bfloat16 needs no loss scaling. Where a model needs "
            "the finer significand, mixed_float16 is as fast.",
        )
    if _ability(gpu) == 1:
        return Choice("mixed_float16", f"{whose} has Tensor Cores for float16, but none for bfloat16. Scale the loss.")
    if gpu.capability is None:
        return Choice("float32", f"it is not known what {whose} can do; measure mixed_float16 against it.")
    return Choice("float32", f"{whose} has no Tensor Cores; mixed_float16 can save memory, but hardly time.")


def _for_cpu(cpu: Cpu, measurement: dict[str, Any] | None) -> Choice:
    if measurement is not None:
        for dtype in ("bfloat16", "float16"):  # bfloat16 first: it needs no loss scaling
            if is_faster(measurement["speed"][dtype]):
                return Choice(f"mixed_{dtype}", f"{dtype} products were measured to be faster on this CPU.{_NO_XLA}")
        return Choice("float32", "no 16-bit product was measured to be clearly faster on this CPU.")
    if cpu.bfloat16:
        return Choice("mixed_bfloat16", f"this CPU has {' and '.join(cpu.bfloat16)} (nothing was measured).{_NO_XLA}")
    if cpu.bfloat16 is None:
        return Choice("float32", "whether this CPU has instructions for bfloat16 is not known; measure.")
    return Choice("float32", "this CPU has no instructions for bfloat16, and float16 is rarely faster on a CPU.")


_NO_XLA = " Leave jit_compile off: with it, XLA computes in float32."


def is_faster(speed: dict[str, float]) -> bool:
    """Whether a measurement shows a gain that a learner would notice; `speed` has a median, low and high ratio."""
    return speed["median"] > _FASTER and speed["low"] > 1


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
    if is_faster(speed):
        verdict = f"faster than float32, so mixed_{dtype} can gain where matrix products dominate"
    elif speed["median"] < _SLOWER and speed["high"] < 1:
        verdict = f"slower than float32, so mixed_{dtype} will not gain"
    else:
        verdict = f"no clear difference, so expect little of mixed_{dtype}"
    return (
        f"measured, {speed['median']:.2f} times the speed of float32 (middle half of {measurement['rounds']} rounds: "
        f"{speed['low']:.2f} to {speed['high']:.2f}), {verdict}."
    )
