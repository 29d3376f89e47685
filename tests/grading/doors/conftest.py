"""What the tests of the doors share."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def patience() -> float:
    """By how much longer everything may take here."""
    return float(os.environ.get("AMPCOURSE_PATIENCE", "1"))
