"""What a new process is handed as open descriptors: files in memory, pipes, sockets; never a path of ours."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ampcourse.grading.sandbox.view import checked


class Handed:
    """The descriptors of one start. Theirs are closed here when the block ends, ours only if it failed."""

    def __init__(self) -> None:
        self.theirs: list[int] = []
        self._ours: list[int] = []

    def __enter__(self) -> Handed:
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        for one in [*self.theirs, *(self._ours if kind else ())]:
            os.close(one)

    def also(self, descriptor: int) -> int:
        """One that is open already, to be closed here afterwards."""
        self.theirs.append(descriptor)
        return descriptor

    def content(self, data: bytes) -> int:
        """A file in memory to read from its beginning."""
        file = self.also(os.memfd_create("handed", os.MFD_CLOEXEC))
        with open(os.dup(file), "wb") as out:  # noqa: PTH123 a descriptor
            out.write(data)
        os.lseek(file, 0, os.SEEK_SET)
        return file

    def pipe(self) -> tuple[int, int]:
        """Our end to read and theirs to write; neither ever waits: what is too much is lost."""
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ours.append(ours)
        return ours, self.also(theirs)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Files as the launcher unpacks them: the length of a list of names and sizes, the list, the contents.

    Raises:
        GradingError: if a name leads out of the folder.
    """
    names = [(checked(name), content) for name, content in files.items()]
    index = json.dumps([(name, len(content)) for name, content in names]).encode()
    return b"".join([len(index).to_bytes(8, "big"), index, *(content for _, content in names)])


def as_json(plan: Mapping[str, Any]) -> bytes:
    """The launcher's plan."""
    return json.dumps(plan).encode()
