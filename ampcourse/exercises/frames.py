"""An exception as plain facts: its kind, its text, the learner's own lines, and the library call it came from."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

LONGEST = 500
"""Characters kept of a message, and of a source line."""
MOST_FRAMES = 5

_OURS = str(Path(__file__).resolve().parent.parent) + "/"
_ANSWERS = str(Path(__file__).resolve().parent / "answers") + "/"
_LIBRARIES = tuple({str(Path(p).resolve()) + "/" for k, p in sysconfig.get_paths().items() if "lib" in k})
_NOISE = re.compile(r"\{\{function_node [^}]*\}\}\s*|\s*\[Op:\w*\]( name: ?)?|\x1b\[[0-9;]*m")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str, longest: int = LONGEST) -> str:
    """Text that can be shown and sent anywhere: no control characters, no halves of pairs, of bounded length."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[: longest + 1])
    return text if len(text) <= longest else text[:longest] + " ..."


def message(error: BaseException) -> str:
    """What the exception says, without TensorFlow's node names; empty where it cannot be asked."""
    try:
        text = str(error)
    except Exception:  # the message may be the learner's code too
        return ""
    return clean(_NOISE.sub("", text[: 8 * LONGEST])).strip()


def is_untouched(error: BaseException) -> bool:
    """Whether this is a stub's own `raise NotImplementedError`: without a text, straight from the learner's function.

    A library's, or that of another unwritten function that the answer calls, is an error like any other.
    """
    if type(error) is not NotImplementedError or error.args:
        return False
    own = [_is_own(frame) for frame, _ in traceback.walk_tb(error.__traceback__)]
    return sum(own) == 1 and own[-1]


def described(error: BaseException) -> dict[str, Any]:
    """The exception as plain data: `type`, `text`, `frames` (own, innermost last), `inside` (a library's call)."""
    walked = list(traceback.walk_tb(error.__traceback__))
    own = [i for i, (frame, _) in enumerate(walked) if _is_own(frame)]
    beyond = [frame for frame, _ in walked[own[-1] + 1 :]] if own else []
    frames = [_described(*walked[i]) for i in own]
    if len(frames) > MOST_FRAMES:  # a recursion: how it began, and how it ended
        frames = frames[:2] + frames[-(MOST_FRAMES - 2) :]
    return {
        "kind": "raised",
        "type": clean(str(type(error).__name__), 80),
        "text": message(error),
        "frames": frames,
        "inside": next((_qualified(frame) for frame in beyond if not _is_wrapper(frame)), ""),
    }


def _described(frame: FrameType, line: int) -> dict[str, Any]:
    source = linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
    return {"function": clean(frame.f_code.co_qualname, 80), "line": line, "source": clean(source.strip())}


def _is_own(frame: FrameType) -> bool:
    """Whether the frame runs the learner's code: not ours, not a library's, not generated."""
    file = frame.f_code.co_filename
    if file.startswith(_ANSWERS):  # a right answer or a mistake, observed in the learner's place
        return True
    generated = file.startswith(("<frozen ", "<__array_function__")) or "__autograph_generated_file" in file
    return not (generated or file.startswith((_OURS, *_LIBRARIES)))


def _is_wrapper(frame: FrameType) -> bool:
    return frame.f_code.co_filename.endswith(("traceback_utils.py", "contextlib.py", "functools.py"))


def _qualified(frame: FrameType) -> str:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return clean(f"{package}: {frame.f_code.co_qualname}" if package else frame.f_code.co_qualname, 120)
