"""Reads the text form of HLO, XLA's own intermediate language, line by line.

The text is what XLA prints and `--xla_dump_to` writes: a header, then computations, each a name, a signature and
instructions in braces. An instruction is `%name = type opcode(operands), attribute=value, ...`, where the type may be
a tuple and carry layouts, and operands, attributes and constants may hold brackets of every kind and quoted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_INDEX_COMMENT = re.compile(r"/\*index=\d+\*/")
_COMPUTATION = re.compile(r"(?P<entry>ENTRY\s+)?%?(?P<name>[\w.\-]+)\s+(?:\(.*\)\s*->.*)?\{")
_HEAD = re.compile(r"(?P<root>ROOT\s+)?%?(?P<name>[\w.\-]+)\s+=\s+")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_QUOTED_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[()\[\]{},]')
_OPERAND = re.compile(r"%?([\w.\-]+)$")

_FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "pred": "bool"}
_KINDS = {"s": "int", "u": "uint", "c": "complex", "f": "float"}


@dataclass(frozen=True)
class Array:
    """One array of an instruction's result: its dtype under TensorFlow's name, and its shape."""

    dtype: str
    shape: tuple[int, ...]
    bits: int

    @property
    def elements(self) -> int:
        """Number of elements; for a dimension whose size is only known at run time, its upper bound."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        """Size in memory, without padding."""
        return (self.elements * self.bits + 7) // 8


@dataclass(frozen=True)
class Line:
    """One instruction as it is written: nothing is looked up yet."""

    name: str
    root: bool
    arrays: tuple[Array, ...]
    is_tuple: bool
    opcode: str
    operands: tuple[str, ...]
    literal: str
    attributes: dict[str, str]


@dataclass(frozen=True)
class Block:
    """One computation as it is written."""

    name: str
    entry: bool
    lines: tuple[Line, ...]


def dtype_name(hlo_name: str) -> str:
    """TensorFlow's name of an HLO type: "bf16" is "bfloat16", "pred" is "bool"; unknown ones stay as they are."""
    if hlo_name in _FLOATS:
        return _FLOATS[hlo_name]
    if match := re.fullmatch(r"f(\d)(e\d+m\d+\w*)", hlo_name):
        return f"float{match[1]}_{match[2]}"
    if match := re.fullmatch(r"([suc])(\d+)", hlo_name):
        return _KINDS[match[1]] + match[2]
    return hlo_name


def read(text: str) -> tuple[str, list[Block]]:
    """The module's name and its computations, in the order of the text.

    Raises:
        ValueError: if this is not the text of an HLO module.
    """
    header = re.search(r"^\s*HloModule\s+([^\s,]+)", text, re.MULTILINE)
    if header is None:
        raise ValueError(
            "This is not the text of an HLO module, which begins with 'HloModule': give what XLA printed, unchanged."
        )
    blocks: list[Block] = []
    opened: re.Match[str] | None = None
    lines: list[Line] = []
    for line in _whole_lines(_INDEX_COMMENT.sub("", text[header.end() :])):
        if opened is None:
            opened, lines = _COMPUTATION.fullmatch(line), []
        elif line.startswith("}"):
            blocks.append(Block(opened["name"], bool(opened["entry"]), tuple(lines)))
            opened = None
        elif head := _HEAD.match(line):
            lines.append(_instruction(head, line[head.end() :]))
    if not blocks:
        raise ValueError(f"The HLO module '{header[1]}' holds no computation: its text seems to be cut off.")
    return header[1], blocks


def _whole_lines(text: str) -> Iterator[str]:
    """Lines without indentation; an instruction that goes on over several lines comes as one."""
    waiting = ""
    for raw in text.splitlines():
        line = raw.strip()
        if waiting:
            waiting += f" {line}"
        elif " = " in line and _is_open(line):
            waiting = line
        elif line:
            yield line
        if waiting and not _is_open(waiting):
            yield waiting
            waiting = ""
    if waiting:
        yield waiting


def _is_open(line: str) -> bool:
    """Whether a bracket opened in this line is still open at its end."""
    if all(line.count(a) == line.count(b) for a, b in ("()", "{}")):
        return False  # counting is fast, and nearly always enough
    depth = 0
    for match in _QUOTED_OR_BRACKET.finditer(line):
        depth += (match[0] in "([{") - (match[0] in ")]}")
    return depth > 0


def _instruction(head: re.Match[str], rest: str) -> Line:
    type_end = _closing(rest, 0) if rest.startswith("(") else (rest + " ").index(" ")
    type_text, rest = rest[:type_end], rest[type_end:]
    found = _OPCODE.match(rest)
    opcode = found[1] if found else "unknown"
    end = _closing(rest, found.end() - 1) if found else len(rest)
    inner = rest[found.end() : end - 1] if found else ""
    literal = inner if opcode in ("constant", "parameter") else ""
    operands = () if literal else tuple(m[1] for part in _split(inner) if (m := _OPERAND.search(part)))
    return Line(
        name=head["name"],
        root=bool(head["root"]),
        arrays=tuple(_array(*pair) for pair in _ARRAY.findall(type_text)),
        is_tuple=type_text.startswith("("),
        opcode=opcode,
        operands=operands,
        literal=literal,
        attributes=dict(_attributes(rest[end:])),
    )


def _array(hlo_name: str, dimensions: str) -> Array:
    sizes = tuple(int(size.lstrip("<=? ") or 0) for size in dimensions.split(",") if size.strip())
    digits = re.search(r"\d+", hlo_name)
    bits = 8 if hlo_name == "pred" else int(digits[0]) if digits else 0  # a token has no size
    return Array(dtype_name(hlo_name), sizes, bits)


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for part in _split(text):
        name, equals, value = part.partition("=")
        if equals:
            yield name, value


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` has been closed: the index after it."""
    depth = 0
    for match in _QUOTED_OR_BRACKET.finditer(text, start):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth == 0:
            return match.end()
    return len(text)


def _split(text: str) -> list[str]:
    """Cut at the commas that lie in no bracket and no quotes."""
    parts, depth, start = [], 0, 0
    for match in _QUOTED_OR_BRACKET.finditer(text):
        if match[0] == "," and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
        else:
            depth += (match[0] in "([{") - (match[0] in ")]}")
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]
