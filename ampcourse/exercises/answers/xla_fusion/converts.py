"""Exercise 3: count the changes of dtype in the text of an optimised module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake

_LINE = re.compile(r"\s*(?:ROOT )?%[\w.\-]+ = (\w+)\[\S* convert\(")


def _inputs(rng: np.random.Generator) -> Inputs:
    return {
        "only converts": (_module(rng, tricks=False, fused=0),),
        "converts inside fusions": (_module(rng, tricks=False, fused=int(rng.integers(2, 4))),),
        "other lines that speak of converts": (_module(rng, tricks=True, fused=2),),
    }


def _module(rng: np.random.Generator, tricks: bool, fused: int) -> str:
    """A module as XLA prints it: fused computations first, then the entry computation."""
    low = str(rng.choice(["f16", "bf16"]))
    shape = f"[{rng.integers(2, 512)},{rng.integers(2, 512)}]{{1,0}}"
    lines = [f"HloModule a_step_{rng.integers(10, 99)}, is_scheduled=true", ""]
    for number in range(fused):
        name = f"%fused_computation.{number}"
        lines += [f"{name} (param_0.{number}: f32[]) -> f32[] {{", f"  %param_0.{number} = f32{shape} parameter(0)"]
        lines += _body(rng, low, shape, f"%param_0.{number}", tricks) + ["}", ""]
    lines += [f"ENTRY %a_step (arg0.1: f32{shape}) -> f32{shape} {{", f"  %arg0.1 = f32{shape} parameter(0)"]
    for number in range(fused):
        fusion = f"  %convert_add_fusion.{number} = {low}{shape} fusion(%arg0.1), kind=kLoop"
        lines.append(f"{fusion}, calls=%fused_computation.{number}")
    return "\n".join([*lines, *_body(rng, low, shape, "%arg0.1", tricks), "}", ""])


def _body(rng: np.random.Generator, low: str, shape: str, source: str, tricks: bool) -> list[str]:
    """Some converts to the low dtype, more or fewer back, the last line as the root; arithmetic in between."""
    kinds = [low] * int(rng.integers(1, 6)) + ["f32"] * int(rng.integers(6, 12)) + ["add"] * int(rng.integers(1, 4))
    kinds += ["named", "bits", "quoted"] * int(rng.integers(1, 4)) * tricks
    rng.shuffle(kinds)
    lines, before = [], source
    for kind in [*kinds, low]:
        number = int(rng.integers(100, 1000)) * 100 + len(lines)
        name = f"%convert.{number}" if kind in ("named", low, "f32") else f"%{kind}.{number}"
        lines.append(f"  {name} = {_operation(kind, shape, before)}")
        before = name
    return [*lines[:-1], "  ROOT " + lines[-1].strip()]


def _operation(kind: str, shape: str, operand: str) -> str:
    if kind in ("add", "named"):
        return f"f32{shape} add({operand}, {operand})"
    if kind == "bits":
        return f"s32{shape} bitcast-convert({operand})"
    if kind == "quoted":
        return f'f32{shape} negate({operand}), metadata={{op_type="Neg" op_name="cast, then convert(x)"}}'
    return f"{kind}{shape} convert({operand})"


def _right(text: str) -> dict[str, int]:
    return dict(Counter(match[1] for line in text.splitlines() if (match := _LINE.match(line))))


def _by_words(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in text.splitlines():
        words = line.replace("ROOT ", "").split()
        if len(words) > 3 and words[1] == "=" and words[3].startswith("convert("):
            dtype = words[2].partition("[")[0]
            counts[dtype] = counts.get(dtype, 0) + 1
    return counts


def _by_hlo_module(text: str) -> Counter[str]:
    from ampcourse.amp.xla_module import HloModule

    short = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
    return Counter(short[i.dtype] for i in HloModule.from_text(text).instructions if i.opcode == "convert")


def _if_line(keep: Callable[[str], bool], dtype: Callable[[str], str] | None = None) -> Callable[[str], dict[str, int]]:
    """Counting by another test of a line."""

    def count_converts(text: str) -> dict[str, int]:
        lines = [line for line in text.splitlines() if " = " in line and keep(line)]
        return dict(Counter((dtype or _dtype)(line) for line in lines))

    return count_converts


def _dtype(line: str) -> str:
    return line.partition(" = ")[2].partition("[")[0]


def _of_operand(text: str) -> dict[str, int]:
    dtypes: dict[str, str] = {}
    for line in text.splitlines():
        if " = " in line:
            dtypes[line.replace("ROOT ", "").split()[0]] = _dtype(line)
    found = (re.search(r" convert\((%[\w.\-]+)\)", line) for line in text.splitlines() if _LINE.match(line))
    return dict(Counter(dtypes[match[1]] for match in found if match))


count_converts = Exercise(
    id="xla_fusion.count_converts",
    inputs=_inputs,
    right=_right,
    points={"only converts": 1, "converts inside fusions": 1, "other lines that speak of converts": 2},
    also_right=(_by_words, _by_hlo_module),
    mistakes=(
        Mistake(
            _if_line(lambda line: "convert" in line),
            "You count every line in which the word occurs. Names contain it as well, and so do fusions and metadata: "
            "look at the word before the first bracket of operands, the opcode.",
        ),
        Mistake(
            _if_line(lambda line: "convert(" in line),
            "You count `bitcast-convert(` too, which only reads the same bits as another type, or text inside the "
            "metadata. The opcode stands right behind the shape.",
        ),
        Mistake(
            _if_line(lambda line: " convert(" in line),
            "You found ` convert(` inside quotes, in the metadata. The opcode stands right behind the shape.",
        ),
        Mistake(
            _if_line(lambda line: re.match(r"\s*(ROOT )?%convert[._]", line) is not None),
            "You go by names. A name only says what the instruction once was: `%convert.7 = f32[8] add(...)` adds.",
        ),
        Mistake(
            _if_line(lambda line: bool(_LINE.match(line)) and "ROOT" not in line),
            "You miss the last line of each computation: `ROOT` may stand before the name.",
        ),
        Mistake(
            lambda text: _right(text[text.index("ENTRY") :]),
            "You look at the entry computation only. Most converts lie inside fusions, in computations of their own.",
        ),
        Mistake(
            lambda text: _right(text[: text.index("ENTRY")]),
            "You look at the fused computations only. The entry computation holds instructions as well.",
        ),
        Mistake(
            _of_operand,
            "You count by the dtype that goes in. The type left of the opcode, the one that comes out, is asked for.",
        ),
        Mistake(
            lambda text: sum(_right(text).values()),
            "That is the number of all converts. Return a dictionary: for each dtype that comes out, how many.",
        ),
    ),
    hints=(
        "A line reads `%name = dtype[shape]{layout} opcode(operands), ...`, perhaps with `ROOT` in front.",
        "Without ROOT, line.split() gives the name, '=', the type, and the opcode with its first operand.",
        "Count lines whose fourth word starts with 'convert('; the dtype is the third word up to its first '['.",
    ),
    asks_for=("ampcourse.amp.hlo", "ampcourse.amp.xla_module.HloModule", "ampcourse.amp.xla_text.read"),
    insight="The opcode alone says what a line does. Converts in pairs, down to 16 bits and straight up again, "
    "are rounding without any gain in speed: the mark of a device that cannot compute in that dtype.",
)
