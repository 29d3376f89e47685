"""An HLO module as plain data: its instructions and fusions, what they compute in, and the bytes they move."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ampcourse.amp.xla_text import Array, Block, dtype_name, read

# These do no work of their own: they name, group or re-label what is there, or are computed where they are used.
FREE = frozenset(
    ("parameter", "constant", "iota", "tuple", "get-tuple-element", "bitcast", "broadcast", "reshape")
    + ("after-all", "add-dependency", "opt-barrier", "partition-id", "replica-id", "domain")
)
_THROUGH = frozenset(("broadcast", "reshape", "bitcast"))
_CONTROL = frozenset(("while", "conditional", "call"))
_LIBRARY_DOT = re.compile(r"gemm|matmul|dot", re.IGNORECASE)
_LIBRARY_CONVOLUTION = re.compile(r"conv(?!ert)", re.IGNORECASE)
_REFERENCE = re.compile(r"%?([\w.\-]+)")


@dataclass(frozen=True, eq=False)
class Instruction:
    """One HLO instruction.

    Attributes:
        name: unique within its module.
        opcode: HLO's name of the operation, such as "dot", "convert" or "fusion".
        dtype: of the result, under TensorFlow's name, such as "float32"; "tuple" where there are several.
        shape: of the result; () where there are several.
        bytes: size of the result in memory, all parts together.
        computation: name of the computation that it stands in.
        operands: the instructions whose results it takes.
        attributes: whatever else the text says, such as `{"kind": "kLoop"}`.
        arrays: the parts of the result.
        root: whether its result is the computation's result.
        literal: value of a constant, or number of a parameter, as written.
    """

    name: str
    opcode: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    computation: str
    operands: tuple[Instruction, ...] = field(repr=False)
    attributes: Mapping[str, str] = field(repr=False)
    arrays: tuple[Array, ...] = field(repr=False)
    root: bool = False
    literal: str = ""

    @property
    def computes_in(self) -> str:
        """The dtype of the numbers that go in, which is what a dot or a convolution computes in."""
        return self.operands[0].dtype if self.operands else self.dtype

    @property
    def target(self) -> str:
        """The library routine that a custom-call calls; empty for other instructions."""
        return self.attributes.get("custom_call_target", "").strip('"')

    @property
    def is_dot(self) -> bool:
        """Whether this multiplies matrices, itself or by a library call."""
        return self.opcode == "dot" or bool(self.target and _LIBRARY_DOT.search(self.target))

    @property
    def is_convolution(self) -> bool:
        """Whether this is a convolution, itself or by a library call."""
        return self.opcode == "convolution" or bool(self.target and _LIBRARY_CONVOLUTION.search(self.target))

    @property
    def reads(self) -> tuple[Instruction, ...]:
        """What it reads from memory, each once: behind a broadcast, that is the small array that is spread out."""
        sources = {source.name: source for source in map(_source, self.operands)}
        return tuple(s for s in sources.values() if s.opcode != "iota")

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written if it runs by itself: every operand once, and the result.

        An upper bound where only a slice of an operand is touched. 0 for what does no work of its own, and for
        loops, branches and calls, whose work is counted in the computations that they run.
        """
        if self.opcode in FREE or self.opcode in _CONTROL:
            return 0
        return sum(source.bytes for source in self.reads) + self.bytes

    @property
    def flops(self) -> int:
        """Floating-point operations of a dot or a convolution, two for each multiply-add; 0 for everything else."""
        if self.opcode == "dot" and self.operands:
            axes = [int(i) for i in re.findall(r"\d+", self.attributes.get("lhs_contracting_dims", ""))]
            return 2 * math.prod(self.shape) * math.prod(self.operands[0].shape[i] for i in axes)
        if self.opcode == "convolution" and len(self.operands) > 1:
            labels = self.attributes.get("dim_labels", "").partition("_")[2].partition("->")[0]
            kernel = self.operands[1].shape
            return 2 * math.prod(self.shape) * math.prod(n for n, at in zip(kernel, labels, strict=False) if at != "o")
        return 0


def _source(operand: Instruction) -> Instruction:
    while operand.opcode in _THROUGH and operand.operands:
        operand = operand.operands[0]
    return operand


@dataclass(frozen=True, eq=False)
class Fusion:
    """Several operations that run as one kernel, so that what passes between them never goes through memory.

    Attributes:
        instruction: the fusion as its surroundings see it.
        inside: all instructions of the fused computation, its parameters included, in order.
    """

    instruction: Instruction
    inside: tuple[Instruction, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """The instruction's name."""
        return self.instruction.name

    @property
    def kind(self) -> str:
        """HLO's kind, such as "kLoop" for one loop over the elements of the result, or "kOutput"."""
        return self.instruction.attributes.get("kind", "")

    @property
    def ops(self) -> tuple[Instruction, ...]:
        """The operations that it contains, without parameters, constants, broadcasts and the like."""
        return tuple(i for i in self.inside if i.opcode not in FREE)

    @property
    def inputs(self) -> tuple[Instruction, ...]:
        """The instructions whose results it reads."""
        return self.instruction.operands

    @property
    def opcodes(self) -> Counter[str]:
        """How often it contains each operation."""
        return Counter(i.opcode for i in self.ops)

    @property
    def bytes_moved(self) -> int:
        """Bytes that it reads and writes as one kernel: each input once, and the result."""
        return self.instruction.bytes_moved

    @property
    def bytes_alone(self) -> int:
        """Bytes that would be read and written if each operation inside ran by itself."""
        alone = sum(i.bytes_moved for i in self.ops)
        (root,) = [i for i in self.inside if i.root] or self.inside[-1:]
        if root.opcode in FREE and root.opcode not in ("tuple", "parameter"):
            alone += root.bytes + sum(s.bytes for s in root.reads)  # a broadcast that is the result is written out
        return alone

    @property
    def bytes_saved(self) -> int:
        """Bytes that need not move because these operations run as one kernel."""
        return max(0, self.bytes_alone - self.bytes_moved)

    @property
    def intermediates(self) -> tuple[Instruction, ...]:
        """The operations inside whose results are never written to memory."""
        written = {root.name for root in self.inside if root.root}
        written |= {o.name for root in self.inside if root.root and root.opcode == "tuple" for o in root.operands}
        return tuple(i for i in self.ops if i.name not in written)

    def picture(self) -> Any:
        """The fusion as a `plots.Picture`."""
        from ampcourse import plots

        return plots.fusion(self)


@dataclass(frozen=True, eq=False)
class Computation:
    """A named list of instructions; the module starts in the one that is `entry`."""

    name: str
    entry: bool
    instructions: tuple[Instruction, ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class HloModule:
    """One HLO module.

    Attributes:
        name: as in the text.
        text: what XLA printed.
        computations: by name, in the order of the text.
    """

    name: str
    text: str = field(repr=False)
    computations: Mapping[str, Computation] = field(repr=False)

    @classmethod
    def from_text(cls, text: str) -> HloModule:
        """Read the text of a module, such as a file that `--xla_dump_to` wrote.

        Raises:
            ValueError: if this is not the text of an HLO module.
        """
        if not isinstance(text, str):
            raise ValueError(f"HLO is read from text, not from {type(text).__name__}: give the module as a string.")
        name, blocks = read(text)
        return cls(name, text, {block.name: _computation(block) for block in blocks})

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions of all computations, those inside fusions included."""
        return tuple(i for computation in self.computations.values() for i in computation.instructions)

    @property
    def entry(self) -> Computation:
        """The computation that runs first."""
        every = list(self.computations.values())
        return next((c for c in every if c.entry), every[-1])

    @cached_property
    def fusions(self) -> tuple[Fusion, ...]:
        """All fusions, in order."""
        found = (i for i in self.instructions if i.opcode == "fusion")
        return tuple(Fusion(i, self._called(i, "calls")) for i in found)

    @cached_property
    def dots(self) -> tuple[Instruction, ...]:
        """All matrix products, also those handed to a library."""
        return tuple(i for i in self.instructions if i.is_dot and not i.is_convolution)

    @cached_property
    def convolutions(self) -> tuple[Instruction, ...]:
        """All convolutions, also those handed to a library."""
        return tuple(i for i in self.instructions if i.is_convolution)

    @cached_property
    def converts(self) -> tuple[Instruction, ...]:
        """All changes of dtype; a `convert` to the dtype that was there already is none."""
        return tuple(i for i in self.instructions if i.opcode == "convert" and i.computes_in != i.dtype)

    def count(self, opcode: str, dtype: Any = None) -> int:
        """How many instructions have this opcode, and this dtype if one is given.

        Args:
            opcode: HLO's name of the operation.
            dtype: of the result, as TensorFlow or HLO name it: "bfloat16", tf.bfloat16 and "bf16" are the same.
        """
        wanted = None if dtype is None else dtype_name(str(getattr(dtype, "name", dtype)))
        return sum(i.opcode == opcode and wanted in (None, i.dtype) for i in self.instructions)

    @property
    def dots_by_dtype(self) -> Counter[str]:
        """Matrix products, by the dtype that they compute in."""
        return Counter(i.computes_in for i in self.dots)

    @property
    def convolutions_by_dtype(self) -> Counter[str]:
        """Convolutions, by the dtype that they compute in."""
        return Counter(i.computes_in for i in self.convolutions)

    @property
    def converts_by_dtype(self) -> Counter[str]:
        """Changes of dtype, such as "bfloat16 -> float32"."""
        return Counter(f"{i.computes_in} -> {i.dtype}" for i in self.converts)

    @cached_property
    def kernels(self) -> tuple[Instruction, ...]:
        """What runs as a step of its own: work in the entry computation and in the loops and branches under it."""
        names, waiting = set(), [self.entry.name]
        while waiting:
            if (name := waiting.pop()) in names or name not in self.computations:
                continue
            names.add(name)
            for i in self.computations[name].instructions:
                if i.opcode in _CONTROL:
                    waiting += _references(i.attributes)
        run = (i for name, c in self.computations.items() if name in names for i in c.instructions)
        return tuple(i for i in run if i.opcode not in FREE and i.opcode not in _CONTROL)

    @property
    def bytes_moved(self) -> int:
        """Bytes that all kernels together read and write; the body of a loop is counted once."""
        return sum(i.bytes_moved for i in self.kernels)

    @property
    def flops(self) -> int:
        """Floating-point operations of all dots and convolutions."""
        return sum(i.flops for i in self.instructions)

    def _called(self, instruction: Instruction, attribute: str) -> tuple[Instruction, ...]:
        name = instruction.attributes.get(attribute, "").lstrip("%")
        return self.computations[name].instructions if name in self.computations else ()


def _references(attributes: Mapping[str, str]) -> Iterable[str]:
    """The computations that a loop, branch or call runs."""
    for name in ("condition", "body", "to_apply", "branch_computations", "true_computation", "false_computation"):
        yield from _REFERENCE.findall(attributes.get(name, ""))


def _computation(block: Block) -> Computation:
    made: dict[str, Instruction] = {}
    for line in block.lines:  # XLA prints an instruction after its operands
        one = len(line.arrays) == 1 and not line.is_tuple
        made[line.name] = Instruction(
            name=line.name,
            opcode=line.opcode,
            dtype=line.arrays[0].dtype if one else "tuple",
            shape=line.arrays[0].shape if one else (),
            bytes=sum(array.bytes for array in line.arrays),
            computation=block.name,
            operands=tuple(made[name] for name in line.operands if name in made),
            attributes=line.attributes,
            arrays=line.arrays,
            root=line.root,
            literal=line.literal,
        )
    return Computation(block.name, block.entry, tuple(made.values()))
