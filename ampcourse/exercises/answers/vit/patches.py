"""Exercise 1: pictures cut into patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ampcourse.exercises.model import Exercise, Inputs, Mistake


def _inputs(rng: np.random.Generator) -> Inputs:
    """Small pictures whose pixels all differ; every number of patches and every side differ as well."""

    def pictures(rows: int, columns: int, side: int, channels: int) -> tuple[np.ndarray, int]:
        shape = (2, rows * side, columns * side, channels)
        return rng.permutation(np.prod(shape)).reshape(shape).astype(np.float32), side

    return {
        "square grey pictures": pictures(3, 3, int(rng.choice([2, 4])), 1),
        "pictures wider or higher than that": pictures(*map(int, rng.permutation([2, 4])), 3, 1),
        "colour pictures": pictures(2, 3, 2, 3),
    }


def _patches(
    order: tuple[int, ...] = (0, 1, 3, 2, 4, 5), flat: bool = True, by_columns: bool = False
) -> Callable[..., np.ndarray]:
    """The right answer, with each of its parts open to a mistake."""

    def patches(pictures: np.ndarray, side: int) -> np.ndarray:
        batch, height, width, channels = pictures.shape
        rows, columns = height // side, width // side
        if by_columns:
            rows, columns = columns, rows
        cut = pictures.reshape(batch, rows, side, columns, side, channels).transpose(order)
        return cut.reshape(batch, rows * columns, -1) if flat else cut

    return patches


def _one_by_one(pictures: np.ndarray, side: int) -> list[Any]:
    _, height, width, _ = pictures.shape
    corners = [(top, left) for top in range(0, height, side) for left in range(0, width, side)]
    return [[one[top : top + side, left : left + side].ravel() for top, left in corners] for one in pictures]


def _by_splitting(pictures: np.ndarray, side: int) -> np.ndarray:
    strips = np.split(pictures, pictures.shape[1] // side, axis=1)
    squares = [square for strip in strips for square in np.split(strip, pictures.shape[2] // side, axis=2)]
    return np.stack([square.reshape(len(pictures), -1) for square in squares], axis=1)


def _unflattened(pictures: np.ndarray, side: int) -> np.ndarray:
    flat = _patches()(pictures, side)
    return flat.reshape(*flat.shape[:2], side, side, pictures.shape[-1])


patches = Exercise(
    id="vit.patches",
    inputs=_inputs,
    right=_patches(),
    points={"square grey pictures": 1, "pictures wider or higher than that": 1, "colour pictures": 1},
    also_right=(_one_by_one, _by_splitting),
    mistakes=(
        Mistake(
            lambda pictures, side: pictures.reshape(len(pictures), -1, side * side * pictures.shape[-1]),
            "You only reshape, so each row holds pixels of one line of the picture. Cut height and width apart first, "
            "bring the two cuts together with transpose, then flatten.",
        ),
        Mistake(
            _patches((0, 3, 1, 2, 4, 5)),
            "The patches are right, but they run down the columns. They should go along the rows, as one reads.",
        ),
        Mistake(
            _patches((0, 1, 3, 4, 2, 5)),
            "Each patch is mirrored at its diagonal: inside a patch its lines come first, then the pixels of a line.",
        ),
        Mistake(
            _patches((0, 1, 3, 5, 2, 4)),
            "Inside a patch you put all pixels of one channel together. The channels of a pixel should stay together: "
            "last, as in the picture.",
        ),
        Mistake(
            _patches(by_columns=True),
            "You take the number of columns of patches for the number of rows. In a square picture nobody notices.",
        ),
        Mistake(
            _unflattened,
            "The patches are right. Flatten each to one row of numbers: (batch, patches, side * side * channels).",
        ),
        Mistake(
            lambda pictures, side: _patches()(pictures, side).transpose(0, 2, 1),
            "The two last axes are the wrong way round: first the patches, then the numbers of a patch.",
        ),
        Mistake(
            lambda pictures, side: _patches((2, 4, 0, 1, 3, 5))(pictures, side),
            "You take the pixels that lie `side` apart. A patch is made of neighbours.",
        ),
    ),
    hints=(
        "Height is (rows of patches) times (lines of a patch), and width likewise: reshape to six axes.",
        "Then bring the two axes of the grid together, and the two of the patch: transpose to (0, 1, 3, 2, 4, 5).",
        "Last, reshape(batch, rows * columns, side * side * channels).",
    ),
    insight="Cutting into patches and a dense layer after it are one convolution whose stride is as large as its "
    "kernel. That is how models write it, and why the first layer of a ViT is a convolution.",
)
