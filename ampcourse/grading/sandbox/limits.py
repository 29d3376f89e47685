"""What one process inside may use, as the kernel's own limits. Standard library only: it also runs inside."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ampcourse.grading.settings import Settings

Limit = tuple[int, int, int]
"""A resource's number, the soft and the hard limit."""

MIB = 1024 * 1024
OPEN_FILES = 512
"""Also how many can be on their way through sockets, for all processes of one user together: fewer than the 1024 that
a grader usually may have open, or an ordinary user's could not hand a descriptor to the next kernel."""
STACK_MIB = 8
LOCKED_MIB = 64  # CUDA pins some


def rlimits(settings: Settings, processes: bool = True) -> list[Limit]:
    """The limits as (resource, soft, hard), plain numbers that travel as JSON.

    Private memory is limited by RLIMIT_DATA, not by the address space, of which TensorFlow maps much more than it
    uses; each thread's stack counts in full, touched or not, so there is room for them. The number of processes is
    counted for each user in each user namespace, and not at all for the machine's user 0.

    Args:
        settings: what they are made of.
        processes: False leaves the number of processes alone: outside a namespace it counts all that a person runs.
    """
    data = (settings.memory_mib + STACK_MIB * settings.processes) * MIB
    same = {
        resource.RLIMIT_NPROC: settings.processes,
        resource.RLIMIT_DATA: data,
        resource.RLIMIT_FSIZE: settings.file_mib * MIB,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        # No file either, and with 1 the kernel does not start the machine's program for crashes, as it does with 0.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_MEMLOCK: LOCKED_MIB * MIB,
        resource.RLIMIT_STACK: STACK_MIB * MIB,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NICE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_SIGPENDING: 4 * settings.processes,
    }
    if not processes:
        del same[resource.RLIMIT_NPROC]
    # Past the soft limit the process gets SIGXCPU, which says why; it may ignore that, so the hard one follows soon.
    processor = (resource.RLIMIT_CPU, settings.cpu_seconds, settings.cpu_seconds + 5)
    return [processor, *((kind, value, value) for kind, value in same.items())]


def apply_limits(limits: Settings | Iterable[Limit]) -> None:
    """Set them for this process and all that it starts; a limit that is already lower stays.

    Raises:
        OSError, ValueError: if one cannot be set.
    """
    listed = rlimits(limits) if hasattr(limits, "memory_mib") else limits
    for kind, soft, hard in listed:
        most = resource.getrlimit(kind)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(kind, (soft, hard))


def first_to_go() -> None:
    """If the machine runs out of memory, the kernel shall end this process and its children before all others."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
