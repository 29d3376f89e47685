"""`results.json`: written whole or not at all, and read back with every field checked."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from pathlib import Path
from typing import Any

from ampcourse.bench.plan import BenchError
from ampcourse.bench.shape import FORMAT, VERSION, Report

RESULTS = "results.json"


def load(path: str | Path) -> Report:
    """The results of a benchmark, from its folder or its results.json.

    Raises:
        BenchError: if there is none, or the file is damaged, foreign or of a newer version; one sentence.
    """
    path = Path(path)
    path = path / RESULTS if path.is_dir() else path
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise BenchError(f"There is no '{path}': measure first with 'ampcourse bench --out DIR'.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BenchError(f"'{path}' cannot be read as results of a benchmark ({type(error).__name__}).") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BenchError(f"'{path}' holds no results of 'ampcourse bench': name another file.")
    if content.get("version") != VERSION:
        raise BenchError(
            f"'{path}' has the format's version {content.get('version')!r}, and this ampcourse reads {VERSION}."
        )
    try:
        report = _read(Report, content, "")
        if any(not 0 <= one.session < len(report.sessions) for model in report.models for one in (model, *model.parts)):
            raise ValueError("a model names a session that is not there")
    except ValueError as error:
        raise BenchError(f"'{path}' is damaged: {error}.") from None
    return report


def save(report: Report, out: Path) -> Path:
    """Write results.json into a folder; what was there before stays until the new file is whole.

    Raises:
        UserError: if the disk is full or the folder refuses.
    """
    from ampcourse.reproduce.files import write

    text = json.dumps(dataclasses.asdict(report), indent=1, allow_nan=False)
    write(out / RESULTS, text + "\n")
    return out / RESULTS


def _read(kind: Any, value: Any, where: str) -> Any:
    """A value of this kind out of what JSON holds; every number finite, no field unknown or missing."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _read(inner[0], value, where)
    if dataclasses.is_dataclass(kind):
        return _read_object(kind, value, where)
    if origin is tuple:
        _expect(value, list, where)
        return tuple(_read(inner[0], one, f"{where}[{place}]") for place, one in enumerate(value))
    if origin is dict:
        _expect(value, dict, where)
        return {key: _read(inner[1], one, f"{where}.{key}") for key, one in value.items()}
    if kind is float:
        _expect(value, (int, float), where)
        if not math.isfinite(value):
            raise ValueError(f"'{where}' is not finite")
        return float(value)
    _expect(value, kind, where)
    return value


def _read_object(kind: Any, value: Any, where: str) -> Any:
    _expect(value, dict, where)
    hints = typing.get_type_hints(kind)
    fields = {one.name: one for one in dataclasses.fields(kind)}
    if unknown := sorted(set(value) - set(fields)):
        raise ValueError(f"'{where or 'the file'}' has the unknown field '{unknown[0]}'")
    for name, one in fields.items():
        has_default = one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
        if name not in value and not has_default:
            raise ValueError(f"'{where or 'the file'}' lacks the field '{name}'")
    return kind(**{name: _read(hints[name], one, f"{where}.{name}".lstrip(".")) for name, one in value.items()})


def _expect(value: Any, kind: Any, where: str) -> None:
    wrong = isinstance(value, bool) and kind is not bool
    if wrong or not isinstance(value, kind):
        raise ValueError(f"'{where}' is not of the right kind ({type(value).__name__})")
