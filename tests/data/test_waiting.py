"""`input_wait`: a slow input is found, a fast one is not. The clock is ours, so nothing depends on the machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ampcourse import data


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def batches(self, seconds: float, count: int = 50, first: float | None = None) -> Iterator[tuple[int, int]]:
        for number in range(count):
            self.now += seconds if number or first is None else first
            yield number, -number

    def step(self, seconds: float, seen: list | None = None):
        def run(x: int, y: int) -> None:
            self.now += seconds
            if seen is not None:
                seen.append((x, y))

        return run


@pytest.mark.parametrize(
    ("input_", "step", "share"), [(3.0, 1.0, 0.75), (0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (0.1, 0.9, 0.1)]
)
def test_the_share_is_waiting_over_everything(input_: float, step: float, share: float) -> None:
    clock = Clock()
    found = data.input_wait(clock.batches(input_), clock.step(step), 10, clock=clock)
    assert found.share == pytest.approx(share)
    assert found.waiting_seconds == pytest.approx(10 * input_)
    assert found.total_seconds == pytest.approx(10 * (input_ + step))
    assert found.steps == 10
    assert f"waits {share:.0%} of the time for its input" in str(found)


def test_the_first_batch_and_step_warm_up_and_are_not_counted() -> None:
    clock, seen = Clock(), []
    found = data.input_wait(clock.batches(1, first=1000), clock.step(1, seen), 3, clock=clock)
    assert found.total_seconds == pytest.approx(6)
    assert seen == [(0, 0), (1, -1), (2, -2), (3, -3)]


def test_fewer_batches_than_asked_are_measured_as_they_are() -> None:
    clock = Clock()
    assert data.input_wait(clock.batches(1, 5), clock.step(3), 20, clock=clock).steps == 4


class OnDevice:
    """A result that is finished only when somebody waits for it, as on a GPU."""

    def __init__(self, wait) -> None:
        self._wait = wait


@pytest.mark.parametrize("method", ["numpy", "block_until_ready"])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [1.0, (one,)], lambda one: {"loss": one}])
def test_the_device_is_waited_for(method: str, wrap) -> None:
    clock = Clock()

    def finish() -> None:
        clock.now += 4

    def step(x: int, y: int):
        result = OnDevice(finish)
        setattr(result, method, finish)
        return wrap(result)

    found = data.input_wait(clock.batches(1), step, 5, clock=clock)
    assert (found.waiting_seconds, found.total_seconds) == (5, 25)


def test_it_takes_a_keras_step() -> None:
    import keras

    pictures = data.pictures(limit=60)
    model = keras.Sequential([keras.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = data.input_wait(data.batches(pictures.train, 10, pictures=pictures, train=True), model.train_on_batch, 3)
    assert found.steps == 3
    assert 0 <= found.waiting_seconds <= found.total_seconds


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_batches_get_one_sentence(count: int) -> None:
    clock = Clock()
    with pytest.raises(data.DataError, match="give at least 2"):
        data.input_wait(clock.batches(1, count), clock.step(1), clock=clock)


@pytest.mark.parametrize("steps", [0, -1, 2.0, True])
def test_a_number_of_steps_that_makes_no_sense_gets_one_sentence(steps) -> None:
    with pytest.raises(data.DataError, match="steps is"):
        data.input_wait([], print, steps)
