"""The last weights that were finite: kept on the host while a run goes on, written to a file when it ends."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

COST = 0.02  # at most this share of the run is spent on copying weights


def check_path(path: Any) -> Path:
    """Where to save.

    Raises:
        ValueError: for an ending that Keras does not write, or a folder that cannot be written to.
    """
    try:
        target = Path(path).expanduser()
    except TypeError:
        raise ValueError(f"save must be a path, such as 'good.weights.h5', not {type(path).__name__}.") from None
    if not target.name.endswith((".weights.h5", ".keras")):
        raise ValueError(f"save='{path}' must end in .weights.h5 (the weights) or in .keras (the whole model).")
    if not target.parent.is_dir():
        raise ValueError(f"The folder '{target.parent}' for the saved weights does not exist: create it first.")
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"The folder '{target.parent}' for the saved weights cannot be written to.")
    return target


class Rescue:
    """Copies of all variables of a model while they are finite."""

    def __init__(self, model: Any, path: Path | None, everything: bool) -> None:
        """With `everything` all weights are kept; else only those that are not trained, which are few."""
        self.model, self.path = model, path
        self.kept = model.variables if everything else model.non_trainable_variables
        self._copies: list[np.ndarray] | None = None
        self._spent, self._started = 0.0, time.monotonic()

    def keep(self, force: bool = False) -> None:
        """A copy of what is now, unless copying has already cost too much of the run."""
        now = time.monotonic()
        if not force and self._spent > COST * (now - self._started):
            return
        self._copies = [v.numpy() for v in self.kept]
        self._spent += time.monotonic() - now

    def restore(self) -> list[str]:
        """Puts back the copies of variables that are no longer finite; returns their names."""
        mended = []
        for variable, copy in zip(self.kept, self._copies or [], strict=False):
            if copy.dtype.kind not in "iub" and not np.isfinite(variable.numpy().astype(np.float64)).all():
                variable.assign(copy)
                mended.append(variable.path)
        return mended

    def write(self) -> None:
        """The last finite weights to the file; the model itself stays as it is."""
        if self.path is None:
            return
        now = [v.numpy() for v in self.kept]
        mended = self.restore()
        try:
            self._write(self.path)
        finally:
            for variable, value in zip(self.kept, now, strict=True) if mended else ():
                variable.assign(value)

    def _write(self, path: Path) -> None:
        if path.name.endswith(".weights.h5"):
            self.model.save_weights(path, overwrite=True)
        else:
            self.model.save(path, overwrite=True)
