"""One sentence for each way in which a function cannot be traced, or XLA cannot compile it."""

from __future__ import annotations

import re

from ampcourse.amp.reasons import essence

# Kernels that XLA lacks, by the TensorFlow operation that learners know them by.
_KNOWN_AS = {
    "StringFormat": "tf.print",
    "PrintV2": "tf.print",
    "EagerPyFunc": "tf.py_function",
    "PyFunc": "tf.numpy_function",
    "PyFuncStateless": "tf.numpy_function",
}


def does_not_trace(name: str, error: Exception) -> str:
    """The sentence for a function of which TensorFlow can make no graph."""
    says = f"{essence(error)}."
    if "incompatible" in says and ("shape" in says or "dtype" in says):
        return f"'{name}' does not take arguments like these: {says}"
    where = _line_of(error)
    return f"'{name}' cannot be traced into a graph{where}: {says}"


def _line_of(error: Exception) -> str:
    """The learner's own line, as " (line 3 of steps.py)"; empty if it cannot be told."""
    found = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    own = [(path, line) for path, line in found if "site-packages" not in path and "/ampcourse/amp/" not in path]
    if not own:
        return ""
    path, line = own[-1]
    place = "the cell" if "ipykernel_" in path else re.split(r"[/\\]", path)[-1]
    return f" (line {line} of {place})"


def does_not_compile(name: str, error: Exception) -> str:
    """The sentence for a graph that XLA refuses."""
    text = str(error)
    lacking = list(dict.fromkeys(re.findall(r"(\w+) \(No registered '", text)))
    if {"_Arg", "_Retval"} & set(lacking) or "DT_STRING" in text:
        return f"XLA cannot compile '{name}': it takes or returns text, and XLA knows numbers only."
    if lacking:
        named = ", ".join(f"{op} ({_KNOWN_AS[op]})" if op in _KNOWN_AS else op for op in lacking)
        return f"XLA cannot compile '{name}': it has no kernel for {named}{_line_of(error)}; move that out of '{name}'."
    if "DataTypeToPrimitiveType" in text:
        return f"XLA cannot compile '{name}': it handles something that is no array, such as a dataset; give arrays."
    return f"XLA cannot compile '{name}': {essence(error)}."
