"""`dtype_table`: in which dtype every part of a Keras model computes, keeps its variables and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ampcourse.amp.dtypes_inputs import call_arguments, checked_layer, failed
from ampcourse.amp.dtypes_trace import FLOATS, Use, dtype_name, input_casts, runs_inside, trace, weight_casts
from ampcourse.amp.tables import html_table, text_table

_COLUMNS = ("Layer", "Kind", "Casts on the way in", "Computes in", "Variables", "Other float dtypes inside", "Output")
_SHOWN_TYPES = 4


@dataclass(frozen=True)
class LayerDtypes:
    """One layer or bare operation of a model.

    Attributes:
        name: its name, after those of the models and layers that hold it: `"encoder/block_1/dense"`.
        kind: its class, such as `"Dense"`.
        compute: the dtype in which it promises to compute; "" for inputs, bare operations and mere containers.
        variable: the dtype of its own variables, several of them as `"int8, float32"`; "" if it has none.
        output: the dtype of what it returns, several of them as `"float16, float32"`; "" if it was not called.
        inside: what really runs inside it in another float dtype, such as `"float32: Mean, Rsqrt"`; "" if nothing.
        casts: the casts of its arguments on the way in, such as `"float32 -> float16"`; "" if none.
        weight_casts: the casts of its variables before they are used, likewise.
        calls: how often it was called in one call of the model; 2 or more for a shared layer.
    """

    name: str
    kind: str
    compute: str
    variable: str
    output: str
    inside: str
    casts: str
    weight_casts: str = ""
    calls: int = 1

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as shown."""
        kind = self.kind if self.calls == 1 else f"{self.kind} ({_times(self.calls)})"
        variable = f"{self.variable}, cast {self.weight_casts}" if self.weight_casts else self.variable
        return (self.name, kind, self.casts, self.compute, variable, self.inside, self.output)


@dataclass(frozen=True, repr=False)
class DtypeTable:
    """The dtypes of a model's layers, in the order in which they are called; prints as text, shows as a table.

    Attributes:
        rows: one `LayerDtypes` for each layer and bare operation, the model itself first.
        model: the model's name.
        policy: the model's own dtype policy, such as `"mixed_float16"`.
    """

    rows: tuple[LayerDtypes, ...]
    model: str
    policy: str

    def row(self, name: str) -> LayerDtypes:
        """The row of a layer, by its name or by the last part of it.

        Raises:
            ValueError: if no row, or more than one, goes by that name.
        """
        found = [r for r in self.rows if r.name == name] or [r for r in self.rows if r.name.endswith(f"/{name}")]
        if len(found) == 1:
            return found[0]
        if found:
            raise ValueError(f"{len(found)} layers are called {name!r}: say which, such as {found[0].name!r}.")
        names = ", ".join(r.name for r in self.rows[:8])
        raise ValueError(f"No layer is called {name!r}; there are {names}{' ...' if len(self.rows) > 8 else ''}.")

    def only(self, wanted: Callable[[LayerDtypes], bool]) -> DtypeTable:
        """The same table with those rows only for which `wanted(row)` is true."""
        return DtypeTable(tuple(r for r in self.rows if wanted(r)), self.model, self.policy)

    def picture(self, title: str = "") -> Any:
        """The layers as a road through dtypes, an `ampcourse.plots.Picture`; containers and unused layers left out.

        Raises:
            ValueError: if there are more than 40 layers: choose some with `only`.
        """
        from ampcourse.plots import dtype_lanes

        shown = [r for r in self.rows if r.output and (r.compute or r.kind == "InputLayer")]
        steps = [(r.name, r.output.rpartition(", ")[2], r.inside.rpartition("; ")[2].partition(":")[0]) for r in shown]
        return dtype_lanes(steps, title or f"The dtype of what each layer of {self.model!r} returns")

    @property
    def caption(self) -> str:
        """One line above the table."""
        count = "1 row" if len(self.rows) == 1 else f"{len(self.rows)} rows"
        return f"Dtypes in {self.model!r}, whose own policy is {self.policy}: {count}"

    def __str__(self) -> str:
        return f"{self.caption}\n{text_table(_COLUMNS, (r.cells for r in self.rows))}"

    __repr__ = __str__

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[LayerDtypes]:
        return iter(self.rows)

    def _repr_html_(self) -> str:
        return html_table(self.caption, _COLUMNS, (r.cells for r in self.rows))


def dtype_table(model: Any, sample: Any = None, *, training: bool = True) -> DtypeTable:
    """In which dtype every layer of a model casts, computes, keeps its variables and answers.

    The model's graph is traced as `fit` traces it, and read: what a layer is said to do is what its operations do.

    Args:
        model: a Keras 3 model or layer on the TensorFlow backend, built or not.
        sample: a batch (arrays or tensors, in the structure that the model takes), needed where the model is not
            built yet; it is built by calling it once. Its dtypes are those of the data; without a sample, float data
            is taken to be float32.
        training: trace what runs in training (the default) or at inference.

    Raises:
        TypeError: if `model` is no Keras 3 model or layer, or `training` no bool.
        ValueError: if it needs a sample, if the sample does not fit, or if the model cannot be traced here.
    """
    from ampcourse import quietly

    if not isinstance(training, bool):
        raise TypeError(f"training is True or False, not {training!r}.")
    with quietly():  # TensorFlow's first use, and what the model itself prints
        checked_layer(model, "dtype_table")
        arguments = call_arguments(model, sample, "dtype_table")
        try:
            uses = trace(model, arguments, training)
        except Exception as error:
            raise ValueError(failed(model, "dtype_table", error)) from None
    names = _names(uses)
    of_layer: dict[int, list[Use]] = {}
    for use in uses:
        of_layer.setdefault(id(use.layer), []).append(use)
    rows = [_row(names[key], used) for key, used in of_layer.items()]
    rows += [_unused(x) for x in _all_layers(model) if id(x) not in of_layer]
    return DtypeTable(tuple(rows), model.name, model.dtype_policy.name)


def _names(uses: Sequence[Use]) -> dict[int, str]:
    """Layer -> its name after those of the layers that first call it, the outermost model's own left out."""
    names = {id(uses[0].layer): uses[0].layer.name}
    for use in uses[1:]:
        outermost = use.parent is None or use.parent.layer is uses[0].layer
        prefix = "" if outermost else f"{names[id(use.parent.layer)]}/"
        names.setdefault(id(use.layer), prefix + use.layer.name)
    return names


def _row(name: str, uses: Sequence[Use]) -> LayerDtypes:
    import keras

    layer = uses[0].layer
    is_layer = isinstance(layer, keras.Layer)
    container = not is_layer or isinstance(layer, keras.Sequential) or _is_functional(layer)
    compute = "" if container or isinstance(layer, keras.layers.InputLayer) else layer.compute_dtype
    casts = [c for u in uses for c in (input_casts(u) if container and is_layer else u.casts())]
    inside = {} if container else _other_dtypes(uses, compute)
    return LayerDtypes(
        name=name,
        kind=type(layer).__name__,
        compute=compute,
        variable=_own_variables(layer) if is_layer else "",
        output=_joined(dtype_name(x) for u in uses for x in u.outputs),
        inside="; ".join(f"{dtype}: {_some(types)}" for dtype, types in inside.items()),
        casts=_joined(casts),
        weight_casts=_joined(c for u in uses for c in weight_casts(u)),
        calls=sum(u.graph is uses[0].graph for u in uses),  # the body of a loop is traced apart
    )


def _unused(layer: Any) -> LayerDtypes:
    """A layer that the model holds but does not call."""
    name = f"{layer.name} (not called)"
    return LayerDtypes(name, type(layer).__name__, layer.compute_dtype, _own_variables(layer), "", "", "", calls=1)


def _other_dtypes(uses: Sequence[Use], compute: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for use in uses:
        for dtype, types in runs_inside(use).items():
            if dtype != compute:
                found[dtype] = list(dict.fromkeys([*found.get(dtype, []), *types]))
    return {dtype: found[dtype] for dtype in FLOATS if dtype in found}


def _own_variables(layer: Any) -> str:
    """The dtypes of the variables that are the layer's own, not those of layers inside it."""
    inner = {id(v) for x in _all_layers(layer) if x is not layer for v in x.weights}
    return _joined(dtype_name(v) for v in layer.weights if id(v) not in inner)


def _all_layers(layer: Any) -> list[Any]:
    return [x for x in layer._flatten_layers() if type(x).__name__ != "InputLayer" and x is not None]


def _is_functional(layer: Any) -> bool:
    """A Functional model only hands on what its layers compute; a subclass of one may compute itself."""
    return type(layer).call.__qualname__ == "Functional.call"


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(parts))


def _some(types: Sequence[str]) -> str:
    more = len(types) - _SHOWN_TYPES
    return ", ".join(types[:_SHOWN_TYPES]) + (f" and {more} more" if more > 0 else "")


def _times(calls: int) -> str:
    return "called twice" if calls == 2 else f"called {calls} times"
