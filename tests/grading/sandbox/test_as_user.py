"""Root's sandboxes differ from an ordinary user's: where root runs the tests, the attacks are tried from both."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_talk import PATIENCE

pytestmark = pytest.mark.sandbox

CLONE = Path(__file__).resolve().parents[3]
NOBODY = 65_534


def _closed(path: Path) -> Path | None:
    """The outermost folder on the way to a path that others may not enter."""
    for folder in reversed(path.parents):
        if not folder.stat().st_mode & 0o001:
            return folder
    return None


def _opened(needed: list[Path]) -> list[str]:
    """Shell commands that show each needed folder to others in a mount namespace of its own; nothing else changes."""
    lines, hidden = ["set -e", "mount -t tmpfs tmpfs /mnt"], {}
    for number, path in enumerate(needed):
        if (closed := _closed(path)) is not None:
            lines += [f"mkdir /mnt/{number}", f"mount --bind {shlex.quote(str(path))} /mnt/{number}"]
            hidden.setdefault(closed, []).append((number, path))
    for closed, inside in hidden.items():
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(closed))}")
        for number, path in inside:
            lines += [f"mkdir -p {shlex.quote(str(path))}", f"mount --bind /mnt/{number} {shlex.quote(str(path))}"]
    return lines


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that the other user can reach, as pytest's own cannot be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(["test_attempts.py"], id="attempts"),
        pytest.param(["test_deadly.py", "test_starters.py", "test_probe.py"], id="the rest", marks=pytest.mark.full),
    ],
)
def test_the_attacks_come_to_nothing_from_an_ordinary_users_sandbox(tests: list[str], open_folder: Path) -> None:
    if os.geteuid() != 0:
        return  # this whole suite is run by one
    needed = [Path(sys.base_prefix).resolve(), Path(sys.prefix), CLONE]
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={open_folder}/theirs",
    ]
    run += [str(Path(__file__).parent / name) for name in tests]
    become = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    ]
    lines = [*_opened(needed), f"cd {shlex.quote(str(CLONE))}", f"exec {shlex.join([*become, *run])}"]
    # As in CI, where a test that needs a sandbox may not be skipped.
    surroundings = {**os.environ, "AMPCOURSE_CI": "1", "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/tmp"}
    result = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        env=surroundings,
        timeout=300 * PATIENCE,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
