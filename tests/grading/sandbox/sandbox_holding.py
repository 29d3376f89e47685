"""Memory that no process shows: what a hostile submission tries to hold where a count of its pages does not look.

As in sandbox_attempts.py, which takes these into its lists.
"""

from __future__ import annotations

HOLDING = {
    "shared memory without a name": """
# What was written stays in it when its pages are let go, and then it is in nobody's tables.
def zero():
    with open("/dev/zero", "r+b") as file:
        mmap.mmap(file.fileno(), 1 << 20, mmap.MAP_SHARED)
held(refused(mmap.mmap, -1, 1 << 20), refused(mmap.mmap, -1, 1 << 20, mmap.MAP_SHARED, mmap.PROT_READ),
     refused(zero), refused(mmap.mmap, -1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000),
     open("/dev/zero", "rb").read(3) == bytes(3))
""",
    "pages handed on by reference": """
# One byte each, and the whole page stays until it is read, wherever it came from.
ends, (a, b) = os.pipe(), socket.socketpair()
file = os.open("/tmp/pages", os.O_RDWR | os.O_CREAT)
os.write(file, b"12345")
held(refused(os.sendfile, a.fileno(), file, 0, 1), refused(os.splice, file, ends[1], 1, 0),
     refused(call, 276, 77, ends[0], ends[1], 1, 0),
     refused(socket.socket().setsockopt, socket.SOL_SOCKET, 60, 1))
""",
    "a socket that makes wait whoever closes it": """
# The grader would, if it was sent to it.
held(refused(socket.socket().setsockopt, socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 2**31 - 1)),
     socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1) is None)
""",
    "threads with descriptors of their own": """
codes = []
for flags in (0x10000, 0x10000 | 0x800 | 0x100):
    try:
        call(56, 220, ctypes.c_ulong(flags), None, None, None, None)
    except OSError as error:
        codes.append(error.errno)
held(codes == [errno.EPERM, errno.EPERM])
""",
}

DEADLY: dict[str, tuple[str, dict[str, float], str]] = {
    "memory, of files that are mapped": (
        """
kept = []
for number in range(4):
    with open(f"/dev/shm/{number}", "w+b") as file:
        file.truncate(60 << 20)
        kept.append(mmap.mmap(file.fileno(), 60 << 20))
    for _ in range(60):
        kept[-1].write(bytes(1 << 20))
time.sleep(20)
""",
        {"memory_mib": 150},
        "more than 150 MiB of memory",
    ),
    "memory, of processes whose first thread has ended": (
        """
import threading
def fill():
    piece = bytearray(os.urandom(1)) * (100 << 20)
    time.sleep(20)
for _ in range(3):
    if os.fork() == 0:
        threading.Thread(target=fill).start()
        call(60, 93, 0)  # ends this thread alone, and with it all that /proc says of the memory of the process
time.sleep(20)
""",
        {"memory_mib": 200},
        "more than 200 MiB of memory",
    ),
    "locks without number": (
        """
import fcntl
files = [open(f"/tmp/{number}", "w") for number in range(100)]
for file in files:
    for begin in range(0, 2000, 2):
        fcntl.lockf(file, fcntl.LOCK_EX, 1, begin)
time.sleep(20)
""",
        {},
        "locks",
    ),
    "files that wait for each other": (
        """
import select
for _ in range(30):
    if os.fork() == 0:
        events = [os.eventfd(0) for _ in range(200)]
        polls = [select.epoll() for _ in range(200)]
        for one in polls:
            for event in events:
                one.register(event, select.EPOLLIN)
        time.sleep(60)
time.sleep(20)
""",
        {},
        "files open",
    ),
}

WORKS: dict[str, tuple[str, str]] = {
    "copying": (
        "import shutil, subprocess\n"
        "open('a.txt', 'w').write('x' * 100_000)\n"
        "shutil.copyfile('a.txt', 'b.txt')\n"
        "subprocess.run('cp a.txt c.txt; cat a.txt > d.txt; cat a.txt | cat > e.txt; head -c 5 /dev/zero >> e.txt',"
        " shell=True, check=True)\n"
        "print([len(open(f'{name}.txt').read()) for name in 'abcde'])",
        "[100000, 100000, 100000, 100000, 100005]",
    ),
}
