"""Every public plot with every format and with awkward data, as one list that several tests go through."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest

from ampcourse import numerics, plots
from ampcourse.amp.xla_module import HloModule

NAMES = tuple(numerics.FORMATS)
RNG = np.random.default_rng(0)
GRADIENTS = np.r_[np.exp2(RNG.normal(-22, 4, 4000)) * RNG.choice([-1.0, 1.0], 4000), np.zeros(40)]
SCALES = 2.0 ** np.arange(0, 34, 3)
TERMS = np.ones(3000)
FORK = {
    "x": ("Cast", "", "float16"),
    "product": ("MatMul", "float32", "float16"),
    "back": ("Cast", "", "float32"),
    "exp": ("Exp", "float32", "float32"),
    "relu": ("Relu", "float32", "float16"),
}
FORK_EDGES = [("x", "product"), ("product", "back"), ("back", "exp"), ("product", "relu")]


def short_line(name: str) -> plots.Picture:
    """The numbers around the end of the subnormals, few enough to be told apart."""
    fmt = numerics.get_format(name)
    return plots.number_line(
        name, fmt.least_normal - 9 * fmt.least_subnormal, fmt.least_normal + 9 * fmt.least_subnormal
    )


def sums(name: str) -> plots.Picture:
    return plots.swamping({name: numerics.accumulate(TERMS, name), "float32": np.cumsum(TERMS)}, exact=3000.0)


def chart(losses: list, scales: list, moved: dict) -> SimpleNamespace:
    """A chart of symptoms whose twin is well."""
    losses, skipped = np.array(losses, float), np.array([not np.isfinite(loss) for loss in losses])
    run = SimpleNamespace(losses=losses, scales=np.array(scales), skipped=skipped, raw=losses * 3e4, moved=moved)
    well = np.linspace(2, 1, len(losses))
    twin = SimpleNamespace(losses=well, raw=well, moved=dict.fromkeys(moved, 0.5))
    return SimpleNamespace(name="patient", policy="mixed_float16", run=run, twin=twin)


def scale_trace(finite: list[bool], **rule: object) -> plots.Picture:
    return plots.loss_scale_trace(numerics.trace(numerics.DynamicLossScale(**rule), finite))


def one_fusion(inputs: list[str], inside: list[str], result: str = "f32[64,32]") -> plots.Picture:
    """The picture of a fusion: p0, p1 ... are its inputs, of these types; `inside` are the lines of its computation."""
    parameters = [f"{shape} parameter({n})" for n, shape in enumerate(inputs)]
    operands = ", ".join(f"x{n}" for n in range(len(inputs)))
    lines = ["HloModule m", "fused {", *(f"p{n} = {line}" for n, line in enumerate(parameters)), *inside, "}"]
    lines += ["ENTRY main {", *(f"x{n} = {line}" for n, line in enumerate(parameters))]
    lines += [f"ROOT a_fusion = {result} fusion({operands}), kind=kLoop, calls=fused", "}"]
    return plots.fusion(HloModule.from_text("\n".join(lines)).fusions[0])


A = "f32[64,32]"
CHAIN = ["t = f32[] constant(0.70710678)", f"b = {A} broadcast(t), dimensions={{}}", f"m = {A} multiply(p0, b)"]
CHAIN += ["h = bf16[64,32] convert(m)", f"f = {A} convert(h)", f"ROOT r = {A} multiply(f, p0)"]
LONG = [f"o0 = {A} add(p0, p1)", *(f"o{n} = {A} tanh(o{n - 1})" for n in range(1, 30)), f"ROOT r = {A} add(o29, o0)"]
WIDE = [*(f"o{n} = {A} convert(p{n})" for n in range(10)), f"s1 = {A} add(o0, o1)"]
WIDE += [*(f"s{n} = {A} add(s{n - 1}, o{n})" for n in range(2, 10)), f"ROOT s = {A} negate(s9)"]
TWO = ["s = f64[] constant(0)", "n = f64[8,16,32,64] sine(p0)", "c = f64[8] reduce(n, s), dimensions={1,2,3}"]
TWO += ["k = pred[8,16,32,64] not(p1)", "ROOT t = (f64[8], pred[8,16,32,64]) tuple(c, k)"]


def run_of(scale: object, nonfinite: object = 0, **columns: object) -> dict[str, np.ndarray]:
    """The history of a run as a gradient monitor keeps it."""
    scale = np.asarray(scale, float)
    bad = np.broadcast_to(nonfinite, scale.shape) > 0
    norm = np.where(bad, np.nan, np.exp(-np.arange(scale.size) / 40))
    share = np.where(bad, np.nan, 0.1)
    run = {"scale": scale, "skipped": bad, "nonfinite": bad, "norm": norm, "flushed": share, "subnormal": share / 5}
    return {"step": np.arange(scale.size) + 1, **run, **columns}


BY_FORMAT: dict[str, Callable[[str], plots.Picture]] = {
    "bit_layout": lambda name: plots.bit_layout([name]),
    "format_ranges": lambda name: plots.format_ranges([name, "e6m9"]),
    "number_line": short_line,
    "ulp_staircase": lambda name: plots.ulp_staircase([name, "e6m9"], x=(2**-12, 2**9)),
    "rounding_error": plots.rounding_error,
    "swamping": sums,
    "tipping_ratio": plots.tipping_ratio,
    "gradient_histogram": lambda name: plots.gradient_histogram(GRADIENTS, name, scale=2.0**8),
    "fate_by_scale": lambda name: plots.fate_by_scale(GRADIENTS, SCALES, name),
    "gradient_explorer": lambda name: plots.gradient_explorer(GRADIENTS, name, SCALES, interactive=False).picture,
}
AWKWARD: dict[str, Callable[[], plots.Picture]] = {
    "bit_layout of all": plots.bit_layout,
    "format_ranges of all": plots.format_ranges,
    "number_line by default": plots.number_line,
    "number_line across zero": lambda: plots.number_line("float8_e5m2", -(2**-13), 2**-12),
    "number_line of one number": lambda: plots.number_line("float16", 0.9999, 1.0004),
    "ulp_staircase by default": plots.ulp_staircase,
    "ulp_staircase of six": lambda: plots.ulp_staircase(NAMES, x=(2**-18, 2**18)),
    "ulp_staircase within a binade": lambda: plots.ulp_staircase("float16", x=(1.1, 1.9)),
    "rounding_error of normal numbers": lambda: plots.rounding_error("float16", x=(1, 4)),
    "rounding_error of flushed numbers": lambda: plots.rounding_error("float16", x=(2**-40, 2**-30)),
    "step_dtypes of a step": lambda: plots.step_dtypes({"weights": "float32", "output": "float16", "loss": "float32"}),
    "step_dtypes of six": lambda: plots.step_dtypes(dict(zip("abcdef", NAMES, strict=True))),
    "dtype_lanes of one layer": lambda: plots.dtype_lanes([("dense", "float16", "")]),
    "dtype_lanes of whole numbers and floats": lambda: plots.dtype_lanes(
        [("tokens", "int64", ""), ("encoder/block_0/normalisation", "bfloat16", "float32"), ("head", "float64", "")]
    ),
    "dtype_lanes of forty layers": lambda: plots.dtype_lanes([(f"layer_{i}", "float16", "") for i in range(40)], "All"),
    "fusion of a chain": lambda: one_fusion([f"{A}{{1,0}}"], CHAIN),
    "fusion of thirty operations": lambda: one_fusion([A, A], LONG),
    "fusion of ten inputs": lambda: one_fusion(["bf16[64,32]"] * 10, WIDE),
    "fusion without an input": lambda: one_fusion([], ["ROOT i = s64[7] iota(), iota_dimension=0"], "s64[7]"),
    "fusion with two results": lambda: one_fusion(
        ["f64[8,16,32,64]", "pred[8,16,32,64]"], TWO, "(f64[8], pred[8,16,32,64])"
    ),
    "fusion of float8": lambda: one_fusion(["f8e4m3fn[4]"], ["ROOT c = f16[4] convert(p0)"], "f16[4]"),
    "roofline of one point": lambda: plots.roofline(1e11, 2e10, {"a chain": (0.3, 3e9)}),
    "roofline of six": lambda: plots.roofline(
        3e14, 2e12, {f"a piece of work, {n}": (10.0 ** (n - 2), 2e11 * 5**n) for n in range(6)}, title="My own"
    ),
    "device_timeline of one kernel": lambda: plots.device_timeline([(0, 3, 2)], 132, 10),
    "device_timeline of many": lambda: plots.device_timeline([(i, i + 0.6, i % 108) for i in range(300)], 108, 250),
    "memory_parts of one bar": lambda: plots.memory_parts({"a": {"variables": 10}}),
    "memory_parts of twelve": lambda: plots.memory_parts(
        {f"a model, mixed_bfloat16, {i}": {f"kept in part {j}": 1e9 * (i + j) for j in range(6)} for i in range(12)}
    ),
    "speedups of one": lambda: plots.speedups({"resnet20": {"mixed_bfloat16": (1.4, 1.3, 1.5)}}, "float32"),
    "speedups of many": lambda: plots.speedups(
        {
            f"model{n}, batch {2**n}": {
                f"mixed_bfloat16, XLA {k}": (0.2 * n + k + 0.1, 0.1, 12.0) for k in range(n % 6 + 1)
            }
            for n in range(7)
        },
        "float32 with TF32 off",
        "My own",
    ),
    "map_rows of one map": lambda: plots.map_rows({"a": np.eye(4)}, shape=(4, 4)),
    "map_rows of three kinds": lambda: plots.map_rows(
        {"target": RNG.random((5, 784)), "float32": RNG.random((5, 28, 28)), "float16, not scaled": np.zeros((5, 784))},
        title="Three kinds",
    ),
    "graph_rewrite of one": lambda: plots.graph_rewrite({"a": ("MatMul", "float32", "float32")}, []),
    "graph_rewrite of a fork": lambda: plots.graph_rewrite(FORK, FORK_EDGES),
    "graph_rewrite of all it can show": lambda: plots.graph_rewrite(
        {str(i): ("SparseSoftmaxCrossEntropyWithLogits", "float32", "bfloat16") for i in range(32)},
        [(str(i), str(i + 1 + i % 3)) for i in range(28)],
    ),
    "swamping of ups and downs": lambda: plots.swamping({"float16": np.sin(np.arange(50))}),
    "tipping_ratio within a binade": lambda: plots.tipping_ratio("bfloat16", w=(1.1, 1.9)),
    "tipping_ratio far up": lambda: plots.tipping_ratio("float16", w=(1000, 60000)),
    "gradient_histogram of one value": lambda: plots.gradient_histogram([1.0]),
    "gradient_histogram of all fates": lambda: plots.gradient_histogram([1e-9, 1e-6, 1.0, 1e6, np.nan, 0.0]),
    "gradient_histogram far away": lambda: plots.gradient_histogram([1e-300, 1e300]),
    "gradient_histogram in bfloat16": lambda: plots.gradient_histogram(GRADIENTS, "bfloat16", title="My own"),
    "fate_by_scale, all overflow": lambda: plots.fate_by_scale([1.0, 1e30], [1.0, 2.0]),
    "fate_by_scale, all exact": lambda: plots.fate_by_scale([1.0, 2.0], [1.0, 2.0, 4.0]),
    "gradient_explorer by default": lambda: plots.gradient_explorer(GRADIENTS, interactive=False).picture,
    "gradient_health of a run": lambda: plots.gradient_health(run_of(np.full(200, 2.0**15)), "healthy"),
    "gradient_health that finds its level": lambda: plots.gradient_health(
        run_of(np.r_[2.0 ** np.arange(15, 10, -1), np.full(95, 2.0**11)], np.arange(100) < 4), "healthy"
    ),
    "gradient_health down to zero": lambda: plots.gradient_health(
        run_of(np.r_[2.0**15 * np.ones(20), 2.0 ** np.arange(15.0, -127, -1), np.zeros(20)], np.arange(182) >= 20)
    ),
    "gradient_health of one step": lambda: plots.gradient_health(run_of([1.0])),
    "gradient_health of one step, not finite": lambda: plots.gradient_health(run_of([1.0], 1), "diverged"),
    "gradient_health without gradients": lambda: plots.gradient_health(run_of(np.ones(9), norm=np.zeros(9))),
    "loss_scale_trace with skips": lambda: scale_trace([i % 31 != 7 for i in range(150)], growth_steps=20),
    "loss_scale_trace down to zero": lambda: scale_trace([False] * 150),
    "loss_scale_trace of one step": lambda: scale_trace([True]),
    "loss_scale_trace up to infinity": lambda: scale_trace([True] * 130, growth_steps=1),
    "training_curves that end": lambda: plots.training_curves(
        {"float32": np.exp(-np.arange(60) / 20), "float16": np.r_[np.exp(np.arange(9)), [np.nan] * 51]}
    ),
    "training_curves close together": lambda: plots.training_curves(
        {f"run {i}": np.linspace(3, 1 + i / 100, 40) for i in range(6)}, log=False
    ),
    "training_curves never finite": lambda: plots.training_curves({"a": [np.nan, np.inf], "b": [1.0, 0.5]}),
    "symptoms of one who is well": lambda: plots.symptoms(chart([2, 1.5, 1], [2.0**15] * 3, {"a": 0.5, "b": 0.4})),
    "symptoms of one without scaler": lambda: plots.symptoms(chart([2, 1.9, 1.8], [], {"a": 0.0, "b": 1e-9})),
    "symptoms of one who never was finite": lambda: plots.symptoms(
        chart([np.nan] * 150, [2.0 ** (15 - k) for k in range(140)] + [0.0] * 10, {"a": np.nan, "b": 0.0})
    ),
    "symptoms of one step": lambda: plots.symptoms(chart([1.0], [1.0], {"a": 900.0})),
    "training_curves by epoch": lambda: plots.training_curves({"warm-up": [2.0, 1.0], "none": [2, 1.5]}, unit="epoch"),
    "training_curves of one step": lambda: plots.training_curves({"a": [2.5]}),
    "paired_runs of two policies": lambda: plots.paired_runs(
        {"float32": 0.9 + 0.01 * RNG.normal(size=8), "mixed_float16": 0.9 + 0.01 * RNG.normal(size=8)},
        0.005,
        {"mixed_float16": (-0.003, 0.012)},
    ),
    "paired_runs of three, some not finite": lambda: plots.paired_runs(
        {"float32": [0.8, 0.9], "mixed_float16": [0.7, np.nan], "mixed_bfloat16": [0.8, np.inf]},
        0.01,
        {"mixed_float16": (np.nan, np.nan), "mixed_bfloat16": (-np.inf, np.inf)},
    ),
    "paired_runs of one seed": lambda: plots.paired_runs({"float32": [1.0], "float16": [1.0]}, 1e-9),
    "update_sizes of a step": lambda: plots.update_sizes(
        {"right": 0.2, "no scale_loss": 6.1e-6, "twice": 0.4}, "right"
    ),
    "update_sizes of arrays": lambda: plots.update_sizes({"a": [0.3, 0.4], "b": np.full(4, 8e3)}, "a", title="My own"),
    "update_sizes of nothing and too much": lambda: plots.update_sizes(
        {"right": 1.0, "nothing": 0.0, "overflow": np.inf, "NaN": [np.nan, 1.0], "the same": 1.001}, "right"
    ),
    "learning_rates with skips": lambda: plots.learning_rates(
        {"Keras 3": [0, 0, 0.1, 0.2, 0.3, 0.3], "Keras 2": [0, 0, 0.3, 0.3, 0.3, np.nan]}
    ),
    "learning_rates of one step": lambda: plots.learning_rates({"a": [0.5]}),
    "tally of one kind": lambda: plots.tally({"a": 0}, "None of it"),
    "tally of twelve": lambda: plots.tally({f"kind number {n}": 10**n % 9973 for n in range(12)}, "Twelve", "pieces"),
    "accuracy_by_epoch of two runs": lambda: plots.accuracy_by_epoch(
        {"momentum 0.99": [0.1, 0.1, 0.14, 0.3], "momentum 0.9": [0.5, 0.68, 0.72, 0.75]}, chance=0.1
    ),
    "accuracy_by_epoch close together": lambda: plots.accuracy_by_epoch(
        {f"run {i}": np.linspace(0, 1 - i / 100, 9) for i in range(6)}, title="My own"
    ),
    "accuracy_by_epoch of one epoch": lambda: plots.accuracy_by_epoch({"a": [1.0]}),
    "time_shares of two policies": lambda: plots.time_shares(
        {
            "float32": {"convolutions and the rest": 18.0, "normalisation": 9.0, "optimizer": 1.0, "input": 2.0},
            "mixed_bfloat16": {"convolutions and the rest": 12.0, "normalisation": 9.5, "optimizer": 1.1, "input": 2},
        }
    ),
    "time_shares of many parts": lambda: plots.time_shares(
        {f"row {r}": {f"part {p}": p * (r + 1) for p in range(7)} for r in range(6)}, title="My own"
    ),
    "picture_patches of a slope": lambda: plots.picture_patches(
        np.linspace(0, 1, 64).reshape(8, 8), np.linspace(0, 1, 64).reshape(4, 16), 4
    ),
    "picture_patches of one": lambda: plots.picture_patches(np.zeros((2, 2)), np.zeros((1, 4)), 2, title="My own"),
    "differences of three": lambda: plots.differences(
        {"ViT less logistic regression": (0.03, 0.015, 0.045), "bfloat16": (-0.002, -0.01, 0.006), "none": (0, 0, 0)}
    ),
    "differences of one": lambda: plots.differences({"a": (-1.0, -1.0, -0.5)}, title="My own", what="recall"),
    "time_shares of one part": lambda: plots.time_shares({"all": {"one": 1e-3}}),
}
CASES = {f"{kind}-{name}": partial(draw, name) for kind, draw in BY_FORMAT.items() for name in NAMES} | AWKWARD


@pytest.fixture(scope="session")
def draw() -> Callable[[str], plots.Picture]:
    """Draws a case once, for all the tests that look at it."""
    return cache(lambda case: CASES[case]())


@pytest.fixture(scope="session")
def kinds() -> set[str]:
    """The functions that the cases call."""
    return {case.replace(",", " ").replace("-", " ").split()[0] for case in CASES}


@pytest.fixture
def data() -> SimpleNamespace:
    return SimpleNamespace(gradients=GRADIENTS, scales=SCALES)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", CASES)
    if "few" in metafunc.fixturenames:  # what costs a rendering and does not hang on the format
        metafunc.parametrize("few", [case for case in CASES if "-" not in case or case.endswith("-float16")])
