"""Charts are drawn once for all tests: a patient takes a second or two."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ampcourse import clinic


@pytest.fixture(scope="session")
def admit() -> Callable[[str, int], clinic.Chart]:
    return clinic.admit  # it keeps what it has drawn
