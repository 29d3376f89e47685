"""Reading a `GraphDef` before and after the rewrite: dtypes of nodes, edges, what changed, and why the rest did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SILENT = frozenset({"NoOp"})
FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass
class Part:
    """One node as the pass sees it."""

    name: str
    op: str
    device: str
    types: dict[str, str]  # type attribute -> dtype
    outputs: list[str]
    sources: list[str] = field(default_factory=list)  # nodes whose floating-point values come in
    readers: list[str] = field(default_factory=list)
    feeds: list[str] = field(default_factory=list)  # every node that comes in, for the picture

    @property
    def dtype(self) -> str:
        """The dtype it computes in: of the first floating-point output, else of a floating-point attribute."""
        floats = [t for t in (*self.outputs, *self.types.values()) if t in FLOATS]
        return floats[0] if floats else next(iter(self.outputs), "")


def read(graph: Any, order: Sequence[str] = ()) -> dict[str, Part]:
    """Every node by name; those inside functions that are still called are named `function/node`.

    Args:
        graph: a `GraphDef`.
        order: names in the order in which the program made them, which the passes shuffle; what was inlined comes
            where its call was.
    """
    parts: dict[str, Part] = {}
    for prefix, nodes in _bodies(graph):
        here = {node.name: _part(node, prefix) for node in nodes if node.op not in SILENT}
        for node in nodes:
            if node.name in here:
                _connect(node, here)
        parts |= {part.name: part for part in here.values()}
    place = {name: number for number, name in enumerate(order)}
    return dict(sorted(parts.items(), key=lambda item: _place(item[0], place)))


def _place(name: str, place: Mapping[str, int]) -> int:
    """Where the node, or the call that it was inlined from, stood in the program."""
    pieces = name.removeprefix("Func/").split("/")
    for length in range(len(pieces), 0, -1):
        if (found := place.get("/".join(pieces[:length]))) is not None:
            return found
    return len(place)


def _bodies(graph: Any) -> Iterator[tuple[str, Sequence[Any]]]:
    """The graph itself, and the functions that are reached from it."""
    library = {f.signature.name: f for f in graph.library.function}
    yield "", graph.node
    waiting, seen = list(graph.node), set()
    while waiting:
        node = waiting.pop()
        called = [node.op, *(a.func.name for a in node.attr.values() if a.HasField("func"))]
        called += [f.name for a in node.attr.values() if a.HasField("list") for f in a.list.func]
        for name in called:
            if name in library and name not in seen:
                seen.add(name)
                waiting += library[name].node_def
                yield f"{name}/", library[name].node_def


def _part(node: Any, prefix: str) -> Part:
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    if definition is None:
        return Part(prefix + node.name, node.op, node.device, {}, [])
    types = {a.name: _name(node.attr[a.name].type) for a in definition.attr if a.type == "type" and a.name in node.attr}
    outputs: list[str] = []
    for arg in definition.output_arg:
        if arg.type_list_attr:
            outputs += [_name(t) for t in node.attr[arg.type_list_attr].list.type]
        else:
            kind = types.get(arg.type_attr, "") if arg.type_attr else _name(arg.type)
            outputs += [kind] * (node.attr[arg.number_attr].i if arg.number_attr else 1)
    return Part(prefix + node.name, node.op, node.device, types, outputs)


def _connect(node: Any, here: dict[str, Part]) -> None:
    part = here[node.name]
    for text in node.input:
        name, _, port = text.removeprefix("^").partition(":")
        if text.startswith("^") or name not in here:
            continue
        source = here[name]
        part.feeds.append(source.name)
        # Inside functions a port is written name:output:number; there any floating-point output will do.
        carried = source.outputs[int(port or 0) :][:1] if port.isdigit() or not port else source.outputs
        if any(t in FLOATS for t in carried):
            part.sources.append(source.name)
            source.readers.append(part.name)


def _name(number: int) -> str:
    import tensorflow as tf

    try:
        return tf.dtypes.as_dtype(number).name
    except TypeError:
        return ""


def changed(before: Part, after: Part | None) -> tuple[str, str]:
    """The dtype of a node before and after: of the attribute that the pass has changed, if it changed one."""
    after = after or before
    for attribute, old in before.types.items():
        new = after.types.get(attribute, old)
        if new != old:
            return old, new
    return before.dtype, after.dtype


def denied(parts: Mapping[str, Part], lists: Mapping[str, str]) -> dict[str, str]:
    """Node -> the operation on the deny list whose paint has reached it.

    The paint runs forward through infer and clear operations, as far as another infer or deny operation still follows.
    The rule is that of TensorFlow's auto_mixed_precision.cc.
    """
    kind = {name: lists.get(part.op, "") for name, part in parts.items()}
    ahead = {name for name, k in kind.items() if k in ("deny", "infer")}
    waiting = list(ahead)
    while waiting:
        for name in parts[waiting.pop()].sources:
            if kind[name] == "clear" and name not in ahead:
                ahead.add(name)
                waiting.append(name)
    found: dict[str, str] = {}
    for root in (name for name, k in kind.items() if k == "deny"):
        waiting = [root] if root not in found else []
        found.setdefault(root, parts[root].op)
        while waiting:
            for name in parts[waiting.pop()].readers:
                if name in ahead and name not in found:
                    found[name] = parts[root].op
                    waiting.append(name)
    return found


def why(part: Part, kind: str, dtypes: tuple[str, str], kept: bool, deny: Mapping[str, str], pinned: bool) -> str:
    """A few words on what happened to one node, as far as floating-point numbers are concerned."""
    if dtypes[0] != dtypes[1]:
        return _CHANGED.get(kind, "its readers all want the lower precision")
    if dtypes[0] not in FLOATS:
        return ""
    if dtypes[0] != "float32":
        return f"{dtypes[0]} is left alone"
    if kept:
        return "an input or output of the function"
    if pinned:
        return "the program placed it on another device"
    if kind == "deny":
        return "on the deny list"
    if part.name in deny:
        return f"behind {deny[part.name]}, which is on the deny list"
    return _STAYED.get(kind, "on no list")


_CHANGED = {
    "allow": "on the allow list",
    "infer": "follows a rewritten operation, or lies between two",
    "clear": "a neighbour is rewritten, and it harms no number",
}
_STAYED = {
    "allow": "no kernel in the lower precision",
    "infer": "follows no rewritten operation",
    "clear": "no rewritten neighbour",
}
