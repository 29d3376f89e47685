"""Import Jupyter's libraries without the grammar that costs seconds.

nbformat imports jsonschema, which imports rfc3987_syntax where it is installed (JupyterLab brings it); that builds a
large grammar at import, 3.5 s of computing here, only to check a kind of address that no notebook schema mentions.
jsonschema does without it where it is missing.
"""

from __future__ import annotations

import sys


def import_jsonschema() -> None:
    """Import jsonschema as if rfc3987_syntax were not installed; call this before nbformat is first imported."""
    if "jsonschema" in sys.modules or "rfc3987_syntax" in sys.modules:
        return
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules["rfc3987_syntax"]
