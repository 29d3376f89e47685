"""Checkpoints that survive being killed: written whole or not at all, the last two kept, damage noticed.

A checkpoint is one file with all variables (weights, optimizer slots, loss scale, averages, running metrics, states of
random generators) and a line of JSON that says where in the run it was taken: NumPy's `.npz`, and after it the SHA-256
of all that, so that a damaged file is told from a good one whatever happened to it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse.training.errors import TrainingError
from ampcourse.training.session import values

KEEP = 2
_WHERE = "__where__"


class _Damaged(Exception):
    """The file is not what was written."""


@dataclass
class Where:
    """How far a run is: `batch` batches of epoch `epoch` are done (both from 0), and `update` updates in all."""

    epoch: int = 0
    batch: int = 0
    update: int = 0
    best: float = 0.0
    best_epoch: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Checkpoint:
    """What was read: the place in the run, the arrays by name, and a sentence if a newer file was damaged."""

    where: Where
    arrays: dict[str, np.ndarray]
    says: str = ""


def write(folder: Path, where: Where, arrays: Mapping[str, np.ndarray]) -> Path:
    """Writes a checkpoint and removes all but the last two.

    The bytes go to a file of another name, reach the disk, and only then take the name of a checkpoint: whoever kills
    the process at any moment leaves the one before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"checkpoint-{where.update:09d}.ckpt"
    text = np.frombuffer(json.dumps(asdict(where)).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, **{_WHERE: text}, **arrays)
    replace(path, content.getbuffer(), hashlib.sha256(content.getbuffer()).digest())
    for old in files(folder)[:-KEEP]:
        old.unlink(missing_ok=True)
    return path


def replace(path: Path, *parts: Any) -> None:
    """Writes bytes, one after the other, to a file that is there whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        for content in parts:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)  # noqa: PTH105 the one call that is atomic by name


def files(folder: Path) -> list[Path]:
    """The checkpoints of a run, the oldest first."""
    return sorted(Path(folder).glob("checkpoint-*.ckpt"))


def clear(folder: Path) -> None:
    """Removes the checkpoints of an earlier run."""
    for path in files(folder):
        path.unlink(missing_ok=True)


def read(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole; None if there is no checkpoint at all.

    Raises:
        TrainingError: if there are checkpoints and none can be read.
    """
    damaged: list[Path] = []
    for path in reversed(files(folder)):
        try:
            where, arrays = _read(path)
        except (OSError, _Damaged):
            damaged.append(path)
            continue
        says = f"'{damaged[0]}' is damaged: the run goes on from the checkpoint before, {path.name}." if damaged else ""
        return Checkpoint(where, arrays, says)
    if damaged:
        raise TrainingError(
            f"No checkpoint in '{folder}' can be read ({len(damaged)} damaged): start again without --resume."
        )
    return None


def _read(path: Path) -> tuple[Where, dict[str, np.ndarray]]:
    content = path.read_bytes()
    content, digest = content[:-32], content[-32:]
    if hashlib.sha256(content).digest() != digest:
        raise _Damaged
    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    fields = json.loads(arrays.pop(_WHERE).tobytes())
    return Where(**fields), arrays


def gather(groups: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The values of groups of Keras variables, named group/number."""
    return {
        f"{group}/{i:05d}": values(variable)
        for group, variables in groups.items()
        for i, variable in enumerate(variables)
    }


def put_back(groups: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Assigns what `gather` gave.

    Raises:
        TrainingError: if the checkpoint holds other variables.
    """
    names = {f"{group}/{i:05d}": v for group, variables in groups.items() for i, v in enumerate(variables)}
    if set(names) != set(arrays) or any(tuple(v.shape) != arrays[name].shape for name, v in names.items()):
        raise TrainingError(
            "The checkpoint holds other variables than this model: it was written by another version of the course, so "
            "start again without --resume."
        )
    for name, variable in names.items():
        variable.assign(arrays[name])
