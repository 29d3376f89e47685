"""The ledger: one line a claim, its verdict, and which recorded results test it. The data lie in `claims.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ARTICLES = {
    "S000": "automatic mixed precision by an environment variable, in TensorFlow 2.9",
    "S002": "mixed precision in practice, on a GPU",
    "S003": "does the TensorFlow 2.9 image support mixed precision?",
}
VERDICTS = {
    "true": "holds, as far as it can be seen here",
    "partly true": "holds in part, or for another reason",
    "dated": "was true of an older version",
    "false": "does not hold",
    "cannot be checked": "neither a program here nor a source at hand could test it",
    "advice": "a rule of thumb or an opinion: neither true nor false",
}
_FILE = Path(__file__).with_name("claims.toml")


@dataclass(frozen=True)
class Test:
    """A recorded result that tests a claim.

    Attributes:
        lesson: slug of the lesson that records it.
        cell: the id of the cell, as it stands in the notebook file.
        result: its name, as in `course.toml`.
    """

    lesson: str
    cell: str
    result: str

    def __str__(self) -> str:
        return f"{self.lesson}, {self.result}"


@dataclass(frozen=True)
class Claim:
    """One claim of an article.

    Attributes:
        id: the article and a number, such as "S000-12".
        says: the claim in one line, in this course's words.
        verdict: one of `VERDICTS`.
        because: why, in a sentence or two.
        tests: the recorded results that test it.
        untested: where `tests` is empty, why nothing here can test it.
    """

    id: str
    says: str
    verdict: str
    because: str
    tests: tuple[Test, ...] = ()
    untested: str = ""

    @property
    def article(self) -> str:
        """The key of the article in `ARTICLES`."""
        return self.id.partition("-")[0]


@functools.cache
def ledger() -> tuple[Claim, ...]:
    """All claims, in the order of the articles."""
    entries = tomllib.loads(_FILE.read_text("utf-8"))["claim"]
    return tuple(Claim(**entry | {"tests": tuple(map(_test, entry.get("tests", ())))}) for entry in entries)


def _test(text: str) -> Test:
    return Test(*text.split("/"))


def counts(claims: Iterable[Claim] | None = None) -> dict[str, int]:
    """How many claims got each verdict, in the order of `VERDICTS`; by default of the whole ledger."""
    found = [claim.verdict for claim in (ledger() if claims is None else claims)]
    return {verdict: found.count(verdict) for verdict in VERDICTS}
