"""The half that runs beside the learner's code: it knows the question and the observer, but no answers and no seed.

`observe` takes the packed inputs and gives back packed observations, both as bytes, also within one process, so that
judging across a process wall is the same code. It imports nothing that knows answers.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises import observers, wire
from ampcourse.exercises.facts import Unusable, facts
from ampcourse.exercises.frames import clean, described, is_misfit, is_untouched, message
from ampcourse.quiet import LONGEST_OUTPUT, TimeIsUp, quietly, time_limit

NUMPY_DEFAULTS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""What a notebook has set with `np.seterr` is no part of an answer."""


def observe(observer: Callable | str, inputs: bytes, answer: Any, seconds: float | None = None) -> bytes:
    """Observe `answer` once for each criterion.

    Args:
        observer: `observer(answer, *arguments)`, or its name in `observers`: `"call"`, `"loss_scaling.train_scaled"`.
        inputs: packed `{criterion: arguments}`.
        answer: the learner's function, class or value.
        seconds: time limit for all of it; needs the main thread, else there is none.

    Returns:
        Packed `{"criteria": {criterion: {"facts": ...} or {"fault": ...}}, "printed": text, "warned": text}`.

    Raises:
        KeyboardInterrupt: the learner's own, passed on. Whatever else the code raises is an observation.
    """
    look = _named(observer) if isinstance(observer, str) else observer
    ends = None if seconds is None else time.monotonic() + seconds
    seen: dict[str, Any] = {}
    with quietly() as captured, np.errstate(**NUMPY_DEFAULTS):
        for name, arguments in wire.unpack(inputs).items():  # a copy, so that an answer cannot change the question
            left = None if ends is None else ends - time.monotonic()
            seen[name] = _once(look, arguments, answer, left)
            if seen[name].get("fault", {}).get("kind") == "timeout":
                seen[name]["fault"]["text"] = f"still running after {seconds:g} seconds"
                ends = time.monotonic()  # the rest would only wait again
    printed, warned = (clean(text, LONGEST_OUTPUT + 100) for text in (captured.printed, captured.warned))
    return _message(seen, printed, warned)


def _named(name: str) -> Callable:
    """The observer of that name; only modules of `observers` are ever looked into."""
    module, _, function = name.rpartition(".")
    if not module:
        return getattr(observers, function)
    return getattr(importlib.import_module(f"{observers.__name__}.{module}"), function)


def _once(observer: Callable, arguments: tuple, answer: Any, seconds: float | None) -> dict[str, Any]:
    if seconds is not None and seconds <= 0:
        return _fault("timeout", "not run")
    try:
        with time_limit(seconds):
            return {"facts": facts(observer(answer, *arguments))}
    except Unusable as error:
        return _fault("unusable", clean(str(error)), clean(error.at))
    except TimeIsUp:
        return _fault("timeout", "")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the learner's code may raise anything, SystemExit too
        if is_untouched(error, observer):
            return _fault("untouched", "")
        if is_misfit(error, observer):
            missing = ": is a `return` missing?" if "NoneType" in message(error) else ""
            return _fault("unusable", f"what was returned cannot be used ({message(error)}){missing}")
        return {"fault": described(error, observer)}


def _fault(kind: str, text: str, at: str = "") -> dict[str, Any]:
    return {"fault": {"kind": kind, "text": text} | ({"at": at} if at else {})}


def _message(seen: dict[str, Any], printed: str, warned: str) -> bytes:
    try:
        return wire.pack({"criteria": seen, "printed": printed, "warned": warned})
    except wire.WireError:  # each array is small enough, all together are not
        faults = {name: _fault("unusable", "too much was returned") for name in seen}
        return wire.pack({"criteria": faults, "printed": "", "warned": ""})
