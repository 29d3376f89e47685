"""Number formats, what they do to gradients and sums, and loss-scale state machines: numpy only, no TensorFlow.

Values are float64 numpy arrays of any shape (float64 holds every value of every format here exactly); a scalar gives a
scalar. Errors are one sentence: TypeError for what is not a number, ValueError for a number that makes no sense.
"""

from ampcourse.numerics.accumulation import accumulate, dot, sum_in, swamped
from ampcourse.numerics.formats import (
    BFLOAT16,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    FORMATS,
    TF32,
    Format,
    get_format,
)
from ampcourse.numerics.gradients import (
    ExponentHistogram,
    Fate,
    exponent_histogram,
    fate,
    fate_by_scale,
    relative_error,
)
from ampcourse.numerics.loss_scale import (
    DynamicLossScale,
    ScaleTrace,
    StaticLossScale,
    trace,
    trace_gradients,
)

__all__ = [
    "BFLOAT16",
    "FLOAT8_E4M3FN",
    "FLOAT8_E5M2",
    "FLOAT16",
    "FLOAT32",
    "FORMATS",
    "TF32",
    "DynamicLossScale",
    "ExponentHistogram",
    "Fate",
    "Format",
    "ScaleTrace",
    "StaticLossScale",
    "accumulate",
    "dot",
    "exponent_histogram",
    "fate",
    "fate_by_scale",
    "get_format",
    "relative_error",
    "sum_in",
    "swamped",
    "trace",
    "trace_gradients",
]
