"""Stand-in for sandbox.command.View."""

from __future__ import annotations

import os
import sys
from pathlib import Path

UID = 1000
HOME, WORK, PACKAGE, HOST = "/home/student", "/home/student/work", "/course", "grading"


def mounts(package: Path, settings) -> list[tuple]:
    """(kind, target, source or more)."""
    mib = 1024 * 1024
    size = settings.disk_mib * mib
    found = [("bind", "/usr", "/usr")]
    for name in ("bin", "lib", "lib64", "sbin"):
        path = Path("/", name)
        if path.is_symlink():
            found.append(("link", str(path), os.readlink(path)))
        elif path.is_dir():
            found.append(("bind", str(path), str(path)))
    for path in ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/ssl"):
        if Path(path).exists():
            found.append(("bind", path, path))
    found += [("proc", "/proc"), ("dev", "/dev", 64 * mib), ("tmpfs", "/tmp", size, "1777")]
    for path in dict.fromkeys((sys.base_prefix, sys.prefix)):
        if not path.startswith("/usr"):
            found.append(("bind", path, path))
    found += [("bind", PACKAGE, str(package)), ("tmpfs", HOME, size, "700"), ("tmpfs", WORK, size, "700")]
    return found


def environment() -> dict[str, str]:
    return {
        "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": HOME,
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "IPYTHONDIR": f"{HOME}/.ipython",
        "PYTHONPATH": PACKAGE,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
