"""Exercise 1: which settings rewrite anything, and on which machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake
from ampcourse.exercises.observers import each

OLD = ["sm_35", "sm_37", "sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62"]
NEW = ["sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"]
GPU_OPTION, CPU_OPTION = "auto_mixed_precision", "auto_mixed_precision_onednn_bfloat16"
OPTIONS = ["", GPU_OPTION, CPU_OPTION, "auto_mixed_precision_cpu"]
Answer = Callable[[str, str, bool, bool], str]


def _inputs(rng: np.random.Generator) -> Inputs:
    """Rows of (device, option, environment variable set, jit_compile)."""

    def some(devices: list[str], options: list[str], variable: bool | None, compiled: bool | None, n: int) -> list:
        def flag(value: bool | None) -> bool:
            return bool(rng.integers(2)) if value is None else value

        return [(str(rng.choice(devices)), str(rng.choice(options)), flag(variable), flag(compiled)) for _ in range(n)]

    gpus = [(str(d), GPU_OPTION, False, False) for d in rng.permutation(OLD + NEW)[:17]]
    fixed = ["sm_70", "sm_75", "sm_100", "sm_60"]
    gpus += [(d, GPU_OPTION, False, False) for d in fixed if (d, GPU_OPTION, False, False) not in gpus]
    options = some([*NEW, *["cpu"] * 12], OPTIONS, False, False, 14)
    options += [(str(rng.choice(NEW)), CPU_OPTION, False, False), ("cpu", CPU_OPTION, False, False)]
    options += [("cpu", GPU_OPTION, False, False), ("cpu", OPTIONS[3], False, False)]
    variable = some([*NEW, *OLD, "cpu"], OPTIONS, True, False, 10)
    variable += [(str(rng.choice(NEW)), "", True, False), ("cpu", "", True, False)]
    compiled = some([*NEW, *OLD, "cpu"], OPTIONS, None, None, 10)
    compiled += [(str(rng.choice(NEW)), GPU_OPTION, False, True), ("cpu", CPU_OPTION, False, True)]
    # In both, some row is rewritten, so that float32 for everything is wrong.
    variable += [(str(rng.choice(NEW)), GPU_OPTION, True, False)]
    compiled += [(str(rng.choice(NEW)), GPU_OPTION, bool(rng.integers(2)), False)]
    return {
        "GPUs old and new": (gpus,),
        "options": (options,),
        "the environment variable": (variable,),
        "functions that XLA compiles": (compiled,),
    }


def _capability(device: str) -> float:
    return float(f"{device[3:-1]}.{device[-1]}") if device.startswith("sm_") else 0.0


def _answer(
    new: Callable[[str], bool] = lambda device: _capability(device) >= 7.0,
    believes: Callable[[str, str], str] = lambda device, option: "",
    compiled_too: bool = False,
    on_cpu: str = "float32",
    by_third: str = "float32",
    bfloat16_on: Callable[[str], bool] = lambda device: device == "cpu",
) -> Answer:
    """The right answer, with each of its parts open to a mistake."""

    def matmul_dtype(device: str, option: str, environment_variable: bool, jit_compile: bool) -> str:
        if jit_compile and not compiled_too:
            return "float32"
        if environment_variable and (told := believes(device, option)):
            return told
        if option == GPU_OPTION:
            return on_cpu if device == "cpu" else "float16" if new(device) else "float32"
        if option == CPU_OPTION:
            return "bfloat16" if bfloat16_on(device) else "float32"
        return by_third if option and device == "cpu" else "float32"

    return matmul_dtype


def _as_table(device: str, option: str, environment_variable: bool, jit_compile: bool) -> Any:
    kind = "cpu" if device == "cpu" else "new" if int(device.removeprefix("sm_")) >= 70 else "old"
    table = {(GPU_OPTION, "new", False): "float16", (CPU_OPTION, "cpu", False): "bfloat16"}
    return np.str_(table.get((option, kind, jit_compile), "float32"))


def _by_pattern(device: str, option: str, environment_variable: bool, jit_compile: bool) -> str:
    if jit_compile:
        return "float32"
    if re.fullmatch(r"sm_([789]\d|\d{3})", device) and option == GPU_OPTION:
        return "float16"
    return "bfloat16" if device == "cpu" and option.endswith("onednn_bfloat16") else "float32"


matmul_dtype = Exercise(
    id="graph_amp.matmul_dtype",
    inputs=_inputs,
    observer=each,
    right=_answer(),
    points={
        "GPUs old and new": 1,
        "options": 1,
        "the environment variable": 1,
        "functions that XLA compiles": 1,
    },
    also_right=(_as_table, _by_pattern),
    mistakes=(
        Mistake(
            _answer(believes=lambda device, option: "float16" if _capability(device) >= 7.0 else ""),
            "You believe the environment variable. TensorFlow never reads it: nothing changes by it.",
        ),
        Mistake(
            _answer(believes=lambda device, option: "float16"),
            "You believe the environment variable, even where no GPU could use it. TensorFlow never reads it.",
        ),
        Mistake(
            _answer(compiled_too=True),
            "You forget `jit_compile`. What XLA compiles, grappler does not rewrite: float32 stays.",
        ),
        Mistake(
            _answer(new=lambda device: device >= "sm_70"),
            "You compare device names as text, or by their first digit, and so 'sm_100' comes before 'sm_70'. Turn all "
            "digits into a number.",
        ),
        Mistake(
            _answer(new=lambda device: _capability(device) > 7.0),
            "You refuse 'sm_70' itself, the V100, which was the first GPU with Tensor Cores: 7.0 is enough.",
        ),
        Mistake(
            _answer(new=lambda device: _capability(device) >= 8.0),
            "You ask for 8.0. Tensor Cores for float16 came with 7.0 (V100); what 8.0 brought is bfloat16 and TF32.",
        ),
        Mistake(
            _answer(new=lambda device: True),
            "You rewrite for every GPU. Below compute capability 7.0 the pass refuses.",
        ),
        Mistake(
            _answer(on_cpu="float16"),
            "`auto_mixed_precision` does nothing on a machine without a GPU.",
        ),
        Mistake(
            _answer(by_third="float16"),
            "`auto_mixed_precision_cpu` is dropped without a word: nothing is rewritten.",
        ),
        Mistake(
            _answer(bfloat16_on=lambda device: True),
            "The option with onednn in its name is for CPUs: on a GPU it rewrites nothing.",
        ),
        Mistake(
            lambda device, option, environment_variable, jit_compile: {
                "float16": "bfloat16",
                "bfloat16": "float16",
            }.get(_answer()(device, option, environment_variable, jit_compile), "float32"),
            "You have the two 16-bit formats the wrong way round: float16 on GPUs, bfloat16 on CPUs.",
        ),
    ),
    hints=(
        "Begin with what decides alone: under jit_compile=True nothing is rewritten, whatever else is set.",
        "int(device[3:]) is 70 for 'sm_70' and 100 for 'sm_100'.",
        "Only two combinations rewrite: auto_mixed_precision with a GPU from 70 on, and the onednn option on the CPU.",
    ),
    asks_for=("ampcourse.amp.rewritten_graph", "ampcourse.amp.graph_pass.run"),
    insight="Four switches, and two of them do nothing. None of them ever complains, which is why you look at the "
    "graph instead of at the settings.",
)
