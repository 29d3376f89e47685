"""The history outside the notebook: a CSV file that grows, or a folder that TensorBoard reads."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = (
    "step",
    "scale",
    "skipped",
    "nonfinite",
    "nan",
    "variables",
    "norm",
    "largest",
    "flushed",
    "subnormal",
    "update_ratio",
    "unmoved",
)


def open_log(path: Any, every: int) -> Log:
    """The log for a path: a CSV file if it ends in .csv, else a folder for TensorBoard.

    Raises:
        ValueError: if it cannot be written.
    """
    if path == "":
        raise ValueError("log is empty: give a path that ends in .csv, or a folder for TensorBoard.")
    try:
        target = Path(path).expanduser()
    except TypeError:
        raise ValueError(f"log must be a path, such as 'run.csv' or a folder, not {type(path).__name__}.") from None
    kind = CsvLog if target.suffix.lower() == ".csv" else TensorBoardLog
    try:
        return kind(target, every)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"The log '{target}' cannot be written: {reason}.") from None


class Log:
    """Takes the history again and again and writes what is new: each `every`-th step, and all non-finite ones."""

    def __init__(self, every: int) -> None:
        self.every, self._written = every, 0

    def restart(self) -> None:
        """A new run, whose steps count from 1 again."""
        self._written = 0

    def write(self, history: dict[str, np.ndarray], last: bool = False) -> None:
        """Write the steps that are new; the newest waits for its neighbour, which says what it did, until the last."""
        steps = history["step"]
        end = steps.size if last else steps.size - 1
        new = [i for i in range(end) if steps[i] > self._written]
        if not new:
            return
        self._written = int(steps[new[-1]])
        chosen = [i for i in new if steps[i] % self.every == 0 or history["nonfinite"][i] or steps[i] == 1]
        self._put([{name: _plain(history[name][i]) for name in COLUMNS} for i in chosen])

    def _put(self, rows: list[dict[str, Any]]) -> None:
        raise NotImplementedError


class CsvLog(Log):
    """One line a step; opened and closed at each writing, so that an interrupted run leaves a whole file."""

    def __init__(self, path: Path, every: int) -> None:
        super().__init__(every)
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(COLUMNS)

    def _put(self, rows: list[dict[str, Any]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS)
        writer.writerows(rows)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            file.write(text.getvalue())


class TensorBoardLog(Log):
    """Scalars under `gradients/`."""

    def __init__(self, path: Path, every: int) -> None:
        super().__init__(every)
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise OSError("the folder is not writable")
        self.path, self._writer = path, None

    def _put(self, rows: list[dict[str, Any]]) -> None:
        import tensorflow as tf

        # tf.summary.scalar needs the package tensorboard, which only the reader of the log has to have.
        kind = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        metadata = tf.compat.v1.SummaryMetadata(plugin_data=kind)
        self._writer = self._writer or tf.summary.create_file_writer(str(self.path))
        with self._writer.as_default(), tf.summary.record_if(True):
            for row in rows:
                for name in COLUMNS[1:]:
                    if not np.isnan(row[name]):
                        number = tf.constant(row[name], tf.float32)
                        tf.summary.write(f"gradients/{name}", number, step=row["step"], metadata=metadata)
        self._writer.flush()


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer | np.bool_) else float(value)
