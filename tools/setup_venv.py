"""Make `.venv` hold what the lock names and the course itself; do nothing where it does so already.

With the argument jax it makes `.venv-jax` instead, from requirements-jax.lock: Keras on JAX, without TensorFlow. A
stamp in the environment says what was installed. A set-up that was cut short leaves no stamp and is done anew.
Everything that can go wrong on a user's machine ends in one sentence.
"""

from __future__ import annotations

import collections
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JAX = sys.argv[1:] == ["jax"]
VENV = ROOT / (".venv-jax" if JAX else ".venv")
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "ampcourse-setup.json"
LOCK, GPU_LOCK = "requirements-jax.lock" if JAX else "requirements.lock", "requirements-gpu.lock"
INSTALLED_GB = {LOCK: 1 if JAX else 3, GPU_LOCK: 4}  # measured; pip unpacks one package at a time on the way
CHOSEN = "AMPCOURSE_VENV_JAX" if JAX else "AMPCOURSE_VENV"

# What pip says when it fails, and our sentence. The first that matches counts: a full disk also breaks downloads.
CAUSES = (
    (
        r"No space left on device|Errno 28|Disk quota exceeded",
        "The disk is full: free some GB (the packages need {needed}) and call again.",
    ),
    (
        r"DO NOT MATCH THE HASHES",
        "A package that was fetched is not the one that {lock} names: empty pip's cache (pip cache purge), or ask "
        "who runs your package index.",
    ),
    (
        r"NewConnectionError|ConnectTimeout|Read ?[Tt]imed? ?out|Connection (refused|reset|broken|aborted)|ProxyError|"
        r"name resolution|Max retries exceeded|Network is unreachable|SSLError|IncompleteRead",
        "The packages could not be fetched because the package index does not answer: connect to the network (or set "
        "PIP_INDEX_URL) and call again.",
    ),
    (
        r"Permission denied|Errno 13|Read-only file system",
        "'{root}' cannot be written: check who owns it and call again.",
    ),
    (
        r"No matching distribution found for (?P<package>\S+)",
        "There is no package {package} for this machine: the course runs on 64-bit Linux (also in WSL2) and on Macs "
        "with an Apple processor.",
    ),
    (
        r"ensurepip is not available|No module named (venv|ensurepip)",
        "This Python lacks the module ensurepip: install it (on Debian and Ubuntu: sudo apt install python3-venv) and "
        "call again.",
    ),
)


class Stop(Exception):
    """The set-up cannot go on; the message is the one sentence for the user."""


def main() -> int:
    """Do what is missing; returns the exit status."""
    try:
        set_up()
    except Stop as stop:
        print(f"Set-up: {stop}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Set-up: {cause(str(error)) or f'The system refused: {error}.'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nSet-up: stopped; the next call begins again.", file=sys.stderr)
        return 130
    return 0


def set_up() -> None:
    """Bring the environment to what the lock and the project ask for."""
    if chosen := os.environ.get(CHOSEN):
        if not os.access(Path(chosen) / "bin" / "python", os.X_OK):
            raise Stop(f"{CHOSEN} names '{chosen}', where there is no bin/python.")
        return
    found = finished()
    wanted = fingerprints(lock_files(found))
    if found == wanted:
        return
    with only_one():
        found = finished()  # another set-up may have ended while this one waited
        if found == wanted:
            return
        if found.get("lock") != wanted["lock"]:
            install_lock(wanted["files"].split(), fresh=not found)
            write_stamp(wanted | {"project": ""})
        pip(["--no-deps", "--no-build-isolation", "--editable", "."], 1)
        write_stamp(wanted)
        print("Set-up: done.")


def lock_files(found: dict[str, str]) -> list[str]:
    """The files that pip reads: AMPCOURSE_GPU=1 adds CUDA, which then stays until AMPCOURSE_GPU=0."""
    if JAX:
        return [LOCK]
    wanted = os.environ.get("AMPCOURSE_GPU") or ("1" if GPU_LOCK in found.get("files", "") else "0")
    return [LOCK] if wanted == "0" else [LOCK, GPU_LOCK]


def fingerprints(files: list[str]) -> dict[str, str]:
    """What the stamp must say: the locks, the project, and the place, because scripts in `.venv` hold its full path."""
    lock = b"".join((ROOT / name).read_bytes() for name in files)
    project = (ROOT / "pyproject.toml").read_bytes()
    digests = {"lock": hashlib.sha256(lock).hexdigest(), "project": hashlib.sha256(project).hexdigest()}
    return digests | {"files": " ".join(files), "place": str(VENV)}


def finished() -> dict[str, str]:
    """The stamp of a set-up that was finished and whose Python still works; else empty."""
    try:
        stamp = json.loads(STAMP.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(stamp, dict) or stamp.get("place") != str(VENV):
        return {}
    # After a system upgrade the links in `.venv/bin` may dangle, or point to a Python that looks in another folder.
    which = "import sys; print('python%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([PYTHON, "-I", "-S", "-c", which], capture_output=True, text=True, check=False)
    except OSError:
        return {}
    packages = VENV / "lib" / answer.stdout.strip() / "site-packages"
    return stamp if answer.returncode == 0 and (packages / "numpy").is_dir() else {}


def write_stamp(content: dict[str, str]) -> None:
    """Replace the stamp in one step, so that it is whole or not there."""
    new = STAMP.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1, sort_keys=True), "utf-8")
    new.replace(STAMP)


@contextmanager
def only_one() -> Iterator[None]:
    """Two calls at once: the second waits. The lock lies on this very file and ends with the process."""
    with Path(__file__).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("Set-up: another one is at work; waiting for it.", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install_lock(files: list[str], fresh: bool) -> None:
    """Install what the locks name, nothing else; into a new environment if fresh."""
    size = sum(INSTALLED_GB[name] for name in files)
    if fresh:
        clear_place()
        check_disk(size + 1)
    try:
        if fresh:
            make_venv()
        STAMP.unlink(missing_ok=True)  # without it, an interrupted set-up is known for what it is
        print(f"Set-up: installing {' and '.join(files)} into {VENV.name} (about {size} GB, some minutes).", flush=True)
        text = "".join((ROOT / name).read_text("utf-8") for name in files)
        arguments = [part for name in files for part in ("-r", name)]
        packages = len(re.findall(r"^\S+==", text, re.MULTILINE))
        pip(["--require-hashes", "--no-deps", "--only-binary=:all:", *arguments], packages)
    except BaseException:
        if fresh:  # a half-made environment may be the very thing that fills the disk
            shutil.rmtree(VENV, ignore_errors=True)
        raise


def clear_place() -> None:
    """Remove whatever half-made environment is there."""
    if VENV.is_symlink() or VENV.is_file():
        raise Stop(f"'{VENV}' is a file or a link, where a folder is to be made: move it away and call again.")
    if VENV.is_dir():
        print(f"Set-up: the {VENV.name} that is there is not finished or was moved; making it anew.", flush=True)
        shutil.rmtree(VENV)


def check_disk(needed: int) -> None:
    """Stop before anything is written where it cannot fit."""
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < needed:
        raise Stop(f"The disk has {free:.1f} GB free and the packages need {needed}: free some and call again.")


def make_venv() -> None:
    """A new, empty environment."""
    # Called from an activated `.venv`, this process runs on links that are gone by now.
    base = getattr(sys, "_base_executable", None) or sys.executable
    status, output = run([base, "-m", "venv", VENV], lambda line: None)
    if status:
        raise Stop(cause(output) or f"Python's venv module failed: {last_line(output)}")


def pip(arguments: list[str], total: int) -> None:
    """Run `pip install` in the environment with a line of progress; stop with one sentence if it fails."""
    seen: list[str] = []

    def progress(line: str) -> None:
        if name := re.match(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)", line):
            seen.append(name[1])
            tell(f"fetching {len(seen)} of up to {total}: {name[1]}")
        elif line.startswith("Installing collected packages"):
            tell(f"unpacking {len(seen)} packages")

    start = [PYTHON, "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    status, output = run(start + arguments, progress)
    tell("")
    if status:
        raise Stop(cause(output) or f"pip failed: {last_line(output)} (all it said is in '{keep(output)}')")


def tell(text: str) -> None:
    """One line that overwrites itself, on a terminal only."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text[:78]}", end="", flush=True)


def run(command: list[str | Path], each_line: Callable[[str], None]) -> tuple[int, str]:
    """Run a command in the clone; returns its exit status and the last 400 lines of what it said."""
    lines: collections.deque[str] = collections.deque(maxlen=400)
    settings = os.environ | {"PIP_USER": "0", "PYTHONUNBUFFERED": "1"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, env=settings, text=True, errors="replace", **pipes) as process:
        try:
            for line in process.stdout or ():
                lines.append(line)
                each_line(line)
        except BaseException:
            process.terminate()
            process.wait()  # it must not go on writing where we are about to clear up
            raise
    return process.returncode, "".join(lines)


def cause(output: str) -> str | None:
    """The sentence for a known failure, or None."""
    for pattern, sentence in CAUSES:
        if found := re.search(pattern, output):
            needed = "1" if JAX else "3, with CUDA 7"
            return sentence.format(**found.groupdict(), root=ROOT, lock=LOCK, needed=needed)
    return None


def last_line(output: str) -> str:
    """The last line that says something, rather an error than what follows it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return ([line for line in lines if "error: " in line.lower()] or lines or ["it said nothing."])[-1]


def keep(output: str) -> str:
    """The path of a new file, outside `.venv`, with all that was said."""
    handle, path = tempfile.mkstemp(prefix="ampcourse-setup-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(output)
    return path
