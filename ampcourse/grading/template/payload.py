"""What goes into a kernel's process: its key and its files, through a file in memory that only that process reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from ampcourse.grading.sandbox.view import checked


def pack(key: str, files: Mapping[str, bytes]) -> int:
    """The descriptor of a file in memory: one line of JSON, then the files' bytes one after the other.

    Raises:
        GradingError: if a file's name leads out of the working folder.
    """
    about = {"key": key, "files": [[checked(name), len(content)] for name, content in files.items()]}
    descriptor = os.memfd_create("submission", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(json.dumps(about).encode("ascii") + b"\n")
        for content in files.values():
            file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
