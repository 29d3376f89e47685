"""The history outside the notebook: a CSV file that grows, or a folder that TensorBoard reads."""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Callable
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
        log = kind(_free(target, kind.holds_a_run), every)
        log.moved = target if log.path != target else None
        return log
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"The log '{target}' cannot be written: {reason}.") from None


def _free(path: Path, taken: Callable[[Path], bool]) -> Path:
    """The path, with -2, -3, ... before its ending where a run is there already."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if not taken(one))


class Log:
    """Takes the history again and again and writes what is new: each `every`-th step, and all non-finite ones."""

    path: Path
    moved: Path | None = None
    """The path that was asked for, if there was a run already."""

    def __init__(self, every: int) -> None:
        self.every, self._written = every, 0

    @staticmethod
    def holds_a_run(path: Path) -> bool:
        """Whether something is there that must not be written over."""
        raise NotImplementedError

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

    @staticmethod
    def holds_a_run(path: Path) -> bool:
        """Anything but a file without a line below the header: such a one was made by a monitor that saw no step."""
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline().strip() not in ("", ",".join(COLUMNS)) or bool(file.readline())

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

    @staticmethod
    def holds_a_run(path: Path) -> bool:
        """A folder with an event file: TensorBoard would draw both runs as one curve."""
        return path.is_dir() and any(path.glob("events.out.tfevents.*"))

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
