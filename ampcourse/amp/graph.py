"""Graph-rewrite mixed precision made visible: what TensorFlow's optimiser makes of a function for a given device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ampcourse.amp import graph_pass, graph_read
from ampcourse.amp.tables import html_list, html_table, text_table

if TYPE_CHECKING:
    from ampcourse.plots import Picture

MOST_ROWS = 40
_UNINTERESTING = frozenset({"Const", "Placeholder", "ReadVariableOp", "NoOp"})
_COLUMNS = ("Operation", "Name", "Before", "After", "List", "Why")
_COUNTED = ("Operation", "How many", "Before", "After", "List", "Why")


@dataclass(frozen=True)
class Node:
    """One operation of the graph.

    Attributes:
        name: its name in the graph; `function/name` inside a function that stays a function.
        op: its kind, such as "MatMul".
        before, after: the dtype it computes in, such as "float32"; of a Cast, the dtype it casts to.
        list: "allow", "infer", "deny" or "clear"; "" for none of them.
        why: a few words on why it was rewritten or left; "" where there is nothing to say.
    """

    name: str
    op: str
    before: str
    after: str
    list: str
    why: str

    @property
    def rewritten(self) -> bool:
        """Whether its dtype has changed."""
        return self.before != self.after


@dataclass(frozen=True)
class InsertedCast:
    """A cast that the pass has put in: where its value comes from, who reads it, and between which dtypes."""

    name: str
    source: str
    readers: tuple[str, ...]
    before: str
    after: str


@dataclass(frozen=True, repr=False)
class RewrittenGraph:
    """A function's graph before and after the rewrite.

    Attributes:
        device, option: what was asked for.
        rewritten: whether anything changed.
        reason: one sentence: how much changed, or why nothing did.
        nodes: every operation of the function; nested functions are inlined first.
        casts: the casts that the pass has inserted.
        added: kinds of operations that the pass has added -> how many; never anything but Cast.
        loss_scaling: whether the function checks numbers with IsFinite, as every dynamic loss scaling does. The pass
            adds none: if it is True, the program brought it along. (A fixed scale without a check goes unnoticed.)
        variables: name -> dtype, after the rewrite.
        lists: operation -> list, as the pass gives them here; empty where it cannot be run.
        edges: pairs of nodes, from -> to, after the rewrite, casts included.
    """

    device: str
    option: str
    rewritten: bool
    reason: str
    nodes: tuple[Node, ...]
    casts: tuple[InsertedCast, ...]
    added: Mapping[str, int]
    loss_scaling: bool
    variables: Mapping[str, str]
    lists: Mapping[str, str]
    edges: tuple[tuple[str, str], ...]
    _runner: Callable[[], Callable[..., Any]] = field(compare=False)

    def of(self, op: str) -> tuple[Node, ...]:
        """The operations of one kind, in the graph's order."""
        return tuple(node for node in self.nodes if node.op == op)

    def count(self, dtype: str, op: str | None = None) -> int:
        """How many operations (of one kind) compute in a dtype after the rewrite; inserted casts do not count."""
        return sum(node.after == dtype and op in (None, node.op) for node in self.nodes)

    def run(self, *args: Any) -> Any:
        """Run the rewritten graph on the devices that are really here, in place of the function.

        Float16 rounds, overflows and flushes alike everywhere; only the order of summation differs from a GPU's.
        Variables are read and written as the function does.

        Raises:
            ValueError: if the number of arrays is not that which the graph takes.
        """
        from ampcourse import quietly

        with quietly():  # kernels may log on their first call that they fall back to others
            return self._runner()(*args)

    def picture(self) -> Picture:
        """Before and after side by side.

        Raises:
            ValueError: if the graph is too large for a picture.
        """
        from ampcourse import plots

        kept = [n for n in self.nodes if n.op not in _UNINTERESTING and n.before in graph_read.FLOATS]
        boxes = {n.name: (n.op, n.before, n.after) for n in kept}
        boxes |= {c.name: ("Cast", "", c.after) for c in self.casts if boxes.keys() & {c.source, *c.readers}}
        return plots.graph_rewrite(boxes, [(a, b) for a, b in self.edges if a in boxes and b in boxes])

    def sentences(self) -> list[str]:
        """What the graph as a whole has to say."""
        kinds = Counter(self.variables.values())
        kept = " and ".join(f"{n} {name}" for name, n in kinds.items())
        says = [self.reason]
        if self.variables:
            says.append(f"Variables after it: {kept}; the rewrite changes none.")
        if self.loss_scaling:
            says.append("Loss scaling: the function itself checks for IsFinite; the rewrite added nothing to it.")
        else:
            says.append("Loss scaling: none. There is no IsFinite, and the rewrite adds nothing but casts.")
        return says

    def __str__(self) -> str:
        columns, rows = self._table()
        return "\n".join([*self.sentences(), "", text_table(columns, rows), *self._left_out()])

    __repr__ = __str__  # what a notebook shows where it cannot show HTML

    def _repr_html_(self) -> str:
        columns, rows = self._table()
        caption = f"The graph for {self.device} with {self.option}"
        return html_list(self.sentences()) + html_table(caption, columns, rows)

    def _shown(self) -> list[Node]:
        return [n for n in self.nodes if n.op not in _UNINTERESTING and n.before in graph_read.FLOATS]

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """One row a node while they are few; then one row for all that have the same fate."""
        shown = self._shown()
        casts = [("Cast (inserted)", _short(c.source), c.before, c.after, "", "dtypes change here") for c in self.casts]
        if len(shown) + len(casts) <= MOST_ROWS:
            return _COLUMNS, [(n.op, _short(n.name), n.before, n.after, n.list or "none", n.why) for n in shown] + casts
        same = Counter((n.op, n.before, n.after, n.list or "none", n.why) for n in shown)
        same.update((op, before, after, "", words) for op, _, before, after, _, words in casts)
        order = sorted(same, key=lambda k: (k[1] == k[2], k[0]))
        return _COUNTED, [(k[0], str(same[k]), *k[1:]) for k in order]

    def _left_out(self) -> list[str]:
        rest = len(self.nodes) - len(self._shown())
        return [f"({rest} more: constants, inputs, reads of variables, and what computes in integers)"] if rest else []


def rewritten_graph(fn: Any, *args: Any, device: str = "sm_80", option: str = "auto_mixed_precision") -> RewrittenGraph:
    """What TensorFlow's graph rewrite would make of a function on a device that need not be here.

    The function is traced, nested functions are inlined, and grappler's pass is run on the graph with a cluster that
    claims to have that device. Nothing is executed. Other passes, which move and merge operations, are left out so that
    names stay the same.

    Args:
        fn: a Python function, a `tf.function`, a `ConcreteFunction`, or a Keras model (its forward pass).
        *args: arrays, tensors or `tf.TensorSpec`s to trace it with; none for a `ConcreteFunction`, and for a model
            that knows its inputs.
        device: the compute capability of a GPU, such as "sm_70", or "cpu".
        option: "auto_mixed_precision" (float16, GPUs), "auto_mixed_precision_onednn_bfloat16" (bfloat16, CPUs), or
            "auto_mixed_precision_cpu".

    Raises:
        ValueError: for an unknown device or option, missing or unfit arguments, or a function that does not trace.
        TypeError: for something that has no TensorFlow graph.
    """
    arch = graph_pass.capability(device)
    graph_pass.check_option(option)
    from ampcourse import quietly

    with quietly():  # importing TensorFlow, and grappler, write to stderr
        import tensorflow as tf

        tf.zeros(1)  # starting the devices writes, too
        from ampcourse.amp import graph_trace

        function = graph_trace.concrete(fn, args)
        fetches = [t.name for t in (*function.inputs, *function.outputs)]
        whole = function.graph.as_graph_def()
        before_graph = graph_pass.run(whole, fetches, ["function"], arch)
        after_graph = graph_pass.run(before_graph, fetches, [option], arch)
        lists = graph_pass.op_lists(option)
        before = graph_read.read(before_graph, [o.name for o in function.graph.get_operations()])
        after = graph_read.read(after_graph)
    runner = cache(partial(_quiet_runner, after_graph, function))
    return _report(function, before, after, lists, fetches, device, option, runner)


def _quiet_runner(graph: Any, function: Any) -> Callable[..., Any]:
    from ampcourse import quietly
    from ampcourse.amp import graph_run

    with quietly():
        return graph_run.runner(graph, function)


def _short(name: str, most: int = 44) -> str:
    """The end of a long name, which is the telling part."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


def _report(
    function: Any,
    before: dict[str, graph_read.Part],
    after: dict[str, graph_read.Part],
    lists: Mapping[str, str],
    fetches: list[str],
    device: str,
    option: str,
    runner: Callable[[], Callable[..., Any]],
) -> RewrittenGraph:
    kept = {name.partition(":")[0] for name in fetches}
    deny = graph_read.denied(before, lists)
    dtypes = {name: graph_read.changed(part, after.get(name)) for name, part in before.items()}
    is_rewritten = any(old != new for old, new in dtypes.values())
    other = "GPU" if device.lower() == "cpu" else "CPU"

    def words(part: graph_read.Part, kind: str) -> str:
        pinned = other in part.device.upper()
        return graph_read.why(part, kind, dtypes[part.name], part.name in kept, deny, pinned) if is_rewritten else ""

    nodes = tuple(
        Node(n, part.op, *dtypes[n], lists.get(part.op, ""), words(part, lists.get(part.op, "")))
        for n, part in before.items()
    )
    casts = tuple(
        InsertedCast(n, (part.feeds or [""])[0], tuple(part.readers), part.types["SrcT"], part.types["DstT"])
        for n, part in after.items()
        if part.op == "Cast" and n not in before
    )
    return RewrittenGraph(
        device=device,
        option=option,
        rewritten=is_rewritten,
        reason=_reason(nodes, casts, device, option),
        nodes=nodes,
        casts=casts,
        added=dict(Counter(part.op for n, part in after.items() if n not in before)),
        loss_scaling=any(part.op == "IsFinite" for part in before.values()),
        variables=_variables(function, after),
        lists=lists,
        edges=tuple((source, n) for n, part in after.items() for source in part.feeds),
        _runner=runner,
    )


def _reason(nodes: tuple[Node, ...], casts: tuple[InsertedCast, ...], device: str, option: str) -> str:
    target, arch = graph_pass.OPTIONS[option], graph_pass.capability(device)
    changed = sum(node.rewritten for node in nodes)
    if changed:
        floats = sum(node.before in graph_read.FLOATS and node.op not in _UNINTERESTING for node in nodes)
        inserted = f"{len(casts)} cast{'' if len(casts) == 1 else 's'} inserted"
        return f"{changed} of {floats} floating-point operations now compute in {target}; {inserted}."
    if option == "auto_mixed_precision_cpu":
        return "Nothing was rewritten: TensorFlow knows the name of this option, but its CPU pass changes nothing here."
    if option == "auto_mixed_precision" and arch is None:
        return "Nothing was rewritten: this option is for GPUs, and the machine described here has none."
    if option == "auto_mixed_precision" and arch is not None and arch < (7, 0):
        return (
            f"Nothing was rewritten: compute capability {arch[0]}.{arch[1]} is below 7.0, where Tensor Cores begin to "
            "make float16 fast; the pass refuses older GPUs."
        )
    if option != "auto_mixed_precision" and arch is not None:
        return "Nothing was rewritten: this option is for CPUs; say device='cpu'."
    if option != "auto_mixed_precision" and not graph_pass.onednn_is_on():
        return (
            "Nothing was rewritten: oneDNN is off in this process, and the pass needs it; set TF_ENABLE_ONEDNN_OPTS=1 "
            "before TensorFlow is imported (only TensorFlow for x86 processors has it)."
        )
    allowed = {node.before for node in nodes if node.list == "allow"}
    if not allowed:
        return "Nothing was rewritten: the function has no operation on the allow list, such as MatMul or Conv2D."
    if "float32" not in allowed:
        return (
            f"Nothing was rewritten: only float32 is, and the function multiplies in {' and '.join(sorted(allowed))}."
        )
    return (
        f"Nothing was rewritten: this build of TensorFlow has no {target} kernels for that device, or the program "
        "placed its operations elsewhere."
    )


def _variables(function: Any, after: dict[str, graph_read.Part]) -> dict[str, str]:
    """Name -> dtype in which the graph reads or writes it, which is what a rewrite would change."""
    names = {id(v.handle): v.name for v in function.graph.variables if hasattr(v, "handle")}
    inside: dict[str, str] = {}
    for outer, placeholder in function.graph.captures:
        name = names.get(id(outer), placeholder.op.name)
        same = sum(other.partition(" (")[0] == name for other in inside.values())
        inside[placeholder.op.name] = f"{name} ({same + 1})" if same else name
    touched: dict[str, str] = {}
    for part in after.values():
        if "dtype" in part.types and part.op != "Placeholder":
            for source in part.feeds:
                if source in inside and after[source].dtype == "resource":
                    touched.setdefault(inside[source], part.types["dtype"])
    return touched
