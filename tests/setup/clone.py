"""A clone in small: the real set-up, with a lock of one tiny wheel, so that a whole set-up takes seconds."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The set-up asks whether "numpy" is there, so that is what the tiny wheel is called.
WHEEL = "numpy-1.0-py3-none-any.whl"
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "small"
version = "1.0"
"""
# An in-tree build backend that installs one .pth file, as an editable install does.
BACKEND = """\
import zipfile

def build_editable(folder, settings=None, metadata=None):
    with zipfile.ZipFile(folder + "/small-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small.pth", "")
        wheel.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n")
        wheel.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("small-1.0.dist-info/RECORD", "")
    return "small-1.0-py3-none-any.whl"
"""

# A stand-in for Python's venv module that copies an environment that was made before: making one takes seconds.
QUICK_VENV = """\
import shutil, sys
shutil.copytree({made!r}, sys.argv[1], symlinks=True)
"""


def quick_venv(folder: Path) -> Path:
    """Make a real environment once; returns the folder for PYTHONPATH whose `venv` copies it."""
    made = folder / "made"
    subprocess.run([sys.executable, "-m", "venv", made], check=True, capture_output=True)
    (folder / "path" / "venv").mkdir(parents=True)
    (folder / "path" / "venv" / "__init__.py").touch()
    (folder / "path" / "venv" / "__main__.py").write_text(QUICK_VENV.format(made=str(made)))
    return folder / "path"


def write_wheel(folder: Path) -> str:
    """Write the tiny wheel; returns its SHA-256."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("numpy/__init__.py", "")
        wheel.writestr("numpy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: numpy\nVersion: 1.0\n")
        wheel.writestr("numpy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("numpy-1.0.dist-info/RECORD", "")
    return hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest()


def make_clone(folder: Path) -> Path:
    """A project with the real Makefile and set-up, and a lock that the wheel beside it satisfies."""
    digest = write_wheel(folder / "wheels")
    (folder / "tools").mkdir()
    for name in ("bootstrap.py", "setup_venv.py"):
        shutil.copy(ROOT / "tools" / name, folder / "tools" / name)
    shutil.copy(ROOT / "Makefile", folder / "Makefile")
    for name in ("requirements.lock", "requirements-jax.lock"):
        (folder / name).write_text(f"numpy==1.0 \\\n    --hash=sha256:{digest}\n")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND)
    return folder


def call(clone: Path, command: list[str] | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up (or another command) in the clone; pip sees the wheel beside it and nothing else."""
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "AMPCOURSE_", "MAKE"))}
    settings |= {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": (clone / "wheels").as_uri(),
        "PIP_NO_CACHE_DIR": "1",
    }
    settings = {key: value for key, value in (settings | environment).items() if value}
    command = command or [sys.executable, "tools/bootstrap.py"]
    return subprocess.run(command, cwd=clone, env=settings, capture_output=True, text=True, timeout=300, check=False)


def copy_of_the_clone(target: Path) -> Path:
    """The files of this clone as they are now, also those not committed yet, without what was made at work."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    if listed.returncode or not names:  # unpacked from an archive, so nothing says what was made at work
        ignored = shutil.ignore_patterns(".venv*", "__pycache__", ".*_cache", "results*", "learner", "build", "dist")
        return Path(shutil.copytree(ROOT, target, ignore=ignored))
    for name in names:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target
