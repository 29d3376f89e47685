"""What stands for a thing that is withheld while grading: it can be imported, and using it says why it is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

_USES = """
    call getitem setitem delitem len iter next contains bool index int float complex enter exit mro_entries array
    eq ne lt le gt ge hash neg pos abs invert round add radd iadd sub rsub isub mul rmul imul matmul rmatmul truediv
    rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor lshift rlshift rshift rrshift
"""


class Withheld(ImportError):
    """Something of the course that is not there while grading was used."""


class Absent:
    """One name out of something withheld: whatever is done with it raises `Withheld`."""

    def __init__(self, says: str) -> None:
        object.__setattr__(self, "_says", says)

    def __getattr__(self, name: str) -> NoReturn:
        raise Withheld(object.__getattribute__(self, "_says"))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise Withheld(object.__getattribute__(self, "_says"))

    def __repr__(self) -> str:
        return f"<{object.__getattribute__(self, '_says')}>"


def _refuses(use: str) -> Callable[..., NoReturn]:
    def refuse(self: Absent, *args: Any, **kwargs: Any) -> NoReturn:
        raise Withheld(object.__getattribute__(self, "_says"))

    refuse.__name__ = use
    return refuse


for _use in _USES.split():
    setattr(Absent, f"__{_use}__", _refuses(f"__{_use}__"))


def left_out(name: str) -> Absent:
    """What stands for a name that a given cell would have bound, had that part of it been run."""
    return Absent(f"'{name}' is not there while grading: what makes it would answer an exercise.")
