"""How the command line ends when something goes wrong: one sentence, the right exit code, never a raw traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path

from ampcourse import terminal
from ampcourse.course import UserError

MISTAKE, USAGE, INTERRUPTED, OURS = 1, 2, 130, 70


def explain(error: BaseException) -> int:
    """Say on stderr what went wrong and return the exit code.

    1: a mistake the user can mend (`UserError`, or a file or disk that refuses), or, silently, a reader of our output
    that has gone away; 130: interrupted; 70: a fault of this program, with its traceback in a file.
    """
    _give_up_on_output_that_fails()
    if isinstance(error, BrokenPipeError):
        return MISTAKE
    if isinstance(error, KeyboardInterrupt):
        tell("Interrupted.")
        return INTERRUPTED
    if isinstance(error, UserError):
        tell(f"Error: {sentence(error)}")
        return MISTAKE
    if isinstance(error, ModuleNotFoundError) and not (error.name or "ampcourse").startswith("ampcourse"):
        tell(f"Error: The package '{error.name}' is missing here: 'ampcourse doctor' says what to install.")
        return MISTAKE
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno == errno.ENOENT and not _here():
            tell("Error: The folder that you are in was deleted: change to another one.")
            return MISTAKE
        where = f"'{error.filename}': " if error.filename else ""
        tell(f"Error: {where}{os.strerror(error.errno)}{_remedy(error)}.")
        return MISTAKE
    tell(f"Error: {_unexpected(error)}")
    return OURS


def stand_in_for_closed_streams() -> None:
    """Where the caller has closed stdout or stderr, let what is written there vanish, as it does from `print`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 it stays open


def _give_up_on_output_that_fails() -> None:
    """What stdout does not take must not be tried again when Python shuts down, for that would print a traceback."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(text: str) -> None:
    """Write one line to stderr, without control characters; with nobody there to read it, do nothing."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(terminal.clean(text) + "\n")
        sys.stderr.flush()


def sentence(error: BaseException) -> str:
    """The error's text on one line."""
    return " ".join(str(error).split())


def _here() -> bool:
    """Whether the current folder still exists."""
    try:
        return bool(Path.cwd())
    except OSError:
        return False


def _remedy(error: OSError) -> str:
    return {
        errno.ENOSPC: "; free some space and try again",
        errno.EACCES: "; choose another place, or change its permissions",
        errno.EROFS: "; choose another place",
    }.get(error.errno or 0, "")


def _unexpected(error: BaseException) -> str:
    import traceback

    what = f"{type(error).__name__}: {sentence(error)}".rstrip(": ")
    log = _save("".join(traceback.format_exception(error)))
    where = f"the details are in '{log}'" if log else "and the details could not be saved"
    return f"ampcourse itself failed ({what}); {where}."


def _save(text: str) -> Path | None:
    from datetime import datetime

    name = f"ampcourse-error-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.log"
    for folder in _log_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            path.write_text(f"{' '.join(sys.argv)}\nPython {sys.version}\n\n{text}", "utf-8")
            return path
        except OSError:
            continue
    return None


def _log_folders() -> list[Path]:
    import tempfile

    import platformdirs

    ours = home() if os.environ.get("AMPCOURSE_HOME") else Path(platformdirs.user_log_dir("ampcourse"))
    return [folder for folder in (ours, Path(tempfile.gettempdir())) if folder is not None]


def home() -> Path | None:
    """The folder that AMPCOURSE_HOME names; None where it is not set, or is that of a user who does not exist."""
    named = os.environ.get("AMPCOURSE_HOME")
    try:
        return Path(named).expanduser() if named else None
    except RuntimeError:
        return None
