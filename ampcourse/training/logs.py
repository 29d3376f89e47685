"""What a run writes for later: one row an epoch as CSV, and for TensorBoard where TensorFlow is there."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import keras

from ampcourse.training.checkpoint import replace

CSV_NAME = "log.csv"
COLUMNS = (
    "epoch",
    "update",
    "loss",
    "accuracy",
    "test_loss",
    "test_accuracy",
    "learning_rate",
    "loss_scale",
    "skipped",
    "seconds",
)
NO_TENSORBOARD = "TensorBoard logs are written on the TensorFlow backend alone: log.csv has the same numbers."


def write_csv(folder: Path, history: list[dict[str, Any]]) -> None:
    """The whole history, written anew: after a resume it holds each epoch once."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / CSV_NAME, text.getvalue().encode())


class Board:
    """Writes the numbers of each epoch for TensorBoard, with TensorFlow's own writer."""

    def __init__(self, folder: Path | None) -> None:
        """With no folder, or on another backend than TensorFlow, nothing is written."""
        self.says = ""
        self._writer: Any = None
        if folder is None:
            return
        if keras.backend.backend() != "tensorflow":
            self.says = NO_TENSORBOARD
            return
        import tensorflow as tf

        self._writer = tf.summary.create_file_writer(str(folder / "tensorboard"))

    def write(self, row: dict[str, Any]) -> None:
        """One epoch, at the place of its last update."""
        if self._writer is None:
            return
        import tensorflow as tf

        # tf.summary.scalar needs the package tensorboard, which only the reader of the log has to have.
        kind = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        metadata = tf.compat.v1.SummaryMetadata(plugin_data=kind)
        with self._writer.as_default(), tf.summary.record_if(True):
            for name in COLUMNS[2:]:
                number = tf.constant(row[name], tf.float32)
                tf.summary.write(name, number, step=int(row["update"]), metadata=metadata)
        self._writer.flush()

    def close(self) -> None:
        """No more to come."""
        if self._writer is not None:
            self._writer.close()
