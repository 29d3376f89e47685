"""The data sets that are known by name: what they hold, their size, their licence, and who fetches them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ampcourse.data.embedded import CLASS_NAMES, MEAN, STD, DataError

EMBEDDED = "fashion_mnist_subset"


@dataclass(frozen=True)
class Source:
    """One data set.

    Attributes:
        name: what it is called here.
        title: what it is called in print.
        classes: the names of the classes; a label is a position in them.
        shape: height, width and channels of a picture; of Imagenette the shorter side, for its pictures differ.
        train, test: how many pictures each part has.
        megabytes: size of the download; 0 where there is none.
        licence: under which terms, in one sentence without the full stop.
        how: where it comes from.
        mean, std: of the training part, per channel, grey values in [0, 1]; None: taken from the pictures themselves
            when they are fetched.
        disk: megabytes that fetching needs for a while, unpacking included.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    train: int
    test: int
    megabytes: int
    licence: str
    how: str
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    disk: int = 0


_MIT_ZALANDO = "MIT, Copyright 2017 Zalando SE"
_SOURCES = (
    Source(
        name=EMBEDDED,
        title="Fashion-MNIST, the part that travels with the course",
        classes=CLASS_NAMES,
        shape=(28, 28, 1),
        train=10_000,
        test=2_000,
        megabytes=0,
        licence=_MIT_ZALANDO,
        how="the course itself",
        mean=(MEAN,),
        std=(STD,),
    ),
    Source(
        name="fashion_mnist",
        title="Fashion-MNIST",
        classes=CLASS_NAMES,
        shape=(28, 28, 1),
        train=60_000,
        test=10_000,
        megabytes=31,
        licence=_MIT_ZALANDO,
        how="keras.datasets",
        # Of all 60,000 training pictures, computed from Debian's copy.
        mean=(0.286041,),
        std=(0.353024,),
        disk=150,
    ),
    Source(
        name="cifar10",
        title="CIFAR-10",
        classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        shape=(32, 32, 3),
        train=50_000,
        test=10_000,
        megabytes=170,
        licence="none stated by its authors, so do not pass the pictures on",
        how="keras.datasets",
        disk=800,
    ),
    Source(
        name="eurosat",
        title="EuroSAT-RGB",
        classes=(
            "AnnualCrop",
            "Forest",
            "HerbaceousVegetation",
            "Highway",
            "Industrial",
            "Pasture",
            "PermanentCrop",
            "Residential",
            "River",
            "SeaLake",
        ),
        shape=(64, 64, 3),
        train=21_600,
        test=5_400,
        megabytes=94,
        licence="MIT, as its copy timm/eurosat-rgb on Hugging Face says",
        how="tensorflow-datasets (eurosat/rgb)",
        disk=900,
    ),
    Source(
        name="imagenette",
        title="Imagenette-320",
        classes=(
            "tench",
            "English springer",
            "cassette player",
            "chain saw",
            "church",
            "French horn",
            "garbage truck",
            "gas pump",
            "golf ball",
            "parachute",
        ),
        shape=(320, 320, 3),
        train=9_469,
        test=3_925,
        megabytes=342,
        licence="Apache-2.0 for the collection; the pictures remain under ImageNet's terms (research, not commerce)",
        how="tensorflow-datasets (imagenette/320px-v2)",
        # ImageNet's own, which every published model for pictures of this kind takes.
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        disk=1500,
    ),
)


def sources() -> dict[str, Source]:
    """The data sets by name, the one that needs no download first."""
    return {source.name: source for source in _SOURCES}


def source(name: str) -> Source:
    """The data set of this name.

    Raises:
        DataError: if there is none; the sentence proposes the name that was meant, or lists all.
    """
    known = sources()
    if name in known:
        return known[name]
    plain = str(name).lower().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(plain, known, 1, 0.6)
    end = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(known)}."
    raise DataError(f"No data set is called '{name}': {end}")
