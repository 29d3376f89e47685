"""Let the tests of this folder, and those on JAX, share `fixed.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
