"""The recorder: a few fused reductions a step, written to variables on the device, without any Python at run time.

All gradients of a step are laid side by side in rows of `WIDTH` numbers, so that the number of operations hangs on
the number of variables only in the one that lays them down. What a step leaves behind is one row in a ring of `KEEP`
rows (for the history), totals that no ring can lose, and running means for each variable.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ampcourse.amp.health.watched import Counters, Watched, key, tensorflow_variable

WIDTH = 256
KEEP = 1024
PACK = 2**22  # numbers laid side by side at once: bounds the memory
SAMPLED = 1024  # elements of a variable whose movement is followed
MEMORY = 64  # clean steps that a running mean looks back

ROW = ("scale", "nonfinite", "nan", "variables", "norm", "largest", "flushed", "subnormal", "update_ratio", "unmoved")
TOTALS = ("steps", "nonfinite_steps", "nan_steps", "streak", "clean", "longest", "halted")
PER_VARIABLE = (
    "nonfinite_steps",
    "nonfinite",
    "clean",
    "norm",
    "largest",
    "flushed",
    "subnormal",
    "updates",
    "update_ratio",
    "unmoved",
)


class Recorder:
    """Watches the gradients of one list of variables."""

    def __init__(
        self, counters: Counters, variables: Sequence[Any], watched: Sequence[Watched], strategy: Any = None
    ) -> None:
        """With a strategy of several replicas each keeps its own state, and what is counted is added up over them."""
        strategy = strategy or tf.distribute.get_strategy()
        self.replicas = strategy.num_replicas_in_sync
        self.counters, self.watched = counters, list(watched)
        self.variables = list(variables)
        self.places = {key(v): i for i, v in enumerate(self.variables)}
        self.places |= {id(v): i for i, v in enumerate(self.variables)}
        count = len(self.variables)
        steps = [max(1, -(-w.size // SAMPLED)) for w in self.watched]
        self._strides = steps
        self._sizes = [-(-w.size // step) for w, step in zip(self.watched, steps, strict=True)]
        rows = sum(-(-size // WIDTH) for size in self._sizes)
        with strategy.scope():
            self.ring = _state([KEEP, len(ROW)])
            self.iterations = _state([KEEP], tf.int64)
            self.totals = _state([len(TOTALS)], tf.int64)
            self.means = _state([count, len(PER_VARIABLE)])
            self.sample = _state([rows, WIDTH])
            self.before = _state([], tf.int64)

    def record(self, gradients: Sequence[Any], variables: Sequence[Any] | None = None) -> None:
        """Adds one step.

        Args:
            gradients: scaled, as the tape gives them; None where a variable has no part in the loss.
            variables: what they belong to; by default the watched variables in order.
        """
        found = self._in_order(gradients, variables)
        stats, sizes = self._gradients(found)
        if self.replicas > 1:
            stats = _over_replicas(stats, self.replicas)
            sizes *= self.replicas
        scale, applied = self.counters.scale(), self.counters.applied()
        moved = self._movement(applied)
        bad, nan = tf.reduce_sum(stats[:, 0]), tf.reduce_sum(stats[:, 1])
        clean = tf.equal(bad, 0.0)
        self._count(clean, nan > 0, applied, scale, stats, sizes, moved)
        self._mean(clean, scale, stats, sizes, moved)
        self.before.assign(applied)

    def watches(self, optimizer: Any, variables: Sequence[Any]) -> bool:
        """Whether it is this optimizer and these variables that are watched."""
        same = len(variables) == len(self.variables) and all(map(operator.is_, variables, self.variables))
        return same and self.counters.optimizer is optimizer

    def go_on(self) -> None:
        """Takes back a halt."""
        place = TOTALS.index("halted")
        if self.replicas == 1 and int(self.totals[place]):
            self.totals.assign(tf.tensor_scatter_nd_update(self.totals, [[place]], tf.zeros([1], tf.int64)))

    def halted(self) -> tf.Tensor:
        """Whether the run was halted."""
        return self.totals[TOTALS.index("halted")] > 0

    def halt(self, lowest: float) -> tf.Tensor:
        """After `record`: halts the run if this step cannot be applied, nor skipped without harm; says whether."""
        bad = self.totals[TOTALS.index("streak")] > 0
        if self.counters.dynamic:
            bad = tf.logical_and(bad, self.counters.scale() <= lowest)
        self.totals.assign_add(tf.one_hot(TOTALS.index("halted"), len(TOTALS), dtype=tf.int64) * tf.cast(bad, tf.int64))
        return bad

    def _in_order(self, gradients: Sequence[Any], variables: Sequence[Any] | None) -> list[Any]:
        if variables is None:
            return list(gradients)
        ordered: list[Any] = [None] * len(self.variables)
        for gradient, variable in zip(gradients, variables, strict=False):
            place = self.places.get(id(variable), self.places.get(key(variable)))
            if place is not None:
                ordered[place] = gradient
        return ordered

    def _gradients(self, gradients: list[Any]) -> tuple[tf.Tensor, tf.Tensor]:
        """Per variable: non-finite, NaN, flushed and subnormal elements, sum of squares, largest; and the sizes."""
        dense = [i for i, g in enumerate(gradients) if g is not None and not isinstance(g, tf.IndexedSlices)]
        total = tf.zeros([len(gradients), 6])
        sizes = np.zeros(len(gradients), np.float32)
        sizes[dense] = [self.watched[i].size for i in dense]
        for pack in _packs(dense, [w.size for w in self.watched]):
            flat, rows = _lay(
                [tf.reshape(tf.cast(gradients[i], tf.float32), [self.watched[i].size]) for i in pack], self._all(pack)
            )
            total += self._sum(flat, np.asarray(pack)[rows], len(gradients))
        sizes = tf.constant(sizes)
        for i, gradient in enumerate(gradients):
            if isinstance(gradient, tf.IndexedSlices):
                values = tf.cast(tf.reshape(gradient.values, [1, -1]), tf.float32)
                total += self._sum(values, np.array([i]), len(gradients))
                sizes += tf.one_hot(i, len(gradients)) * tf.cast(tf.size(values), tf.float32)
        padding = np.zeros([len(gradients), 6], np.float32)
        padding[dense, 2] = [-(-self.watched[i].size // WIDTH) * WIDTH - self.watched[i].size for i in dense]
        return total - padding, sizes

    def _all(self, pack: list[int]) -> list[int]:
        return [self.watched[i].size for i in pack]

    def _sum(self, x: tf.Tensor, owners: np.ndarray, count: int) -> tf.Tensor:
        """What is counted in rows of numbers, added up by the variables that own them."""
        flush = np.array([[self.watched[i].flushes_at] for i in owners], np.float32)
        tiny = np.array([[self.watched[i].least_normal] for i in owners], np.float32)
        size = tf.abs(x)
        finite = size < np.inf
        good = tf.where(finite, size, tf.zeros_like(size))
        lost = tf.logical_and(finite, good <= flush)
        sums = tf.stack(
            [
                _sum_rows(tf.logical_not(finite)),
                _sum_rows(tf.math.is_nan(x)),
                _sum_rows(lost),
                _sum_rows(tf.logical_and(good > flush, good < tiny)),
                tf.reduce_sum(good * good, axis=1),
            ],
            axis=1,
        )
        ids = tf.constant(owners, tf.int32)
        summed = tf.math.unsorted_segment_sum(sums, ids, count)
        largest = tf.math.unsorted_segment_max(tf.reduce_max(good, axis=1), ids, count)
        return tf.concat([summed, tf.maximum(largest, 0.0)[:, None]], axis=1)

    def _movement(self, applied: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Whether the step before this one moved weights; sums of squares of movement and weight, elements unmoved."""
        parts = []
        for variable, stride in zip(self.variables, self._strides, strict=True):
            flat = tf.reshape(tf.convert_to_tensor(tensorflow_variable(variable)), [-1])
            parts.append(tf.cast(flat[::stride] if stride > 1 else flat, tf.float32))
        now, owners = _lay(parts, self._sizes)
        change = now - self.sample
        sums = tf.stack(
            [tf.reduce_sum(change * change, 1), tf.reduce_sum(now * now, 1), _sum_rows(tf.equal(change, 0.0))], axis=1
        )
        summed = tf.math.unsorted_segment_sum(sums, tf.constant(owners, tf.int32), len(self.variables))
        padding = np.zeros([len(self.variables), 3], np.float32)
        padding[:, 2] = [-(-size // WIDTH) * WIDTH - size for size in self._sizes]
        stepped = tf.logical_and(applied > self.before, self.totals[0] > 0)
        stepped = tf.logical_and(stepped, tf.equal(applied % self.counters.accumulates, 0))
        if self.counters.counts_skips:  # then a skipped step looks like an applied one that moved nothing
            stepped = tf.logical_and(stepped, tf.equal(self.totals[TOTALS.index("streak")], 0))
        self.sample.assign(now)
        return stepped, summed - padding

    def _count(
        self,
        clean: tf.Tensor,
        has_nan: tf.Tensor,
        applied: tf.Tensor,
        scale: tf.Tensor,
        stats: tf.Tensor,
        sizes: tf.Tensor,
        moved: tuple[tf.Tensor, tf.Tensor],
    ) -> None:
        """One row of the ring, and the totals."""
        stepped, movement = moved
        total = tf.reduce_sum(stats, axis=0)
        elements = tf.maximum(tf.reduce_sum(sizes), 1.0)
        squares = tf.reduce_sum(movement, axis=0)
        nothing = tf.constant(np.nan, tf.float32)
        row = tf.stack(
            [
                scale,
                total[0],
                total[1],
                tf.reduce_sum(tf.cast(stats[:, 0] > 0, tf.float32)),
                tf.where(clean, tf.sqrt(total[4]) / scale, nothing),
                tf.where(clean, tf.reduce_max(stats[:, 5]), nothing),
                tf.where(clean, total[2] / elements, nothing),
                tf.where(clean, total[3] / elements, nothing),
                tf.where(stepped, tf.sqrt(squares[0] / squares[1]), nothing),
                tf.where(stepped, squares[2] / float(sum(self._sizes)), nothing),
            ]
        )
        t = tf.convert_to_tensor(self.totals)
        place = tf.cast(t[0] % KEEP, tf.int32)[None, None]
        self.ring.assign(tf.tensor_scatter_nd_update(self.ring, place, row[None]))
        self.iterations.assign(tf.tensor_scatter_nd_update(self.iterations, place, applied[None]))
        good = tf.cast(clean, tf.int64)
        bad = 1 - good
        now = (t[4] + 1) * good
        counted = [t[0] + 1, t[1] + bad, t[2] + tf.cast(has_nan, tf.int64), (t[3] + 1) * bad, now]
        self.totals.assign(tf.stack([*counted, tf.maximum(t[5], now), t[6]]))

    def _mean(
        self,
        clean: tf.Tensor,
        scale: tf.Tensor,
        stats: tf.Tensor,
        sizes: tf.Tensor,
        moved: tuple[tf.Tensor, tf.Tensor],
    ) -> None:
        """Running means of each variable: over the clean steps, and over the steps that moved weights."""
        m = tf.convert_to_tensor(self.means)
        stepped, movement = moved
        column = {name: m[:, i] for i, name in enumerate(PER_VARIABLE)}
        seen = tf.logical_and(clean, sizes > 0)
        went = tf.logical_and(stepped, movement[:, 1] > 0)
        known = tf.maximum(sizes, 1.0)
        bad = tf.cast(stats[:, 0] > 0, tf.float32)

        def mean(name: str, new: tf.Tensor, count: str, when: tf.Tensor) -> tf.Tensor:
            weight = 1.0 / tf.minimum(column[count] + 1.0, float(MEMORY))
            return tf.where(when, column[name] + (new - column[name]) * weight, column[name])

        new = [
            column["nonfinite_steps"] + bad,
            column["nonfinite"] + stats[:, 0],
            column["clean"] + tf.cast(seen, tf.float32),
            mean("norm", tf.sqrt(stats[:, 4]) / scale, "clean", seen),
            tf.maximum(column["largest"], stats[:, 5]),
            mean("flushed", stats[:, 2] / known, "clean", seen),
            mean("subnormal", stats[:, 3] / known, "clean", seen),
            column["updates"] + tf.cast(went, tf.float32),
            mean("update_ratio", tf.sqrt(movement[:, 0] / tf.maximum(movement[:, 1], 1e-38)), "updates", went),
            mean("unmoved", movement[:, 2] / np.array(self._sizes, np.float32), "updates", went),
        ]
        self.means.assign(tf.stack(new, axis=1))


def _state(shape: list[int], dtype: tf.DType = tf.float32) -> tf.Variable:
    """A variable of which each replica has its own, so that writing to it needs no other replica."""
    return tf.Variable(
        tf.zeros(shape, dtype),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def _over_replicas(stats: tf.Tensor, replicas: int) -> tf.Tensor:
    """Counts and sums of squares added up, and the largest of the largest: there is no maximum to reduce by."""
    context = tf.distribute.get_replica_context()
    place = tf.one_hot(context.replica_id_in_sync_group, replicas)
    summed, largest = context.all_reduce(tf.distribute.ReduceOp.SUM, [stats[:, :5], stats[:, 5][:, None] * place[None]])
    return tf.concat([summed, tf.reduce_max(largest, axis=1, keepdims=True)], axis=1)


def _sum_rows(mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(mask, tf.float32), axis=1)


def _packs(indices: list[int], sizes: list[int]) -> list[list[int]]:
    """Neighbours together, as many as fit."""
    packs: list[list[int]] = []
    filled = PACK
    for i in indices:
        if filled + sizes[i] > PACK:
            packs.append([])
            filled = 0
        packs[-1].append(i)
        filled += sizes[i]
    return packs


def _lay(parts: list[tf.Tensor], sizes: list[int]) -> tuple[tf.Tensor, np.ndarray]:
    """Flat tensors side by side in rows, each filled up with zeros; and which of them each row belongs to."""
    pieces = []
    for part, size in zip(parts, sizes, strict=True):
        pieces.append(part)
        if size % WIDTH:
            pieces.append(np.zeros(WIDTH - size % WIDTH, np.float32))
    flat = tf.concat(pieces, axis=0) if len(pieces) > 1 else pieces[0]
    owners = np.repeat(np.arange(len(parts)), [-(-size // WIDTH) for size in sizes])
    return tf.reshape(flat, [-1, WIDTH]), owners
