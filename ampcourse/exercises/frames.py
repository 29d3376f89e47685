"""An exception as plain facts: its kind, its text, the learner's own lines, and the library call it came from."""

from __future__ import annotations

import dis
import linecache
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST = 500
"""Characters kept of a message, and of a source line."""
MOST_FRAMES = 5

_OURS = str(Path(__file__).resolve().parent.parent) + "/"
_ANSWERS = str(Path(__file__).resolve().parent / "answers") + "/"
_LIBRARIES = tuple({str(Path(p).resolve()) + "/" for k, p in sysconfig.get_paths().items() if "lib" in k})
_RAISE = dis.opmap["RAISE_VARARGS"]
_WRAPPERS = {"error_handler", "wrapper", "wrapped", "inner", "op_dispatch_handler", "binary_op_wrapper", "<lambda>"}
_NOISE = re.compile(r"\{\{function_node [^}]*\}\}\s*|\s*\[Op:\w*\]( name: ?)?|\x1b\[[0-9;]*m")
_CALL = re.compile(r"(?<!\) )\bargument|not callable")
"""Arguments that do not fit; "float() argument must be ..." is about a value instead."""
_NODE = re.compile(r"\{\{node [^}]*\}\} = (\w+)\[[^\]]*\]\(([^)]*)\)")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str, longest: int = LONGEST) -> str:
    """Text that can be shown and sent anywhere: no control characters, no halves of pairs, of bounded length."""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text[: longest + 1])
    return text if len(text) <= longest else text[:longest] + " ..."


def message(error: BaseException) -> str:
    """What the exception says, without TensorFlow's node names; empty where it cannot be asked."""
    try:
        text = str(error)
    except BaseException:  # the message may be the learner's code too, and may even exit
        return ""
    return clean(_NODE.sub(r"\1(\2)", _NOISE.sub("", text[: 8 * LONGEST]))).strip()


@dataclass(frozen=True)
class Step:
    """One step of the way from our call down to where an exception was raised."""

    file: str
    function: str
    line: int
    source: str
    module: str = ""
    raises: bool = False

    observes: bool = False

    @property
    def own(self) -> bool:
        """Whether this is the learner's code: not ours, not a library's, not generated."""
        if self.file.startswith(_ANSWERS):  # a right answer or a mistake, observed in the learner's place
            return True
        library = self.file.startswith((_OURS, *_LIBRARIES)) or "-packages/" in self.file
        generated = self.file.startswith(("<frozen ", "<__array_function__")) or "__autograph_generated" in self.file
        return not (self.observes or library or generated)


def is_untouched(error: BaseException, observer: Any = None) -> bool:
    """Whether this is a stub's own `raise NotImplementedError`: without a text, straight from the learner's function.

    A library's, or that of another unwritten function that the answer calls, is an error like any other.
    """
    cause = _cause(error)
    if type(cause) is not NotImplementedError or cause.args:
        return False
    steps = _steps(error, observer)
    return sum(step.own for step in steps) == 1 and steps[-1].own and steps[-1].raises


def is_misfit(error: BaseException, observer: Any = None) -> bool:
    """Whether the observer could not use what the learner's code had returned, such as None where it unpacks three.

    Then none of the steps is the learner's and the last one is ours. Arguments that do not fit are another matter.
    """
    steps = _steps(error, observer)
    ours = bool(steps) and (steps[-1].observes or steps[-1].file.startswith(_OURS))
    return ours and not any(step.own for step in steps) and not _CALL.search(message(error))


def described(error: BaseException, observer: Any = None) -> dict[str, Any]:
    """The exception as plain data: `type`, `text`, `frames` (own, innermost last), `inside` (a library's call)."""
    cause, steps = _cause(error), _steps(error, observer)
    own = [i for i, step in enumerate(steps) if step.own]
    frames = [_shown(steps[i]) for i in own]
    if len(frames) > MOST_FRAMES:  # a recursion: how it began, and how it ended
        frames = frames[:2] + frames[-(MOST_FRAMES - 2) :]
    return {
        "kind": "raised",
        "type": clean(str(type(cause).__name__), 80),
        "text": message(cause),
        "frames": frames,
        "inside": _library(steps[own[-1] + 1 :] if own else []),
    }


def _cause(error: BaseException) -> BaseException:
    """What the learner's code raised, where TensorFlow or Keras has wrapped it to say more."""
    while isinstance(inner := error.__context__, BaseException) and _wraps(error, inner):
        error = inner
    return error


def _wraps(error: BaseException, inner: BaseException) -> bool:
    if hasattr(error, "ag_error_metadata"):  # TensorFlow keeps the type if it can make one of it with its own text
        return type(error) is type(inner) or type(error).__name__ == "StagingError"
    return message(error).startswith("Exception encountered when calling")


def _steps(error: BaseException, observer: Any) -> list[Step]:
    """All steps, innermost last; code that TensorFlow rewrote as a graph is shown as it was written."""
    steps, trace = [], error.__traceback__
    while trace is not None:
        frame, code = trace.tb_frame, trace.tb_frame.f_code
        source = linecache.getline(code.co_filename, trace.tb_lineno, frame.f_globals)
        raises = code.co_code[trace.tb_lasti] == _RAISE if trace.tb_lasti >= 0 else False
        module = str(frame.f_globals.get("__name__", ""))
        observes = code is getattr(observer, "__code__", None)
        steps.append(Step(code.co_filename, code.co_qualname, trace.tb_lineno, source, module, raises, observes))
        trace = trace.tb_next
    if (rewritten := getattr(error, "ag_error_metadata", None)) is not None:
        steps = [step for step in steps if step.own]
        for info in reversed(rewritten.translated_stack):
            module = info.filename.partition("-packages/")[2].replace("/", ".")
            raises = str(info.code).strip().startswith("raise ")
            name = info.function_name or "<lambda>"  # TensorFlow has no name for a lambda
            steps.append(Step(info.filename, name, info.lineno, str(info.code), module, raises))
    return steps


def _shown(step: Step) -> dict[str, Any]:
    return {"function": clean(step.function, 80), "line": step.line, "source": clean(step.source.strip())}


def _library(beyond: list[Step]) -> str:
    """The library whose call failed, and its function where that is not only a wrapper around the real one."""
    for step in beyond:
        if package := step.module.partition(".")[0]:
            plain = step.function.rpartition(".")[2]
            return package if plain in _WRAPPERS else clean(f"{package}: {step.function}", 120)
    return ""
