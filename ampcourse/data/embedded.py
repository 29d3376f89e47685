"""The pictures that travel with the course: 10,000 + 2,000 of Fashion-MNIST, ten balanced classes, no download.

Source: Xiao, Rasul and Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms",
2017 (arXiv:1708.07747), MIT licence. `data/DATASHEET.md` says what is in it and how it was drawn.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np

from ampcourse.course import UserError

CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
FILE_NAME = "fashion_mnist.npz"
SHA256 = "a72fb1bc971b9125e62595633d4e702106eb1e50278c743109d8f429d5f495be"
# Mean and standard deviation of the 10,000 training pictures, grey values in [0, 1]; a test recomputes them.
MEAN, STD = 0.286105, 0.353626
_PACKAGE = Path(__file__).resolve().parents[1]

Part = tuple[np.ndarray, np.ndarray]


class DataError(UserError):
    """Data cannot be had or used as asked: unknown, missing, damaged, not to be downloaded, or too little of it."""


def data_root() -> Path:
    """The clone's `data/` where the package lies in a clone, else the copy that travels in the wheel."""
    clone = _PACKAGE.parent / "data"
    # A folder called "data" beside an installed package belongs to somebody else; the datasheet tells them apart.
    return clone if (clone / "DATASHEET.md").is_file() else _PACKAGE / "_bundled" / "data"


def load(normalise: bool = True, folder: Path | None = None) -> tuple[Part, Part]:
    """Read the training and the test part.

    Args:
        normalise: True gives standardised pictures: grey values from 0 to 1, minus the training part's mean, over its
            standard deviation (so about -0.81 to 2.02, without unit). False gives the grey values from 0 to 1.
        folder: where `fashion_mnist.npz` lies; default: the copy that came with the course.

    Returns:
        `(x_train, y_train), (x_test, y_test)`: pictures float32 of shape (10000, 28, 28, 1) and (2000, 28, 28, 1);
        labels int64 of shape (10000,) and (2000,), 0 to 9, named by `CLASS_NAMES`. Each call returns fresh arrays.

    Raises:
        DataError: if the file is missing, unreadable or damaged.
    """
    (x_train, y_train), (x_test, y_test) = grey_values(folder)
    return (_prepare(x_train, normalise), y_train), (_prepare(x_test, normalise), y_test)


def grey_values(folder: Path | None = None) -> tuple[Part, Part]:
    """As `load`, but the pictures are the stored uint8 values, 0 to 255.

    Raises:
        DataError: if the file is missing, unreadable or damaged.
    """
    content = _read((Path(folder) if folder is not None else data_root()) / FILE_NAME)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        train = arrays["x_train"][..., np.newaxis], arrays["y_train"].astype(np.int64)
        test = arrays["x_test"][..., np.newaxis], arrays["y_test"].astype(np.int64)
    return train, test


def _read(path: Path) -> bytes:
    """The bytes of the file, once they are known to be the ones that were shipped."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"The data file '{path}' is missing: fetch it again (git checkout, or reinstall).") from None
    except OSError as error:
        raise DataError(f"The data file '{path}' cannot be read: {error.strerror}.") from None
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise DataError(f"The data file '{path}' is damaged: fetch it again (git checkout, or reinstall).")
    return content


def _prepare(images: np.ndarray, normalise: bool) -> np.ndarray:
    grey = images.astype(np.float32) / np.float32(255)
    return (grey - np.float32(MEAN)) / np.float32(STD) if normalise else grey
