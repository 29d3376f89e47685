"""Make `data/fashion_mnist.npz`, the class-balanced part of Fashion-MNIST that travels with the course.

The source is the Debian package dataset-fashion-mnist (MIT licence), known by its SHA-256:

    apt-get download dataset-fashion-mnist
    python tools/make_data.py dataset-fashion-mnist_*.deb

The same package and seed give the same arrays on every machine. The bytes of the file also depend on the version of
zlib, so `--check` compares the arrays, not the file.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np

PACKAGE_SHA256 = "39e172fe32dd318ebb3e512220c3beea2fa47d7e20bab348fb4e0922d6beefc0"
FOLDER = "./usr/share/datasets/fashion-mnist/"
PARTS = {"train": ("train", 1000), "test": ("t10k", 200)}  # name: (prefix of the original files, pictures a class)
CLASSES = 10
SEED = 20170825
TARGET = Path(__file__).resolve().parent.parent / "data" / "fashion_mnist.npz"


def read_package(path: Path) -> dict[str, bytes]:
    """The four uncompressed idx files of the Debian package, by name; stops unless the package is the known one."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        sys.exit(f"The package '{path}' cannot be read ({error.strerror}): fetch it with apt-get download.")
    if digest != PACKAGE_SHA256:
        sys.exit(f"'{path}' is not the package that the data came from: its SHA-256 is {digest}.")
    try:
        unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"dpkg-deb could not unpack '{path}': {error}.")
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        names = [name for name in archive.getnames() if name.startswith(FOLDER) and name.endswith(".gz")]
        return {Path(name).stem: gzip.decompress(archive.extractfile(name).read()) for name in names}


def read_idx(content: bytes) -> np.ndarray:
    """One idx file of unsigned bytes: two zeros, the type 8, the number of axes, their lengths, then the values."""
    axes = content[3]
    if content[:3] != b"\0\0\x08":
        raise ValueError("not an idx file of unsigned bytes")
    shape = np.frombuffer(content, ">i4", count=axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def choose(labels: np.ndarray, each: int, random: np.random.RandomState) -> np.ndarray:
    """Positions of `each` pictures of every class, in their original order, int32."""
    drawn = [random.choice(np.flatnonzero(labels == label), each, replace=False) for label in range(CLASSES)]
    return np.sort(np.concatenate(drawn)).astype(np.int32)


def make(files: dict[str, bytes]) -> dict[str, np.ndarray]:
    """The arrays of the subset: pictures uint8 (n, 28, 28), labels uint8 (n,), positions in the original int32 (n,)."""
    # RandomState and not default_rng: only its stream is promised to stay the same in every version of numpy.
    random = np.random.RandomState(SEED)
    arrays = {}
    for part, (prefix, each) in PARTS.items():
        images = read_idx(files[f"{prefix}-images-idx3-ubyte"])
        labels = read_idx(files[f"{prefix}-labels-idx1-ubyte"])
        index = choose(labels, each, random)
        arrays |= {f"x_{part}": images[index], f"y_{part}": labels[index], f"index_{part}": index}
    return arrays


def main(arguments: list[str] | None = None) -> None:
    """Write the file and its checksum, or with `--check` compare the file that is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path, help="the file dataset-fashion-mnist_...deb")
    parser.add_argument("--check", action="store_true", help="write nothing; compare with the file that is there")
    parser.add_argument("--target", type=Path, default=TARGET, help="the file to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    arrays = make(read_package(options.package))
    if options.check:
        with np.load(options.target) as there:
            same = sorted(there) == sorted(arrays) and all(np.array_equal(there[name], arrays[name]) for name in arrays)
        sys.exit(0 if same else f"'{options.target}' does not hold what the package and the seed give.")
    np.savez_compressed(options.target, **arrays)
    digest = hashlib.sha256(options.target.read_bytes()).hexdigest()
    options.target.with_name("SHA256SUMS").write_text(f"{digest}  {options.target.name}\n", "utf-8")
    print(f"{options.target}: {options.target.stat().st_size} bytes, SHA-256 {digest}")


if __name__ == "__main__":
    main()
