"""One display in a notebook that is drawn anew while a run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PAUSE = 2.0  # seconds between two drawings, at least
SHARE = 20  # a drawing may take one part in so many of the time


class Live:
    """Shows a picture again and again in the same place; outside of a notebook it does nothing."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._next = 0.0

    def show(self, draw: Callable[[], Any], last: bool = False) -> None:
        """Draw and show, unless the latest drawing is too recent; the last one is always shown."""
        if not _in_notebook() or (time.monotonic() < self._next and not last):
            return
        from IPython.display import display

        started = time.monotonic()
        picture = draw()
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)
        self._next = time.monotonic() + max(PAUSE, SHARE * (time.monotonic() - started))


def _in_notebook() -> bool:
    """Whether there is something that can show a picture."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None
