"""The downloads: keras.datasets and tensorflow-datasets fetch and check them; here they get one form."""

from __future__ import annotations

import errno
import gzip
import hashlib
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ampcourse.data.cache import workspace, write
from ampcourse.data.embedded import DataError
from ampcourse.data.known import Source
from ampcourse.data.splits import Split

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
# SHA-256 of the pictures of both parts of Fashion-MNIST, one after the other, without the files' headers. The .gz files
# differ between places, for they hold names and times; this is the content of Debian's, which has Zalando's pictures.
FASHION = {
    "train": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
    "test": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
}
_ELSEWHERE = "name another folder in AMPCOURSE_CACHE"
_INSTALL = "pip install 'ampcourse[datasets]'"
EUROSAT_TEST = 5  # every fifth picture of a class, in the order of the files' names, is for testing

Parts = tuple[Split, Split]


class _Damaged(Exception):
    """What was fetched is not what it should be; says what."""


def fetch(source: Source, cache: Path) -> None:
    """Download a data set and keep it in `cache`; all of it or, however this ends, nothing.

    Raises:
        DataError: no connection, no room, a damaged download or a missing library, in one sentence each.
    """
    try:
        _check_room(source, cache)
        with workspace(cache, source.name) as work:
            write(source, cache, *_checked(source, _FETCHERS[source.name](work)))
    except DataError:
        raise
    except Exception as error:
        raise DataError(_sentence(source, cache, error)) from error


def from_debian(source: Source) -> Parts | None:
    """Fashion-MNIST from the Debian package dataset-fashion-mnist, or None where that is not installed.

    Raises:
        DataError: if the package's files are damaged.
    """
    if not DEBIAN.is_dir():
        return None
    try:
        parts = (_idx_split(DEBIAN, prefix) for prefix in ("train", "t10k"))
        return _checked(source, tuple(parts))
    except (OSError, EOFError, ValueError, zlib.error, _Damaged):
        again = "install it again (apt-get install --reinstall dataset-fashion-mnist)"
        raise DataError(f"The Debian package's files in '{DEBIAN}' are damaged: {again}.") from None


def _idx_split(folder: Path, prefix: str) -> Split:
    """Pictures and labels of one part; the files hold a header, 4 bytes and 4 more for each axis, and then values."""
    with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)
    with gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return Split(images, labels.astype(np.int64))


def _from_keras(name: str) -> Callable[[Path], Parts]:
    def fetched(work: Path) -> Parts:
        import keras

        # Keras keeps its own copy in ~/.keras (or $KERAS_HOME), and downloads only what is not there.
        return tuple(_plain(*part) for part in getattr(keras.datasets, name).load_data())

    return fetched


def _plain(images: np.ndarray, labels: np.ndarray) -> Split:
    """As documented: an axis for channels, labels in one row."""
    images = images if images.ndim == 4 else images[..., np.newaxis]
    return Split(np.ascontiguousarray(images, np.uint8), labels.reshape(-1).astype(np.int64))


def _eurosat(work: Path) -> Parts:
    rows = sorted(_from_tfds("eurosat/rgb", "train", work, encoded=False), key=lambda row: row["filename"])
    whole = Split(np.stack([row["image"] for row in rows]), np.array([row["label"] for row in rows], np.int64))
    test = np.zeros(len(rows), bool)
    for label in np.unique(whole.labels):
        test[np.flatnonzero(whole.labels == label)[::EUROSAT_TEST]] = True
    return whole.only(np.flatnonzero(~test)), whole.only(np.flatnonzero(test))


def _imagenette(work: Path) -> Parts:
    def part(name: str) -> Split:
        rows = list(_from_tfds("imagenette/320px-v2", name, work, encoded=True))
        return Split([row["image"] for row in rows], np.array([row["label"] for row in rows], np.int64))

    return part("train"), part("validation")


def _from_tfds(name: str, split: str, work: Path, encoded: bool) -> Iterator[dict[str, Any]]:
    """The examples of a part, in an order that is always the same; pictures as JPEG files if `encoded`."""
    import tensorflow_datasets as tfds

    _check_connection(_HOSTS[name])
    builder = tfds.builder(name, data_dir=work)
    builder.download_and_prepare()
    decoders = {"image": tfds.decode.SkipDecoding()} if encoded else None
    order = tfds.ReadConfig(interleave_cycle_length=1)
    return iter(tfds.as_numpy(builder.as_dataset(split=split, decoders=decoders, read_config=order)))


def _check_connection(hosts: tuple[str, ...]) -> None:
    """One host that answers is enough. Without any, tensorflow-datasets would try again for three minutes."""
    import requests

    for host in hosts:
        try:
            requests.head(host, timeout=10)
            return
        except requests.RequestException as error:
            last = error
    raise last


# Where tensorflow-datasets downloads from: its own copies if it has them, then the authors' host.
_HOSTS = {
    "eurosat/rgb": ("https://storage.googleapis.com", "http://madm.dfki.de"),
    "imagenette/320px-v2": ("https://storage.googleapis.com", "https://s3.amazonaws.com"),
}

_FETCHERS = {
    "fashion_mnist": _from_keras("fashion_mnist"),
    "cifar10": _from_keras("cifar10"),
    "eurosat": _eurosat,
    "imagenette": _imagenette,
}


def _checked(source: Source, parts: Parts) -> Parts:
    """The parts, if they hold as many pictures of the classes, shape and content as they should."""
    for name, split, count in zip(("train", "test"), parts, (source.train, source.test), strict=True):
        if len(split.images) != count or len(split.labels) != count:
            raise _Damaged(f"{len(split.images)} pictures for {name} instead of {count}")
        if not split.encoded and split.images.shape[1:] != source.shape:
            raise _Damaged(f"pictures of shape {split.images.shape[1:]} instead of {source.shape}")
        if set(np.unique(split.labels)) != set(range(len(source.classes))):
            raise _Damaged("labels of other classes")
        if source.name == "fashion_mnist" and hashlib.sha256(split.images).hexdigest() != FASHION[name]:
            raise _Damaged(f"other pictures for {name}")
    return parts


def _check_room(source: Source, cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"'{cache}' cannot be made ({error.strerror}): {_ELSEWHERE}.") from None
    free = shutil.disk_usage(cache).free // 10**6
    if free < source.disk:
        raise DataError(_full(source, cache, f", and there are {free}"))


def _full(source: Source, cache: Path, there: str = "") -> str:
    needs = f"fetching {source.title} takes {source.disk} MB for a while{there}"
    return f"The disk of '{cache}' is full ({needs}): make room, or {_ELSEWHERE}."


def _sentence(source: Source, cache: Path, error: Exception) -> str:
    """What went wrong, for a person."""
    causes = list(_causes(error))
    if any(isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT) for cause in causes):
        return _full(source, cache)
    if missing := [cause for cause in causes if isinstance(cause, ImportError)]:
        return f"Fetching {source.title} needs a library that is not here ({missing[0]}): {_INSTALL}."
    if any(isinstance(cause, PermissionError) for cause in causes):
        return f"'{cache}' cannot be written: {_ELSEWHERE}."
    if any(_is_damage(cause) for cause in causes):
        says = next((str(cause) for cause in causes if isinstance(cause, _Damaged)), "its checksum is another one")
        keras = "delete its copy in ~/.keras/datasets (or $KERAS_HOME) and " if "keras" in source.how else ""
        return f"What was downloaded of {source.title} is damaged ({says}): {keras}fetch it again."
    other = f"try again later, or copy '{cache / source.name}' from a machine that has it"
    return f"{source.title} cannot be downloaded, perhaps for want of a connection ({_reason(causes)}): {other}."


def _reason(causes: list[BaseException]) -> str:
    """What the system said, in the system's words; else the first line of what the library said."""
    inner = [getattr(cause, "reason", cause) for cause in causes]
    words = [cause.strerror for cause in inner if isinstance(cause, OSError) and cause.strerror]
    first = next((line for line in str(causes[0]).splitlines() if line.strip()), type(causes[0]).__name__)
    return words[-1] if words else first[:120].rstrip(".")


def _is_damage(error: BaseException) -> bool:
    kinds = (_Damaged, EOFError, gzip.BadGzipFile, zlib.error)
    return isinstance(error, kinds) or "hash" in str(error) or "Checksum" in type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
