"""Why there can be no sandbox on a machine, and what its administrator can do."""

from __future__ import annotations

import contextlib
from pathlib import Path

_PROC = Path("/proc")
_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def why_not(said: str) -> str:
    """A sentence or two for the instructor.

    Args:
        said: the error, as it came.
    """
    reasons = [*_settings(), *_container()]
    if not reasons:
        return f"No sandbox can be started: {said.rstrip('.')}."
    return f"{' '.join(reasons)} (What was seen: {said.rstrip('.')}.)"


def _settings() -> list[str]:
    found = []
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        found.append(
            "AppArmor keeps ordinary users from opening user namespaces (Ubuntu 24.04 and newer): the administrator "
            "can let bubblewrap do it with the profile bwrap-userns-restrict of the package apparmor-profiles, or all "
            "programs with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`."
        )
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        found.append(
            "User namespaces are closed to ordinary users: the administrator can open them with "
            "`sysctl -w kernel.unprivileged_userns_clone=1`."
        )
    if _sysctl("user/max_user_namespaces") == "0":
        found.append(
            "User namespaces are switched off: the administrator can switch them on with "
            "`sysctl -w user.max_user_namespaces=15000`."
        )
    return found


def _container() -> list[str]:
    if not any(mark.exists() for mark in _MARKS) and not _masked():
        return []
    return [
        "This is a container, which keeps programs from opening namespaces or from mounting /proc: grade outside of "
        "it, or start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt "
        "systempaths=unconfined`."
    ]


def _masked() -> bool:
    """Whether something lies over parts of /proc, as containers have it."""
    with contextlib.suppress(OSError):
        mounts = [line.split()[1] for line in (_PROC / "self/mounts").read_text("utf-8", "replace").splitlines()]
        return any(place.startswith("/proc/") and place != "/proc/sys/fs/binfmt_misc" for place in mounts)
    return False


def _sysctl(name: str) -> str:
    with contextlib.suppress(OSError):
        return (_PROC / "sys" / name).read_text("ascii", "replace").strip()
    return ""
