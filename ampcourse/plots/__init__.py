"""One function a figure: it takes data and returns a `Picture`, the figure together with its alternative text.

Importing this needs matplotlib, but neither pyplot nor TensorFlow.
"""

from ampcourse.plots.charts import symptoms
from ampcourse.plots.explorer import Explorer, gradient_explorer
from ampcourse.plots.fusions import fusion
from ampcourse.plots.gradients import fate_by_scale, gradient_histogram
from ampcourse.plots.graphs import graph_rewrite
from ampcourse.plots.lanes import dtype_lanes
from ampcourse.plots.loops import learning_rates, update_sizes
from ampcourse.plots.maps import map_rows
from ampcourse.plots.memory import device_timeline, memory_parts
from ampcourse.plots.monitor import gradient_health
from ampcourse.plots.numbers import bit_layout, format_ranges, number_line, rounding_error, ulp_staircase
from ampcourse.plots.parity import paired_runs
from ampcourse.plots.real_training import accuracy_by_epoch, time_shares
from ampcourse.plots.roofs import roofline
from ampcourse.plots.speeds import speedups
from ampcourse.plots.steps import step_dtypes
from ampcourse.plots.style import PALETTE, Picture
from ampcourse.plots.tallies import tally
from ampcourse.plots.training import loss_scale_trace, swamping, training_curves
from ampcourse.plots.updates import tipping_ratio
from ampcourse.plots.vision import differences, picture_patches

__all__ = [
    "PALETTE",
    "Explorer",
    "Picture",
    "accuracy_by_epoch",
    "bit_layout",
    "device_timeline",
    "differences",
    "dtype_lanes",
    "fate_by_scale",
    "format_ranges",
    "fusion",
    "gradient_explorer",
    "gradient_health",
    "gradient_histogram",
    "graph_rewrite",
    "learning_rates",
    "loss_scale_trace",
    "map_rows",
    "memory_parts",
    "number_line",
    "paired_runs",
    "picture_patches",
    "roofline",
    "rounding_error",
    "speedups",
    "step_dtypes",
    "swamping",
    "symptoms",
    "tally",
    "time_shares",
    "tipping_ratio",
    "training_curves",
    "ulp_staircase",
    "update_sizes",
]
