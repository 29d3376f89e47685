"""What an error of TensorFlow or Keras says, in one line: without frames, colours, and the list of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import dropwhile, takewhile

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_TYPE = re.compile(r"^[A-Za-z_.]*(Error|Exception): ")
_NODE = re.compile(r" for '\{\{node .*?\}\} = .*?(?= with input shapes|$)")
_AROUND = (
    "Exception encountered when calling",
    "in user code",
    "Graph execution error",
    "Detected at node",
    "[[{{node",
)
_NO_ARRAY = re.compile(r"Only input tensors may be passed as positional arguments.*\(of type <class '(?:\w+\.)*(\w+)'>")
_ARGUMENTS = re.compile(r"required .*argument|too many .*argument|multiple values for|takes .*positional argument")


def essence(error: Exception, most: int = 240) -> str:
    """What an error says, in one line that ends without a full stop.

    Args:
        error: an exception, possibly with the frames that AutoGraph and Keras write into its message.
        most: the largest number of characters; a longer text is cut after its first sentence if that is possible.
    """
    own = error.args[0] if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str) else None
    said = str(error) if own is None else own.replace("\\n", "\n").replace("\\x1b", "\x1b")  # a KeyError shows its repr
    said = _told(_ANSI.sub("", said)) or type(error).__name__
    if match := _NO_ARRAY.search(said):
        kind = match[1]
        return f"a model takes arrays or tensors, not Python's {kind}: make an array of it first, as numpy.asarray does"
    if isinstance(error, KeyError):
        quoted = said if said[:1] in "'\"" or own is None else repr(said)
        return f"there is no key {quoted}"
    said = _NODE.sub("", said)
    if len(said) > most:
        sentence = said.partition(". ")[0]
        said = sentence if len(sentence) <= most else f"{said[: most - 1].rstrip()}…"
    return said.rstrip(".: ")


def is_about_arguments(text: str) -> bool:
    """Whether a message of Python's says that a call does not fit its function."""
    return bool(_ARGUMENTS.search(text))


def _told(said: str) -> str:
    """The first line that says something; a frame is `File "...", line 3`, its source, and an empty line."""
    lines = [line.strip() for line in said.splitlines()]
    frames = [number for number, line in enumerate(lines) if line.startswith('File "')]
    if not frames:
        return _first(lines)
    return _first(dropwhile(bool, lines[frames[-1] :])) or _first(lines[: frames[0]])


def _first(lines: Iterable[str]) -> str:
    told = [_TYPE.sub("", line) for line in takewhile(lambda line: "rguments received by" not in line, lines)]
    told = [" ".join(line.split()) for line in told if line and not line.lstrip("'\"").startswith(_AROUND)]
    return next((line for line in told if not line.endswith(":")), told[0] if told else "")
