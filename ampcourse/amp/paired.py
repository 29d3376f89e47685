"""`parity()`: paired runs over seeds, and whether mixed precision changed the result by more than is tolerated."""

from __future__ import annotations

import contextlib
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from numbers import Integral, Real
from typing import Any

import numpy as np

from ampcourse.amp.paired_interval import judged, studentized_interval
from ampcourse.amp.paired_report import Comparison, Metrics, Parity

MOST_SEEDS = 1000


class RunFailed(ValueError):
    """A training run did not give a metric; `.metrics` holds those of the runs that were finished before."""

    def __init__(self, says: str, metrics: Metrics) -> None:
        super().__init__(says)
        self.metrics = dict(metrics)


def parity(
    train_fn: Callable[[Any, int], Any],
    policies: Iterable[Any] = ("float32", "mixed_float16"),
    seeds: Iterable[int] = range(5),
    tolerance: float = 0.005,
    *,
    confidence: float = 0.95,
    known: Mapping[tuple[str, int], float] | None = None,
    progress: bool = True,
) -> Parity:
    """Train under each policy with the same seeds, and say whether the final metric differs by more than tolerated.

    Runs with the same seed are a pair: they share initial weights and batches, so that most of what varies between
    runs cancels in their difference. Before each run the policy becomes Keras's global dtype policy and the seed is
    set with `keras.utils.set_random_seed`; afterwards the policy and the states of Python's and NumPy's generators
    are put back. TensorFlow's own generator cannot be, and stays seeded.

    Args:
        train_fn: called as `train_fn(policy, seed)`; trains and returns the final metric, one number, for instance an
            accuracy on data that was not trained on.
        policies: 2 to 6 Keras dtype policies or their names; the others are compared with the first.
        seeds: different whole numbers; 5 can decide clear cases, 10 are better, fewer than 4 never decide.
        tolerance: the largest difference taken as none, in the metric's own units. Popular articles say that 0.3 to 0.5
            percentage points of accuracy are usual, which is 0.003 to 0.005 of an accuracy between 0 and 1.
        confidence: of the interval; 0.95 leaves 2.5 % on either side.
        known: metrics of finished runs, as in `Parity.metrics` or `RunFailed.metrics`; they are not run again.
        progress: show which run is on, in one line that is overwritten, where a person watches.

    Raises:
        TypeError, ValueError: for an argument that makes no sense, in one sentence.
        RunFailed: (a ValueError) if `train_fn` raises or does not return one number; names the policy and the seed.
    """
    if not callable(train_fn):
        raise TypeError(f"train_fn is a function train_fn(policy, seed) that trains, not {_short(train_fn)}.")
    named, seeds = _named_policies(policies), _whole_seeds(seeds)
    _check_fraction(tolerance, "tolerance", "a difference such as 0.005", math.inf)
    _check_fraction(confidence, "confidence", "a fraction such as 0.95", 1)
    done, metrics = _checked_known({} if known is None else known), {}
    runs = [(name, seed) for seed in seeds for name in named]
    for number, (name, seed) in enumerate(runs, 1):
        if (name, seed) in done:
            metrics[name, seed] = done[name, seed]
            continue
        with _shown(f"run {number} of {len(runs)}: {name}, seed {seed}", progress), _set(named[name], seed):
            metrics[name, seed] = _run(train_fn, named[name], name, seed, metrics)
    seen = Parity(tuple(named), seeds, metrics, (), float(tolerance), float(confidence))
    return replace(seen, comparisons=_compared(seen))


def _compared(parity: Parity) -> tuple[Comparison, ...]:
    """Each policy after the first against it."""
    first, *others = parity.policies
    found = []
    for name in others:
        with np.errstate(invalid="ignore"):
            differences = parity.of(name) - parity.of(first)
        finite = np.isfinite(differences).all()
        interval = studentized_interval(differences, parity.confidence) if finite else (math.nan, math.nan)
        verdict, reason = judged(differences, interval, parity.tolerance)
        if not finite:
            broken = [(p, s) for p in (first, name) for s in parity.seeds if not math.isfinite(parity.metrics[p, s])]
            runs = ", ".join(f"{parity.metrics[run]} under {run[0]}, seed {run[1]}" for run in broken[:4])
            reason = f"{reason} ({runs}{', ...' if len(broken) > 4 else ''})"
        found.append(Comparison(name, first, differences, interval, verdict, reason))
    return tuple(found)


def _run(train_fn: Callable, policy: Any, name: str, seed: int, metrics: Metrics) -> float:
    try:
        returned = train_fn(policy, seed)
    except Exception as error:
        says = " ".join(str(error).split())[:300] or "no message"
        raise RunFailed(f"train_fn({name!r}, {seed}) raised {type(error).__name__}: {says}", metrics) from error
    try:
        return _number(returned)
    except Exception:  # whatever NumPy says of an object that it cannot read
        says = "the final metric as one number"
        raise RunFailed(f"train_fn({name!r}, {seed}) returned {_short(returned)}, not {says}.", metrics) from None


def _number(returned: Any) -> float:
    """One number of any kind, also a bfloat16 or a fraction; anything else raises."""
    if isinstance(returned, Real | Decimal) and not isinstance(returned, bool | np.generic):
        return float(returned)
    # np.asarray cannot read a bfloat16 tensor, its own numpy() can.
    number = np.asarray(returned.numpy() if hasattr(returned, "numpy") else returned)
    if number.size != 1 or number.dtype.kind in "OUSMmcb":
        raise TypeError
    return float(number.reshape(()).astype(np.float64))


def _checked_known(known: Any) -> Metrics:
    """Finished runs as plain data.

    Raises:
        TypeError: if it is not a mapping from (policy, seed) to one number.
    """
    like = "known is what .metrics of an earlier parity or RunFailed holds: (policy, seed) -> one number"
    if not isinstance(known, Mapping):
        raise TypeError(f"{like}, not {_short(known)}.")
    for key, value in known.items():
        try:
            _number(value)
        except Exception:
            raise TypeError(f"{like}, not {_short(value)} for {_short(key)}.") from None
    return {key: _number(value) for key, value in known.items()}


@contextlib.contextmanager
def _set(policy: Any, seed: int) -> Iterator[None]:
    """Policy and seed for one run, and what was set before it back afterwards."""
    import keras

    before, python, numpy = keras.config.dtype_policy(), random.getstate(), np.random.get_state()
    try:
        keras.config.set_dtype_policy(policy)
        keras.utils.set_random_seed(seed)
        yield
    finally:
        keras.config.set_dtype_policy(before)
        random.setstate(python)
        np.random.set_state(numpy)


@contextlib.contextmanager
def _shown(line: str, wanted: bool) -> Iterator[None]:
    """One line, overwritten, where a person watches: a terminal or a notebook."""
    watched = wanted and (sys.stdout.isatty() or "ipykernel" in type(sys.stdout).__module__)
    if watched:
        sys.stdout.write(f"\r{line} ...")
        sys.stdout.flush()
    try:
        yield
    finally:
        if watched:
            sys.stdout.write("\r" + " " * (len(line) + 4) + "\r")
            sys.stdout.flush()


def _named_policies(policies: Iterable[Any]) -> dict[str, Any]:
    from ampcourse import quietly

    with quietly():  # importing TensorFlow writes to stderr, which costs points in a graded cell
        import keras
    if isinstance(policies, str | Set) or not isinstance(policies, Iterable):  # a set has no first
        raise TypeError(f"policies are several, such as ('float32', 'mixed_float16'), not {_short(policies)}.")
    given = tuple(policies)
    named = {}
    for policy in given:
        try:
            found = keras.dtype_policies.get(policy) if policy is not None else None  # None: whatever is set
            named[found.name] = policy if isinstance(policy, str) else found
        except Exception:  # whatever Keras says of a policy that it does not know
            raise ValueError(f"{_short(policy)} is no dtype policy of Keras: try 'mixed_float16'.") from None
    if not 2 <= len(named) <= 6 or len(named) != len(given):
        raise ValueError(f"parity compares 2 to 6 different policies, not {_short(list(given))}.")
    return named


def _whole_seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    if isinstance(seeds, str | bytes) or not isinstance(seeds, Iterable):
        raise TypeError(f"seeds are several whole numbers, such as range(5), not {_short(seeds)}.")
    if isinstance(seeds, np.ndarray) and seeds.ndim != 1:
        raise ValueError(f"seeds are several whole numbers in a row, such as range(5), not {_short(seeds)}.")
    given = tuple(islice(seeds, MOST_SEEDS + 1))
    if len(given) > MOST_SEEDS:
        raise ValueError(f"seeds are {MOST_SEEDS} at most, and more were given.")
    if not given or not all(isinstance(s, Integral) and not isinstance(s, bool) and 0 <= s < 2**32 for s in given):
        raise ValueError(f"seeds are whole numbers from 0 to 2**32 - 1, at least one, not {_short(list(given))}.")
    if len(set(given)) != len(given):
        raise ValueError(f"Each seed counts once, so that no pair is taken for two: {_short(list(given))}.")
    return tuple(int(seed) for seed in given)


def _check_fraction(value: Any, name: str, like: str, below: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < below:
        raise ValueError(
            f"{name} is {like}, above 0{'' if below == math.inf else ' and below 1'}, not {_short(value)}."
        )


def _short(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a learner's own class may fail to show itself
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
