"""`record(name, value)`: say in a notebook which result matters, so that a run can compare it with what is expected."""

from __future__ import annotations

import math
import numbers
import sys
from typing import Any

MIME = "application/vnd.ampcourse.record+json"
_LONGEST_TEXT = 1_000


def record(name: str, value: Any, unit: str = "") -> None:
    """Show a result and leave it in the notebook for `ampcourse run`, which compares it with the expected range.

    The result travels in the cell's output, so nothing else is needed: it works under JupyterLab and plain papermill.

    Args:
        name: the result's name, as in `course.toml`.
        value: one number (of Python, NumPy or TensorFlow, also NaN or infinite), True, False, or a text.
        unit: shown after the value, for example "ms"; the expected range is in the same unit.

    Raises:
        TypeError: if the name or unit is not a text, or the value is none of the above.
        ValueError: if the name is empty or the text longer than 1,000 characters.
    """
    if not isinstance(name, str) or not isinstance(unit, str):
        raise TypeError("record(name, value, unit): name and unit must be texts.")
    if not name.strip():
        raise ValueError("record(name, value): the name is empty.")
    plain = plain_value(value, name)
    _show(
        {
            MIME: {"name": name, "value": json_value(plain), "unit": unit},
            "text/plain": f"{name} = {text_value(plain)} {unit}".rstrip(),
        }
    )


def plain_value(value: Any, name: str = "") -> bool | int | float | str:
    """A Python bool, int, float or str for any single value, also of NumPy or TensorFlow.

    Raises:
        TypeError: if the value is not one number, bool or text.
        ValueError: if a text is longer than 1,000 characters.
    """
    value = _scalar(value)
    if isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            raise ValueError(f"record('{name}', ...): the text has more than {_LONGEST_TEXT:,} characters.")
        return str(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"record('{name}', ...): give one number, True, False or a text, not {type(value).__name__}.")


def _scalar(value: Any) -> Any:
    """Unwrap arrays and tensors that hold exactly one value; leave the rest as it is."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if callable(getattr(value, "numpy", None)):  # tensors and variables
        value = value.numpy()
    if getattr(value, "size", None) == 1 and callable(getattr(value, "item", None)):
        item = value.item()
        # ml_dtypes' own scalars (bfloat16, float8) are what their arrays' item() returns; float() is exact for them.
        return item if isinstance(item, (bool, int, float, str)) else _as_float(item)
    return value


def _as_float(item: Any) -> Any:
    if isinstance(item, (complex, bytes)) or not hasattr(item, "__float__"):
        return item
    return float(item)


def json_value(value: bool | int | float | str) -> bool | int | float | str:
    """The value as strict JSON can hold it: NaN and infinities become the texts "nan", "inf" and "-inf"."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def text_value(value: bool | int | float | str | None) -> str:
    """The value as people read it: six significant digits, thousands separated in whole numbers."""
    if value is None:
        return "nothing"
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _show(bundle: dict[str, Any]) -> None:
    """Display in a notebook, or write the plain text where there is none (a script, a test)."""
    # A kernel has loaded IPython already; a script should not pay for it.
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        sys.stdout.write(bundle["text/plain"] + "\n")
        return
    from IPython.display import display

    display(bundle, raw=True)
