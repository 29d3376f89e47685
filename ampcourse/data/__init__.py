"""Pictures to train on: what travels with the course, and larger sets by name; batches for any backend."""

from ampcourse.data.embedded import CLASS_NAMES, FILE_NAME, MEAN, SHA256, STD, DataError, data_root, load
from ampcourse.data.in_numpy import Batches, batches
from ampcourse.data.in_tensorflow import pipeline
from ampcourse.data.known import Source, sources
from ampcourse.data.loading import pictures
from ampcourse.data.splits import Jpegs, Pictures, Split
from ampcourse.data.waiting import Wait, input_wait

__all__ = [
    "CLASS_NAMES",
    "FILE_NAME",
    "MEAN",
    "SHA256",
    "STD",
    "Batches",
    "DataError",
    "Jpegs",
    "Pictures",
    "Source",
    "Split",
    "Wait",
    "batches",
    "data_root",
    "input_wait",
    "load",
    "pictures",
    "pipeline",
    "sources",
]
