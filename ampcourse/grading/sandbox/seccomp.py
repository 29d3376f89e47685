"""The filter on system calls, assembled by hand: a short program that the kernel runs before each call.

It takes away what the namespaces do not: ways to hold memory that nobody counts, ways to further namespaces, and the
rarely used parts of the kernel where most of its faults are found. Standard library only: it also runs inside.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

LOAD, EQUAL, GREATER_EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of BPF, on 32-bit words
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38

X86_64, AARCH64 = 0xC000003E, 0xC00000B7
X32_BIT = 0x40000000  # x86-64's second table of system calls
NAMESPACES = 0x7E020000  # every CLONE_NEW... flag that clone takes
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
ANY_PROTOCOL, TCP, UDP = 0, 6, 17
NETLINK_ROUTE = 0
SOL_SOCKET, SO_LINGER, SO_ZEROCOPY = 1, 13, 60
THREAD, SAME_FILES = 0x00010000, 0x00000400  # of clone's flags
MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB = 0x1, 0x20, 0x40000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # typing into a terminal

# name: (x86-64, aarch64); None where an architecture has no such call.
NOT_PERMITTED: dict[str, tuple[int | None, int | None]] = {
    # memory that belongs to no process, or that outlives its mapping
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "vmsplice": (278, 75),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # the machine
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "personality": (135, 92),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
}
# As on a kernel without them, so that a program takes another way: clone3's flags lie in memory, where a filter
# cannot look, and glibc goes back to clone.
NOT_THERE: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_setup": (206, 0),
    "userfaultfd": (323, 282),
    "inotify_init": (253, None),  # of these a user has few, and they may be the grader's
    "inotify_init1": (294, 26),
    "process_madvise": (440, 440),
    # A page that is handed on by reference is held by whoever got it, a pipe or a socket, and counts as one byte there
    # and as nothing where it came from; programs then copy.
    "sendfile": (40, 71),
    "splice": (275, 76),
    "tee": (276, 77),
}
CLONE, SOCKET, SOCKETPAIR, IOCTL = (56, 220), (41, 198), (53, 199), (16, 29)
MMAP, SETSOCKOPT = (9, 222), (54, 208)


def architecture() -> int | None:
    """0 for x86-64, 1 for aarch64, None for a machine whose system calls this module does not know."""
    return {"x86_64": 0, "amd64": 0, "aarch64": 1, "arm64": 1}.get(platform.machine().lower())


def filter_program(column: int | None = None, *, gpu: bool = False) -> bytes:
    """The filter for this machine, as the array of `struct sock_filter` that the kernel and bubblewrap take.

    Args:
        column: of the tables above; by default this machine's.
        gpu: whether programs use a GPU, whose driver needs shared memory without a file.

    Returns:
        b"" on a machine whose system calls this module does not know.
    """
    column = architecture() if column is None else column
    if column is None:
        return b""
    lines = [_load(ARCHITECTURE), *_unless_equal((X86_64, AARCH64)[column], errno.ENOSYS), _load(NUMBER)]
    if column == 0:
        lines += [_jump(GREATER_EQUAL, X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    for table, code in ((NOT_PERMITTED, errno.EPERM), (NOT_THERE, errno.ENOSYS)):
        for numbers in table.values():
            if (number := numbers[column]) is not None:
                lines += [_jump(EQUAL, number, 0, 1), _refuse(code)]
    for numbers, rest in _conditions(gpu):
        lines += [_jump(EQUAL, numbers[column], 0, len(rest)), *rest]
    return b"".join([*lines, _line(RETURN, ALLOW)])


def install(*, gpu: bool = False) -> bool:
    """Put the filter on this process and all that it starts, for ever.

    Args:
        gpu: as for `filter_program`.

    Returns:
        False on a machine for which there is none.

    Raises:
        OSError: if the kernel does not take it.
    """
    lines = filter_program(gpu=gpu)
    if not lines:
        return False

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    whole = Program(len(lines) // 8, lines)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(whole), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter on system calls cannot be installed")
    return True


def _conditions(gpu: bool) -> list[tuple[tuple[int, int], list[bytes]]]:
    """Calls that are allowed with some arguments: each with the lines that decide, which always end in a return."""
    allow = _line(RETURN, ALLOW)
    # libzmq asks by netlink which network there is, and aborts the process where it may not.
    asking = [*_load_argument(2), *_among((NETLINK_ROUTE,), errno.EPROTONOSUPPORT), allow]
    families = [*_load_argument(0), _jump(EQUAL, NETLINK, 0, len(asking)), *asking]
    families += _among((UNIX, INET, INET6), errno.EAFNOSUPPORT)
    protocols = [*_load_argument(2), *_among((ANY_PROTOCOL, TCP, UDP), errno.EPROTONOSUPPORT)]
    terminal = [_jump(EQUAL, TIOCSTI, 1, 0), _jump(EQUAL, TIOCLINUX, 0, 1), _refuse(errno.EPERM)]
    return [
        (CLONE, [*_load_argument(0), *_clone_flags(), allow]),
        (SOCKET, [*families, *protocols, allow]),
        (SOCKETPAIR, [*families, *protocols, allow]),
        (IOCTL, [*_load_argument(1), *terminal, allow]),
        (MMAP, [*_load_argument(3), *_map_flags(gpu), allow]),
        (SETSOCKOPT, [*_load_argument(1), *_option(), allow]),
    ]


def _clone_flags() -> list[bytes]:
    """No namespaces; and no thread with descriptors of its own, which nobody would find to count."""
    alone = [_jump(ANY_BIT, THREAD, 0, 2), _jump(ANY_BIT, SAME_FILES, 1, 0), _refuse(errno.EPERM)]
    return [_jump(ANY_BIT, NAMESPACES, 0, 1), _refuse(errno.EPERM), *alone]


def _map_flags(gpu: bool) -> list[bytes]:
    """No memory that stays when its pages are let go, and so is nobody's; none from the machine's store of huge pages.

    Shared memory without a name is a file that nobody sees: it keeps what was written to it although the process no
    longer has it in its tables, and that is all that can be counted. /dev/shm has a size.
    """
    huge = [_jump(ANY_BIT, MAP_HUGETLB, 0, 1), _refuse(errno.ENOMEM)]
    shared = [_jump(ANY_BIT, MAP_ANONYMOUS, 0, 2), _jump(ANY_BIT, MAP_SHARED, 0, 1), _refuse(errno.EPERM)]
    return huge if gpu else [*huge, *shared]


def _option() -> list[bytes]:
    """Two that reach beyond the process that sets them.

    Sent without a copy, a byte holds its whole page, of up to 2 MiB, until somebody reads it. And whoever is the last
    to close a socket that lingers waits, for years if it says so: also a grader to whom it was sent unasked.
    """
    test = [*_load_argument(2), _jump(EQUAL, SO_LINGER, 1, 0), _jump(EQUAL, SO_ZEROCOPY, 0, 1), _refuse(errno.EPERM)]
    return [_jump(EQUAL, SOL_SOCKET, 0, len(test)), *test]


def _line(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(offset: int) -> bytes:
    return _line(LOAD, offset)


def _load_argument(index: int) -> list[bytes]:
    """Its lower half: both architectures store that first, and these arguments are all read by the kernel as int."""
    return [_load(16 + 8 * index)]


def _jump(how: int, value: int, if_true: int, if_false: int) -> bytes:
    return _line(how, value, if_true, if_false)


def _refuse(code: int) -> bytes:
    return _line(RETURN, REFUSE | code)


def _unless_equal(value: int, code: int) -> list[bytes]:
    return [_jump(EQUAL, value, 1, 0), _refuse(code)]


def _among(values: tuple[int, ...], code: int) -> list[bytes]:
    """Go on only if the loaded word is one of these."""
    tests = [_jump(EQUAL, value, len(values) - index, 0) for index, value in enumerate(values)]
    return [*tests, _refuse(code)]
