"""`GradientMonitor`: what happens to gradients under mixed precision, in `fit` and in custom loops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from ampcourse.amp.health import judge, logs, rescue, watched
from ampcourse.amp.health.facts import Facts
from ampcourse.amp.health.hook import FitHook, build
from ampcourse.amp.health.live import Live
from ampcourse.amp.health.table import VariableTable, variable_table

if TYPE_CHECKING:
    from ampcourse.amp.health.reader import Reader
    from ampcourse.plots import Picture

READ_EVERY = 16  # steps between two looks of the host at what the device has recorded
LOWEST = 2.0**-10  # a scale that no healthy run needs: with stop=True the device itself halts there


class GradientMonitor(keras.callbacks.Callback):
    """Watches gradients, loss scale and updates of a run, step by step, and says how the run is doing.

    In `fit` it is a callback: `model.fit(..., callbacks=[monitor])`. In a loop of your own, call
    `monitor.attach(optimizer, model)` once, and in the step, right before `optimizer.apply`,
    `monitor.record(gradients)` with the gradients as the tape gives them (scaled, if the loss was). Both work eagerly,
    inside `tf.function`, and with `jit_compile=True`: what is recorded is part of the graph, and no Python runs in a
    step.

    What is counted, for each trainable variable:

    - non-finite: NaN and infinite elements. A check by `is_nan` misses the infinities.
    - norm: the 2-norm of the unscaled gradient, of float32 sums. A step with non-finite gradients has none.
    - flushed: the fraction of elements of the scaled gradient that are zero in the layer's compute dtype. Gradients
      reach the optimizer as float32, but the kernels' hold values that were rounded to the compute dtype on the way,
      so whatever was flushed is already an exact zero, like a gradient that is zero by right (an inactive ReLU).
      Where a gradient was computed in float32 after all, as inside a normalization, what would round to zero counts:
      at most 2**-25 for float16. For float32 and bfloat16 only exact zeros count. So this is an upper bound: in a
      healthy network with ReLUs it is often more than one half.
    - subnormal: the fraction that is not zero but below the least normal number of the compute dtype (2**-14 for
      float16): such values have lost part of their significand, and nothing but underflow makes many of them.
      A verdict of "underflowing" needs most of a kernel's non-zero gradients to be subnormal, or the whole of it zero.
    - update ratio: the 2-norm of a step's change to the weights over the 2-norm of the weights, from up to 1,024
      evenly spaced elements. The table sets it against the unit roundoff of the dtype the variable is stored in, not
      of the compute dtype: the update is added where the variable is stored, and there it rounds away. That is
      what float32 master weights are for.

    Under a MirroredStrategy non-finite, flushed and subnormal elements are counted over all replicas, and the norm is
    the root of the summed squares of the replicas' own gradients, before Keras adds them.

    What it cannot see: whether a loop of your own has scaled the loss. With SGD a forgotten `scale_loss` shows, as
    updates that are too small by the loss scale, and `says` asks about it. Adam, and every optimizer that divides a
    gradient by its own size, cancels that factor: updates are of the usual length, and the norms, which are divided by
    the scale, look like those of a model with small gradients. Nor does it see what is lost in the forward pass, or a
    loss that is finite but wrong.

    For a sparse gradient (`tf.IndexedSlices`) its rows count as they come, repeated ones several times.

    Args:
        log: where to write the history: a path that ends in .csv, or a folder for TensorBoard. A run that is there
            already is never written over: after run.csv comes run-2.csv, and a printed line says so.
        stop: in `fit`, end the run when it is collapsing or diverged, with finite weights. Every non-finite step from
            a loss scale of 2**-10 on, and without a loss scaler any non-finite step, is then halted on the device.
        save: a path ending in .weights.h5 or .keras: after `fit` it holds the last weights that were finite.
        live: in a notebook, show the picture while the run goes on.
        every: write each `every`-th step to the log; non-finite steps are always written.
        verbose: 1 prints a sentence when the run gets into trouble; 0 prints nothing.

    Raises:
        ValueError: for an argument that cannot be used, and if Keras runs on a backend other than TensorFlow.
    """

    def __init__(
        self,
        log: str | Path | None = None,
        stop: bool = False,
        save: str | Path | None = None,
        live: bool = False,
        every: int = 1,
        verbose: int = 1,
    ) -> None:
        super().__init__()
        if (backend := keras.backend.backend()) != "tensorflow":
            raise ValueError(
                f"GradientMonitor watches TensorFlow only, but Keras runs on {backend} here: set "
                "KERAS_BACKEND=tensorflow before Keras is imported."
            )
        for name, value in {"stop": stop, "live": live}.items():
            if not isinstance(value, bool | np.bool_):
                raise ValueError(f"{name} must be True or False, not {value!r}.")
        if verbose not in (0, 1):
            raise ValueError(f"verbose must be 0 (say nothing) or 1, not {verbose!r}.")
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
            raise ValueError(f"every must be a whole number of steps, at least 1, not {every!r}.")
        self.stop, self.live, self.every, self.verbose = bool(stop), bool(live), int(every), verbose
        self._live = Live()
        self._save = rescue.check_path(save) if save is not None else None
        self._log = logs.open_log(log, self.every) if log is not None else None
        if self._log and self._log.moved and verbose:
            print(f"GradientMonitor: {self._log.moved} already holds a run, so this one is logged to {self._log.path}.")  # noqa: T201
        self._recorder: Any = None
        self._reader: Reader | None = None
        self._hook: FitHook | None = None
        self._rescue: rescue.Rescue | None = None
        self._fit_model: Any = None
        self._calls = 0
        self._interrupted = False  # whether something else took the train function while fit ran
        self._said: set[str] = set()
        self._ended: tuple[str, list[str]] | None = None  # what stopped the run, before weights were put back

    # In a custom loop

    def attach(self, optimizer: Any, model_or_variables: Any) -> None:
        """Watch these variables, in this order; once, outside of any tf.function. Builds the optimizer if need be.

        Args:
            optimizer: of Keras 3 or tf_keras, with or without a LossScaleOptimizer around it.
            model_or_variables: a model with weights, or trainable variables in the order of the gradients.

        Raises:
            ValueError: if there is nothing to watch, or it cannot be watched.
        """
        if self.stop or self._save:
            raise ValueError(
                "stop and save work in model.fit only: in a loop of your own, look at monitor.should_stop now and "
                "then, and leave the loop."
            )
        self._attach(optimizer, model_or_variables)

    def record(self, gradients: Sequence[Any]) -> None:
        """One step: call it right before `optimizer.apply`, also inside tf.function.

        Args:
            gradients: one a variable in the order given to `attach`, scaled as they are; None where a variable has no
                part in the loss.

        Raises:
            ValueError: if `attach` was not called, or the gradients do not fit the variables.
        """
        if self._recorder is None:
            raise ValueError("Call monitor.attach(optimizer, model) once before the first monitor.record(gradients).")
        import tensorflow as tf

        # In a learner's tf.function, AutoGraph would rewrite all of this code, which needs no rewriting.
        tf.autograph.experimental.do_not_convert(self._record)(gradients)

    def _record(self, gradients: Sequence[Any]) -> None:
        self._recorder.record(watched.check_gradients(gradients, self._recorder.watched))

    @property
    def should_stop(self) -> bool:
        """Whether the run is collapsing or diverged: for a loop of your own, to be asked every few dozen steps."""
        return self.summary()["verdict"] in ("collapsing", "diverged")

    # What is known

    def summary(self) -> dict[str, Any]:
        """The run so far, in a few numbers.

        Returns:
            steps, skipped (steps the optimizer did not apply), nonfinite_steps, nan_steps (those with a NaN among
            the gradients), scale (for the next step; 1.0 where nothing scales), scaled (whether there is a loss
            scale) and verdict: healthy, settling, collapsing, diverged or underflowing.
        """
        facts = self._facts()
        return {
            "steps": facts.steps,
            "skipped": facts.skipped,
            "nonfinite_steps": facts.nonfinite_steps,
            "nan_steps": facts.nan_steps,
            "scale": facts.scale,
            "scaled": facts.scaled,
            "verdict": self._judge(facts)[0],
        }

    @property
    def says(self) -> list[str]:
        """The reasons for the verdict as sentences, the most important first."""
        facts = self._facts()
        if not facts.steps and self._calls:
            return [
                "No step was recorded: the model's train_step does not call apply or apply_gradients of "
                "model.optimizer. Watch the optimizer that it does call with monitor.attach and monitor.record."
            ]
        said = list(self._judge(facts)[1])
        if self._reader and self._reader.lost:
            said.append(f"The history lacks {judge.count(self._reader.lost)}, which nobody asked for in time.")
        if self._interrupted:
            said.append(
                "While fit ran, compile, fit or train_on_batch of the same model was called: from there to the end of "
                "that epoch nothing was watched, and after compile the count starts again."
            )
        return said

    @property
    def history(self) -> dict[str, np.ndarray]:
        """One array a quantity, one entry a recorded step.

        step (from 1), scale, skipped (bool), nonfinite, nan (elements), variables (with non-finite gradients), norm
        (unscaled, over all variables), largest (absolute, scaled), flushed, subnormal (fractions of all elements),
        update_ratio, unmoved (fraction); NaN where a step has none. A loop that takes more than 1,024 steps
        without asking loses the oldest of them here (not in the counts of `summary`).
        """
        return dict(self._facts().history)

    def table(self) -> VariableTable:
        """One row a variable; prints as text, shows as an HTML table, and holds the numbers in `.rows`."""
        facts = self._facts()
        return variable_table(facts, f"Gradients of {judge.count(facts.steps)}, by variable: {self._judge(facts)[0]}")

    def picture(self) -> Picture:
        """Loss scale, skipped steps and gradient norms, step by step."""
        from ampcourse.plots import gradient_health

        return gradient_health(self.history, self.summary()["verdict"])

    def __str__(self) -> str:
        s = self.summary()
        head = f"{s['verdict']}: {judge.count(s['steps'])}, {s['skipped']:,} skipped, loss scale {s['scale']:g}"
        return "\n".join([head, *self.says])

    # In fit

    def on_train_begin(self, logs: Any = None) -> None:
        """Keras calls it: watch the model's optimizer from the next step on."""
        model, optimizer = self.model, self.model.optimizer
        if self._fit_model is not None and self._fit_model is not model:
            raise ValueError("This GradientMonitor already watches another model: make one monitor for each model.")
        if optimizer is None:
            raise ValueError("The model has no optimizer: compile it with one before fit.")
        if model.built and not model.trainable_variables:
            raise ValueError("The model has no trainable variables, so there is nothing to watch.")
        self._fit_model = model
        self._calls, self._ended, self._rescue = 0, None, None
        if model.built:
            self._begin()
            self._hook.install()
        else:
            self._hook = FitHook(model, self._step, self._after_step)
            self._hook.install(self._begin)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it: after a callback has compiled or trained the model, watch from here on."""
        if not self._hook.active:
            self._interrupted = True
            self._begin()
            self._hook.install()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras calls it."""
        self._look()

    def on_train_end(self, logs: Any = None) -> None:
        """Keras calls it: leave no trace in the model."""
        self._interrupted |= not self._hook.active
        self._hook.remove()
        self._look(last=True)
        if self._rescue:
            self._rescue.write()

    def _begin(self, iterator: Any = None) -> None:
        """Watch the model of fit; with an iterator it has no weights yet and is built first."""
        model = self._fit_model
        if iterator is not None:
            build(model, iterator)
        optimizer, variables = model.optimizer, model.trainable_variables
        if not optimizer.built:
            optimizer.build(variables)
        new = self._recorder is None or not self._recorder.watches(optimizer, variables)
        if new:
            self._attach(optimizer, model)
            if self._log:
                self._log.restart()
        if iterator is None and (new or self._hook is None):
            self._hook = FitHook(model, self._step, self._after_step)
        self._reader.resume()
        self._recorder.go_on()
        everything = self._save is not None or (self.stop and self._recorder.replicas > 1)
        self._rescue = rescue.Rescue(model, self._save, everything)
        self._rescue.keep(force=True)

    def _implements_train_batch_hooks(self) -> bool:
        """Asked by the `fit` of tf_keras alone, and first of all."""
        raise ValueError(
            "GradientMonitor is a callback of Keras 3, and this model is one of tf_keras (Keras 2): write the loop and "
            "call monitor.attach and monitor.record."
        )

    def _attach(self, optimizer: Any, source: Any) -> None:
        import tensorflow as tf

        from ampcourse.amp.health.device import Recorder
        from ampcourse.amp.health.reader import Reader

        if not tf.executing_eagerly():
            raise ValueError("Call monitor.attach outside of tf.function, once, before the first step.")
        if not hasattr(optimizer, "apply_gradients"):
            raise ValueError(f"monitor.attach needs an optimizer first, not {type(optimizer).__name__}.")
        variables = watched.trainable(source)
        if not getattr(optimizer, "built", True) or not getattr(optimizer, "_built", True):
            optimizer.build(variables)
        counters = watched.Counters(optimizer)
        strategy = getattr(counters.inner, "_distribution_strategy", None) or tf.distribute.get_strategy()
        described = watched.describe(source, variables, counters.scaled)
        self._own_loop = self._fit_model is None
        self._recorder = Recorder(counters, variables, described, strategy)
        self._reader = Reader(self._recorder, list(getattr(source, "non_trainable_variables", [])))

    def _step(self, apply: Any, gradients: Any, variables: Any) -> Any:
        """One step of fit, as traced: record, then apply unless halted."""
        import tensorflow as tf

        gradients = list(gradients)
        variables = list(variables) if variables is not None else None
        recorder = self._recorder
        if not self.stop or recorder.replicas > 1:  # replicas cannot wait for each other inside a condition
            recorder.record(gradients, variables)
            return apply(gradients, variables)

        def go_on() -> tf.Tensor:
            recorder.record(gradients, variables)
            return recorder.halt(LOWEST)

        halted = tf.cond(recorder.halted(), lambda: tf.constant(True), go_on)

        def work() -> tf.Tensor:
            apply(gradients, variables)
            return tf.constant(True)

        tf.cond(halted, lambda: tf.constant(False), work)
        return None

    def _after_step(self) -> None:
        self._calls += 1
        steps = max(1, int(getattr(self._fit_model, "steps_per_execution", 1) or 1))
        if self._calls % max(1, READ_EVERY // steps) == 0:
            self._look()

    def _look(self, last: bool = False) -> None:
        """Read, judge, log, and act."""
        facts = self._facts()
        verdict, says = self._judge(facts)
        if self._log:
            try:
                self._log.write(facts.history, last)
            except OSError as error:
                self._log = None
                print(f"GradientMonitor: the log cannot be written any more ({str(error).splitlines()[0]}).")  # noqa: T201
        if self.live and facts.steps:
            self._live.show(self.picture, last)
        if verdict in ("collapsing", "diverged"):
            self._alarm(verdict, says)
        elif self._rescue and not facts.streak and facts.weights_finite and facts.state_finite:
            self._rescue.keep(force=last)

    def _alarm(self, verdict: str, says: list[str]) -> None:
        stopping = self.stop and not self._fit_model.stop_training
        if stopping:
            self._fit_model.stop_training = True
            self._ended = (verdict, says)
            if self._rescue:
                self._rescue.restore()
        if self.verbose and (verdict not in self._said or stopping):
            print(f"GradientMonitor: {verdict}. {says[0]}" + (" The run is stopped." if stopping else ""))  # noqa: T201
        self._said.add(verdict)

    def _judge(self, facts: Facts) -> tuple[str, list[str]]:
        return self._ended or judge.judge(facts)

    def _facts(self) -> Facts:
        if not self._reader:
            return Facts(history={name: np.zeros(0) for name in logs.COLUMNS})
        facts = self._reader.read()
        facts.own_loop = self._own_loop
        return facts
