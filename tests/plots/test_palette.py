"""Colours: told apart with every common kind of colour vision, dark enough on white, and never the only sign."""

from itertools import combinations

import numpy as np
import pytest

from ampcourse.plots.regions import REGIONS
from ampcourse.plots.style import STROKES

# Machado, Oliveira and Fernandes 2009, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
# at full severity; they work on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> np.ndarray:
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    t = TO_XYZ @ rgb.clip(0, 1) / (TO_XYZ @ np.ones(3))
    x, y, z = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast_with_white(colour: str) -> float:
    return 1.05 / (float(TO_XYZ[1] @ linear(colour)) + 0.05)


def least_distance(colours: list[str], vision: str) -> float:
    seen = [lab(VISION[vision] @ linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))


@pytest.mark.parametrize("vision", VISION)
def test_colours_of_series_and_regions_stay_apart(vision):
    just_noticeable = 2.3  # Delta E 1976; six times that is plainly another colour
    assert least_distance([stroke.colour for stroke in STROKES], vision) > 6 * just_noticeable
    assert least_distance([region.colour for region in REGIONS], vision) > 6 * just_noticeable


def test_the_measure_of_distance_finds_the_classic_pitfall():
    red_and_green = ["#C00000", "#4E7A00"]
    assert least_distance(red_and_green, "normal") > 5 * least_distance(red_and_green, "deuteranopia")


@pytest.mark.parametrize("stroke", STROKES, ids=lambda stroke: stroke.colour)
def test_lines_stand_out_from_white_paper(stroke):
    assert contrast_with_white(stroke.colour) >= 3.0  # WCAG 2.2, success criterion 1.4.11


def test_colour_is_never_the_only_sign():
    assert len({str(stroke.dashes) for stroke in STROKES}) == len(STROKES)
    assert len({stroke.marker for stroke in STROKES}) == len(STROKES)
    assert len({region.hatch for region in REGIONS}) == len(REGIONS)
