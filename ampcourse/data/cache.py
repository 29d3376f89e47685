"""Fetched data sets on disk: written whole or not at all, and checked whenever they are read."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ampcourse.data.embedded import DataError
from ampcourse.data.known import Source
from ampcourse.data.splits import Jpegs, Pictures, Split

VARIABLE = "AMPCOURSE_CACHE"
ABOUT = "about.json"
LAYOUT = 1  # of the files; raise it when they change, so that older copies are not misread
_NOTE = "Made by ampcourse from what was downloaded; safe to delete."


def cache_folder(given: str | Path | None = None) -> Path:
    """Where fetched data sets are kept: the folder given, else `$AMPCOURSE_CACHE`, else the user's cache folder."""
    named = given or os.environ.get(VARIABLE)
    if named:
        with contextlib.suppress(RuntimeError):  # no such user
            return Path(named).expanduser()
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("ampcourse", appauthor=False))


def read(source: Source, cache: Path) -> Pictures | None:
    """The kept data set, or None if there is none.

    Raises:
        DataError: if what is kept is not what was written.
    """
    folder = cache / source.name
    if not folder.is_dir():
        return None
    again = f"delete that folder, and fetch {source.title} again"
    try:
        about = json.loads((folder / ABOUT).read_text("utf-8"))
        if about["layout"] != LAYOUT:
            raise DataError(f"'{folder}' was written by another version of the course: {again}.")
        for name, digest in about["sha256"].items():
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    raise ValueError(name)
        train, test = (_read_split(folder, part) for part in ("train", "test"))
        return Pictures(source, train, test, tuple(about["mean"]), tuple(about["std"]))
    except PermissionError as error:
        raise DataError(f"'{error.filename}' may not be read: change its permissions.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"The copy in '{folder}' is damaged: {again}.") from None


def _read_split(folder: Path, part: str) -> Split:
    images, labels = (np.load(folder / f"{part}_{kind}.npy", mmap_mode="r") for kind in ("images", "labels"))
    if (ends := folder / f"{part}_ends.npy").exists():
        images = Jpegs(images, np.load(ends))
    return Split(images, np.asarray(labels))


def write(source: Source, cache: Path, train: Split, test: Split) -> None:
    """Keep a data set. Whoever reads meanwhile, or after an interruption, sees all of it or nothing."""
    with workspace(cache, source.name) as work:
        for part, split in (("train", train), ("test", test)):
            images = split.images
            if split.encoded:
                np.save(work / f"{part}_ends.npy", np.cumsum([len(one) for one in images]))
                images = np.frombuffer(b"".join(images), np.uint8)
            np.save(work / f"{part}_images.npy", images)
            np.save(work / f"{part}_labels.npy", split.labels.astype(np.int64))
        digests = {}
        for path in sorted(work.iterdir()):
            with path.open("rb") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
        mean, std = (source.mean, source.std) if source.mean else _moments(train.images)
        about = {"note": _NOTE, "layout": LAYOUT, "title": source.title, "licence": source.licence}
        about |= {"mean": mean, "std": std, "sha256": digests}
        (work / ABOUT).write_text(json.dumps(about, indent=1) + "\n", "utf-8")
        try:
            work.replace(cache / source.name)
        except OSError:
            # Another process was faster; what it wrote is checked when it is read.
            if not (cache / source.name).is_dir():
                raise


def _moments(images: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, grey values in [0, 1], from how often each value occurs."""
    values = np.arange(256) / 255
    means, deviations = [], []
    for channel in range(images.shape[-1]):
        share = np.bincount(images[..., channel].ravel(), minlength=256) / images[..., channel].size
        mean = float(share @ values)
        means.append(mean)
        deviations.append(float(np.sqrt(share @ (values - mean) ** 2)))
    return tuple(means), tuple(deviations)


@contextlib.contextmanager
def workspace(cache: Path, name: str) -> Iterator[Path]:
    """A folder beside the kept data sets to work in; gone afterwards, whatever happens, unless it was renamed."""
    cache.mkdir(parents=True, exist_ok=True)
    _sweep(cache, name)
    work = Path(tempfile.mkdtemp(prefix=f"{_mark(name)}{os.getpid()}.", dir=cache))
    work.chmod(0o755)  # mkdtemp's 0700 would keep others from a shared cache
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _mark(name: str) -> str:
    """How the names of this machine's working folders begin; a cache may be shared between machines."""
    return f".{name}.{platform.node() or 'here'}."


def _sweep(cache: Path, name: str) -> None:
    """Remove what processes of this machine that were killed have left."""
    import psutil

    for left in cache.glob(f"{glob.escape(_mark(name))}*"):
        pid = left.name.split(".")[-2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
