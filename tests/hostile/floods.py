"""Submissions that take more than their share: what they fill, they fill for themselves."""

from __future__ import annotations

from attack import ALL, RIGHT, Attack, fault

FLOODS = (
    Attack(
        "forks without end",
        """
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
except OSError:
    pass""",
    ),
    Attack(
        "starts threads without end",
        """
import threading, time
try:
    while True:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
except RuntimeError:
    pass""",
    ),
    Attack(
        "a chain of processes, each of which ends",
        """
import os
for _ in range(20_000):
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        break""",
    ),
    Attack(
        "fills every place that it can write to",
        """
import os
for folder in ("/tmp", os.path.expanduser("~"), os.getcwd(), "/dev/shm", "/var/tmp", "/run"):
    try:
        for number in range(10_000):
            with open(os.path.join(folder, f"full-{number}"), "wb") as file:
                file.write(b"x" * 30_000_000)
    except OSError:
        pass""",
    ),
    Attack(
        "makes one file that is too large",
        """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("/tmp/large", "wb") as file:
    try:
        file.truncate(1 << 40)
        print("HUGE")
    except OSError:
        pass""",
        silent=("HUGE",),
    ),
    Attack(
        "makes files without end",
        """
import os
for number in range(3_000_000):
    try:
        os.close(os.open(f"/tmp/{number}", os.O_CREAT))
    except OSError:
        break""",
    ),
    Attack(
        "fills the memory",
        double="""
def double(x):
    blocks = []
    while True:
        blocks.append(bytearray(1 << 26))""",
    ),
    Attack(
        "fills the memory from several processes",
        double="""
def double(x):
    import os, time
    for _ in range(6):
        os.fork()
    blocks = []
    try:
        while True:
            blocks.append(bytearray(1 << 24))
    except MemoryError:
        time.sleep(600)""",
    ),
    Attack(
        "fills the memory behind shared files without a name",
        double="""
def double(x):
    import os
    held = []
    try:
        while True:
            held.append(os.memfd_create("m"))
            os.write(held[-1], b"x" * (1 << 26))
    except (OSError, AttributeError):
        return x""",
    ),
    Attack(
        "opens files without end",
        """
try:
    held = []
    while True:
        held.append(open("/dev/null"))
except OSError:
    held.clear()""",
    ),
    fault("prints 20 MB on one line", "print('x' * 20_000_000)\n" + RIGHT["double"], scores=ALL),
    fault("prints 200,000 lines", "for i in range(200_000): print(i)\n" + RIGHT["double"], scores=ALL),
    fault(
        "prints 20 MB while it is judged", "def double(x):\n    print('x' * 20_000_000)\n    return 2 * x", scores=ALL
    ),
    fault("writes 20 MB to stderr", "import sys\nsys.stderr.write('x' * 20_000_000)\n" + RIGHT["double"], scores=ALL),
    fault(
        "displays 3,000 pictures",
        """
from IPython.display import display, HTML
for i in range(3_000):
    display(HTML("<p>" + "x" * 5_000 + "</p>"))
"""
        + RIGHT["double"],
        scores=ALL,
    ),
    Attack(
        "prints without end from a thread",
        """
import threading
def talk():
    while True:
        print("x" * 10_000)
threading.Thread(target=talk, daemon=True).start()""",
    ),
    Attack("answers with 800 MB", double="def double(x):\n    import numpy as np\n    return np.ones(100_000_000)"),
    Attack(
        "answers with an array that is large only when it is copied",
        double="""
def double(x):
    import numpy as np
    return np.broadcast_to(x[0], (10**6, 10**6))""",
    ),
    Attack(
        "answers with a list that holds itself",
        double="""
def double(x):
    itself = []
    itself.append(itself)
    return itself""",
    ),
    Attack("answers with a text of 50 MB", double="def double(x):\n    return 'x' * 50_000_000"),
    Attack("answers with a million parts", double="def double(x):\n    return {i: i for i in range(1_000_000)}"),
    Attack(
        "answers with halves of characters and escapes",
        double=r"""
def double(x):
    return "\ud800\x00\x1b[2J\u202e</td><script>alert(1)</script>" """,
    ),
    Attack("an error with a message of 50 MB", double="def double(x):\n    raise ValueError('x' * 50_000_000)"),
    Attack(
        "an error whose message cannot be asked for",
        double="""
class Silent(Exception):
    def __str__(self):
        import os
        os._exit(0)
    __repr__ = __str__
def double(x):
    raise Silent""",
    ),
    Attack("a traceback without end", double="def double(x):\n    return double(x)"),
    Attack(
        "the traceback is the student's own",
        double="""
def double(x):
    code = compile("1 / 0", "</pre><script>alert(2)</script>", "exec")
    exec(code)""",
    ),
)
