"""`pictures`: a data set by name, from the course, from the cache, or, if that is allowed, from the network."""

from __future__ import annotations

import sys
from pathlib import Path

from ampcourse.data.cache import cache_folder, read
from ampcourse.data.embedded import DataError, grey_values
from ampcourse.data.fetching import fetch, from_debian
from ampcourse.data.known import EMBEDDED, Source, source
from ampcourse.data.splits import Pictures, Split
from ampcourse.data.views import check_whole


def pictures(
    name: str = EMBEDDED, *, download: bool = False, limit: int | None = None, cache: str | Path | None = None
) -> Pictures:
    """A data set by name.

    Args:
        name: a key of `sources()`.
        download: allow a download where the data is not on this machine yet; size and licence are shown before.
        limit: use only this many training pictures, as many of each class as can be; None takes all.
        cache: the folder in which fetched data is kept; default: `$AMPCOURSE_CACHE`, else the user's cache folder.

    Raises:
        DataError: if the name is unknown, the data is not here and may or cannot be fetched, or it is damaged.
    """
    wanted = source(name)
    if limit is not None:
        check_whole("limit", limit, 1)
    whole = _embedded(wanted) if name == EMBEDDED else _fetched(wanted, download, cache)
    return whole if limit is None else whole.limited(limit)


def _embedded(wanted: Source) -> Pictures:
    train, test = grey_values()
    return Pictures(wanted, Split(*train), Split(*test), wanted.mean, wanted.std)


def _fetched(wanted: Source, download: bool, cache: str | Path | None) -> Pictures:
    """What is kept, else what a Debian package holds, else what the network gives, which is kept."""
    folder = cache_folder(cache)
    if (kept := read(wanted, folder)) is not None:
        return kept
    if wanted.name == "fashion_mnist" and (parts := from_debian(wanted)):
        return Pictures(wanted, *parts, wanted.mean, wanted.std)
    if not download:
        call = f'data.pictures("{wanted.name}", download=True), or on the command line --download'
        raise DataError(f"{wanted.title} is not on this machine yet ({_offer(wanted)}): to fetch it, {call}.")
    sys.stdout.write(f"Fetching {wanted.title} ({_offer(wanted)}); it will be kept in '{folder / wanted.name}'.\n")
    sys.stdout.flush()
    fetch(wanted, folder)
    return read(wanted, folder)


def _offer(wanted: Source) -> str:
    """What a download would be, in a few words."""
    return f"{wanted.megabytes} MB from {wanted.how}; licence: {wanted.licence}"
