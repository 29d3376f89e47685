"""Batches: what they hold, that seed, epoch and place alone decide it, and that the pipeline holds the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampcourse import data
from ampcourse.data import in_numpy, splits, views
from ampcourse.data.splits import Pictures, Split

from .conftest import grey, jpeg, jpegs, photos


def made(pictures: Pictures, batch: int = 8, **asked) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(data.batches(pictures.train, batch, pictures=pictures, **asked))


def same(one, two) -> bool:
    return len(one) == len(two) and all(
        (x == u).all() and (y == v).all() for (x, y), (u, v) in zip(one, two, strict=True)
    )


def test_untrained_batches_are_the_pictures_in_order_standardised() -> None:
    pictures = grey(20)
    x, y = (np.concatenate(column) for column in zip(*made(pictures), strict=True))
    np.testing.assert_allclose(x, (pictures.train.images / 255 - 0.3) / 0.25, atol=1e-5)
    np.testing.assert_array_equal(y, pictures.train.labels)
    assert (x.dtype, y.dtype) == (np.float32, np.int64)
    assert [len(labels) for _, labels in made(pictures)] == [8, 8, 4]


def test_an_epoch_of_training_has_every_picture_once_and_whole_batches_only() -> None:
    pictures = grey(20)
    tagged = Split(pictures.train.images, np.arange(20))
    found = np.concatenate([y for _, y in data.batches(tagged, 5, pictures=pictures, train=True)])
    assert sorted(found) == list(range(20))
    assert [len(y) for _, y in made(pictures, train=True)] == [8, 8]


@given(
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 1000),
    n=st.integers(1, 60),
    batch=st.integers(1, 20),
    pick=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_a_run_that_starts_in_the_middle_sees_what_the_whole_one_saw(seed, epoch, n, batch, pick) -> None:
    pictures, asked = grey(max(n, batch)), {"train": True, "seed": seed, "epoch": epoch}
    whole = made(pictures, batch, **asked)
    start = pick.draw(st.integers(0, len(whole)))
    assert same(made(pictures, batch, start=start, **asked), whole[start:])


@given(seed=st.integers(0, 2**32), first=st.integers(1, 12), second=st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_what_a_place_in_the_epoch_shows_does_not_hang_on_the_size_of_batches(
    seed: int, first: int, second: int
) -> None:
    pictures = grey(24)
    one, two = (np.concatenate([x for x, _ in made(pictures, b, train=True, seed=seed)]) for b in (first, second))
    np.testing.assert_array_equal(one[: min(len(one), len(two))], two[: min(len(one), len(two))])


def test_seeds_and_epochs_differ_in_order_and_in_augmentation() -> None:
    pictures = grey(64)
    base = {"train": True, "seed": 1, "epoch": 2}
    views_ = [views._view(64, 4, True, seed, epoch) for seed, epoch in ((1, 2), (1, 3), (2, 2))]
    for column in ("index", "top", "left", "flip"):
        kinds = {tuple(getattr(view, column)) for view in views_}
        assert len(kinds) == 3, column
    assert same(made(pictures, **base), made(pictures, **base))
    assert not same(made(pictures, **base), made(pictures, **base | {"epoch": 3}))
    assert not same(made(pictures, **base), made(pictures, **base | {"seed": 2}))


def test_augmentation_mirrors_half_and_moves_by_an_eighth_with_black_around() -> None:
    n, side = 400, 16
    spot = np.zeros((n, side, side, 1), np.uint8)
    spot[:, 8, 2] = 255
    pictures = Pictures(grey().source, Split(spot, np.arange(n)), Split(spot, np.arange(n)), (0.0,), (1.0,))
    ((x, _),) = made(pictures, n, train=True)
    rows, columns = np.divmod(x.reshape(n, -1).argmax(1), side)
    assert set(rows) == {6, 7, 8, 9, 10}
    assert set(columns) == {0, 1, 2, 3, 4} | {11, 12, 13, 14, 15}
    assert x.sum() == pytest.approx(n)  # one bright pixel each; what came in at the edges is black
    assert 0.4 < (columns > 8).mean() < 0.6


SHAPES = [
    (grey(20), {"train": True, "seed": 3, "epoch": 1}),
    (grey(20), {"train": False}),
    (grey(20), {"train": True, "size": 20, "channels": 3}),
    (grey(20, 24, 3), {"train": True, "size": 10, "start": 1}),
    (grey(20, 9, 3), {"train": False, "size": 17}),
    (photos(), {"train": True, "size": 28}),
    (photos(), {"train": False, "size": 32}),
]


@pytest.mark.parametrize(("pictures", "asked"), SHAPES)
def test_the_pipeline_holds_the_same_batches(pictures: Pictures, asked: dict) -> None:
    ours = made(pictures, **asked)
    theirs = list(data.pipeline(pictures.train, 8, pictures=pictures, **asked).as_numpy_iterator())
    assert len(ours) == len(theirs)
    for (x, y), (u, v) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, u, atol=1e-5)
        np.testing.assert_array_equal(y, v)
        assert (x.dtype, y.dtype) == (u.dtype, v.dtype)


def test_the_pipeline_knows_the_shape_of_a_batch_so_that_devices_can_share_it() -> None:
    for pictures, shape in ((grey(20), (8, 8, 8, 1)), (photos(), (8, 224, 224, 3))):
        x, y = data.pipeline(pictures.train, 8, pictures=pictures, train=True).element_spec
        assert (tuple(x.shape), tuple(y.shape)) == (shape, (8,))


def test_the_pipeline_may_end_before_the_first_batch() -> None:
    assert list(data.pipeline(grey(16).train, 8, pictures=grey(16), train=True, start=2)) == []


@pytest.mark.parametrize(("old", "new"), [(28, 64), (28, 32), (64, 28), (32, 32), (7, 3), (1, 5), (5, 1)])
def test_scaling_is_that_of_tensorflow_with_antialiasing(old: int, new: int) -> None:
    import tensorflow as tf

    matrix = views.resizing(old, new)
    x = np.random.default_rng(0).normal(size=(2, old, old, 3)).astype(np.float32)
    ours = np.einsum("ih,jw,nhwc->nijc", matrix, matrix, x)
    np.testing.assert_allclose(ours, tf.image.resize(x, (new, new), antialias=True), atol=1e-4)


def test_grey_pictures_get_three_equal_channels() -> None:
    (x, _), *_ = made(grey(), channels=3)
    assert x.shape == (8, 8, 8, 3)
    assert (x == x[..., :1]).all()


def test_jpeg_files_are_cut_from_the_middle_when_testing() -> None:
    from PIL import Image

    pictures = photos(2)
    ((x, _),) = made(pictures, 2, size=28)
    for k in range(2):
        with Image.open(splits.io.BytesIO(pictures.train.images[k])) as file:
            stored = splits._square(file, 32)[2:30, 2:30]
        np.testing.assert_allclose(x[k], (stored / 255 - pictures.mean) / pictures.std, atol=1e-4)


def test_jpeg_files_are_decoded_once_if_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    real = splits.Decoded._decode
    monkeypatch.setattr(splits.Decoded, "_decode", lambda self, k: decoded.append(k) or real(self, k))
    pictures = photos()
    first = made(pictures, 4, train=True, size=28)
    again = made(pictures, 4, train=True, size=28)
    assert sorted(decoded) == list(range(12))
    monkeypatch.setattr(splits, "_free_memory", lambda: 1000)
    pictures = photos()
    assert same(made(pictures, 4, train=True, size=28), first) and same(again, first)
    made(pictures, 4, train=True, size=28)
    assert len(decoded) == 3 * 12


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGB"])
def test_every_kind_of_jpeg_becomes_rgb(mode: str) -> None:
    from PIL import Image

    file = splits.io.BytesIO()
    Image.new(mode, (50, 40)).save(file, "JPEG")
    assert splits.Decoded([file.getvalue()], 16).take(np.array([0])).shape == (1, 16, 16, 3)


def test_a_file_that_is_no_jpeg_is_named() -> None:
    split = Split(jpegs([jpeg(30, 30), b"this is no picture"]), np.array([0, 1]))
    pictures = Pictures(photos(1).source, split, split, (0.5,) * 3, (0.5,) * 3)
    with pytest.raises(data.DataError, match="Picture 1 is no JPEG file"):
        made(pictures, 2, size=28)


def test_threads_change_nothing_and_an_early_end_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = grey(64)
    inline = made(pictures, 4, train=True)
    monkeypatch.setattr(in_numpy, "LARGE", 1)
    assert same(made(pictures, 4, train=True), inline)
    stream = iter(data.batches(pictures.train, 4, pictures=pictures, train=True))
    assert same([next(stream)], inline[:1])
    stream.close()


def test_batches_can_be_counted_and_read_again() -> None:
    pictures = grey(20)
    batches = data.batches(pictures.train, 8, pictures=pictures, train=True, start=1)
    assert len(batches) == 1 == len(list(batches))
    assert same(list(batches), list(batches))


def test_a_caller_who_changes_a_batch_does_not_change_the_pictures() -> None:
    pictures = grey(16)
    for x, y in data.batches(pictures.train, 8, pictures=pictures):
        x[:] = 0
        y[:] = 0
    assert all(x.any() and y.any() for x, y in made(pictures))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"batch": 0}, "batch is 0: it must be a whole number of at least 1"),
        ({"batch": 8.0}, "batch is 8.0"),
        ({"batch": True}, "batch is True"),
        ({"batch": 21, "train": True}, "A batch of 21 cannot be filled from 20 pictures"),
        ({"seed": -1}, "seed is -1"),
        ({"epoch": "2"}, "epoch is '2'"),
        ({"start": 4}, "start is 4, but there are 3 batches of 8"),
        ({"size": 0}, "size is 0"),
        ({"channels": 2}, "Pictures with 1 channel cannot be given 2"),
    ],
)
@pytest.mark.parametrize("make", [data.batches, data.pipeline])
def test_arguments_that_make_no_sense_get_one_sentence(make, asked: dict, says: str) -> None:
    pictures = grey(20)
    with pytest.raises(data.DataError, match=says) as caught:
        make(pictures.train, **{"batch": 8} | asked, pictures=pictures)
    assert "\n" not in str(caught.value)
