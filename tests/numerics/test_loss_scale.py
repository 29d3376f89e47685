"""Loss-scale state machines, step by step beside the optimizer of Keras that they teach."""

from __future__ import annotations

import numpy as np
import pytest

from ampcourse.numerics import DynamicLossScale, StaticLossScale, trace, trace_gradients

pytestmark = pytest.mark.filterwarnings("error")


class Keras:
    """`keras.optimizers.LossScaleOptimizer` around plain SGD, fed gradients that are finite or not."""

    def __init__(self, initial_scale: float, growth_steps: int, eager: bool = False) -> None:
        import keras
        import tensorflow as tf

        self.weight = keras.Variable(np.zeros(2, np.float32))
        self.optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(1.0), initial_scale=initial_scale, dynamic_growth_steps=growth_steps
        )
        self.optimizer.build([self.weight])
        self.apply = self.optimizer.apply if eager else tf.function(self.optimizer.apply)

    def step(self, finite: bool, bad: float) -> bool:
        import tensorflow as tf

        before = int(self.optimizer.iterations)
        self.apply([tf.constant([1.0, 1.0 if finite else bad])])
        return int(self.optimizer.iterations) == before + 1

    @property
    def state(self) -> tuple[float, int]:
        return float(self.optimizer.dynamic_scale.numpy()), int(self.optimizer.step_counter.numpy())


def assert_same_steps(finite_steps, initial_scale=2.0**15, growth_steps=2000, seed=0, eager=False):
    bad = np.random.default_rng(seed).choice([np.inf, -np.inf, np.nan], len(finite_steps))
    keras, ours = Keras(initial_scale, growth_steps, eager), DynamicLossScale(initial_scale, growth_steps)
    for i, finite in enumerate(finite_steps):
        assert ours.update(bool(finite)) == keras.step(bool(finite), bad[i]), f"step {i}"
        assert (ours.scale, ours.good_steps) == keras.state, f"after step {i}"


@pytest.fixture(scope="module", autouse=True)
def _keras_without_warnings():
    """Keras's own import may warn; only our warnings matter here."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("keras")


@pytest.mark.parametrize(("growth_steps", "chance"), [(1, 0.6), (2, 0.5), (3, 0.9), (7, 0.9)])
def test_random_steps_agree_with_keras(growth_steps, chance):
    steps = np.random.default_rng(growth_steps).random(200) < chance
    assert_same_steps(steps, 2.0**15, growth_steps, seed=growth_steps)


def test_a_scale_that_is_no_float32_agrees_with_keras():
    assert_same_steps([True, False, True, True, False, True], 1000.1, 2)


def test_the_count_starts_again_after_a_skipped_step_as_in_keras():
    assert_same_steps([True, True, False, True, True, True, True, True, True], growth_steps=3, eager=True)


def test_collapse_to_zero_agrees_with_keras():
    """Without a floor, 142 non-finite steps in a row end at zero, and it never recovers."""
    assert_same_steps([False] * 143 + [True] * 3, growth_steps=2)
    collapse = trace(DynamicLossScale(), [False] * 142)
    assert (collapse.scales[-1], collapse.final_scale) == (2.0**-126, 0.0)


def test_growth_to_infinity_agrees_with_keras():
    assert_same_steps([True] * 5 + [False] * 2, 2.0**125, growth_steps=1)


def test_keras_defaults_are_ours():
    import keras

    theirs = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())
    ours = DynamicLossScale()
    assert (ours.initial_scale, ours.growth_steps) == (theirs.initial_scale, theirs.dynamic_growth_steps)
    assert (ours.scale, ours.growth_steps, ours.floor) == (32768.0, 2000, None)


def test_the_scale_doubles_for_the_step_after_the_row():
    run = trace(DynamicLossScale(growth_steps=2000), [True] * 2001)
    assert run.scales[1999] == 2.0**15
    assert run.scales[2000] == run.final_scale == 2.0**16


def test_a_floor_holds_the_scale_and_growth_leaves_it():
    run = trace(DynamicLossScale(8.0, growth_steps=2, floor=3.0), [False] * 4 + [True] * 2)
    assert run.scales.tolist() == [8, 4, 3, 3, 3, 3]
    assert run.final_scale == 6
    assert trace(DynamicLossScale(floor=1.0), [False] * 200).final_scale == 1


def test_a_static_scale_skips_but_never_moves():
    run = trace(StaticLossScale(1024.0), [True, False, True, True])
    assert run.scales.tolist() == [1024] * 4
    assert run.applied.tolist() == [True, False, True, True]
    assert (run.final_scale, run.skipped) == (1024, 1)
    machine = StaticLossScale()
    assert [machine.update(f) for f in (True, True, False, True)] == [True, True, False, True]
    assert (machine.scale, machine.good_steps) == (2.0**15, 1)


def test_a_trace_leaves_the_machine_as_it_was():
    machine = DynamicLossScale(growth_steps=2)
    first, second = trace(machine, [True, True, True]), trace(machine, [True, True, True])
    assert machine == DynamicLossScale(growth_steps=2)
    assert first.scales.tolist() == second.scales.tolist() == [2.0**15, 2.0**15, 2.0**16]
    assert (first.scales.dtype, first.applied.dtype) == (np.float64, bool)
    assert (first.final_scale, first.skipped) == (2.0**16, 0)
    assert trace(machine, []).final_scale == 2.0**15


def test_a_machine_of_ones_own_can_be_traced():
    class Thirds:
        scale = 9.0

        def update(self, finite):
            self.scale /= 1 if finite else 3
            return finite

    assert trace(Thirds(), [True, False, False]).scales.tolist() == [9, 9, 3]


def test_large_gradients_pull_the_scale_down_until_they_fit():
    run = trace_gradients(DynamicLossScale(growth_steps=4), [-10.0] * 12)
    assert run.scales[:4].tolist() == [2.0**15, 2.0**14, 2.0**13, 2.0**12]
    assert run.applied.tolist() == [False] * 3 + [True] * 4 + [False] + [True] * 4
    assert not trace_gradients(DynamicLossScale(), [np.nan]).applied[0]
    assert trace_gradients(DynamicLossScale(), [1e4] * 3, "bfloat16").applied.all()
    assert not trace_gradients(DynamicLossScale(2.0), [400.0], "float8_e4m3fn").applied[0]
    assert trace_gradients(DynamicLossScale(2.0), [1e308]).skipped == 1


@pytest.mark.parametrize("scale", [0, -1.0, np.nan, np.inf, -np.inf])
def test_a_scale_must_be_finite_and_above_zero(scale):
    for build in (StaticLossScale, DynamicLossScale, lambda s: DynamicLossScale(floor=s)):
        with pytest.raises(ValueError, match=r"^(scale|initial_scale|floor) must be finite and above zero, not .*\.$"):
            build(scale)


@pytest.mark.parametrize("scale", [1e39, 1e-39, 1e-300])
def test_a_scale_must_be_a_float32(scale):
    with pytest.raises(ValueError, match=r"must be a normal float32"):
        DynamicLossScale(scale)


def test_other_settings_are_checked():
    with pytest.raises(TypeError, match=r"^initial_scale must be one number, not str\.$"):
        DynamicLossScale("32768")
    with pytest.raises(ValueError, match=r"^growth_steps must be at least 1, not 0\.$"):
        DynamicLossScale(growth_steps=0)
    for growth_steps in (2.5, True, "2"):
        with pytest.raises(TypeError, match=r"^growth_steps must be a whole number"):
            DynamicLossScale(growth_steps=growth_steps)
    with pytest.raises(ValueError, match=r"^floor \(4\) must not be above initial_scale \(2\)\.$"):
        DynamicLossScale(2.0, floor=4.0)


@pytest.mark.parametrize("finite", [float("nan"), 1.0, 1, None, "True", [True]])
def test_a_step_is_a_bool(finite):
    """bool(nan) is True: a norm passed by mistake would count as finite just when it is not."""
    for machine in (StaticLossScale(), DynamicLossScale()):
        with pytest.raises(TypeError, match=r"^finite must be True or False, not .*\.$"):
            machine.update(finite)
    with pytest.raises(TypeError, match=r"^finite must be True or False"):
        trace(DynamicLossScale(), [True, finite])


def test_bools_of_numpy_and_tensorflow_are_bools():
    import tensorflow as tf

    machine = DynamicLossScale()
    assert machine.update(np.bool_(True)) is True
    assert machine.update(tf.reduce_all(tf.math.is_finite([1.0, np.nan]))) is False
    assert machine.scale == 2.0**14


def test_what_cannot_be_traced_is_refused():
    with pytest.raises(TypeError, match=r"^loss_scale must have a scale"):
        trace(1024.0, [True])
    with pytest.raises(TypeError, match=r"^loss_scale must have a scale"):
        trace(DynamicLossScale, [True])
    with pytest.raises(TypeError, match=r"^The steps must be a list or array, not int\.$"):
        trace(DynamicLossScale(), 5)
    with pytest.raises(ValueError, match=r"^largest_gradients is empty"):
        trace_gradients(DynamicLossScale(), [])
