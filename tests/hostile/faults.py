"""Submissions that go wrong in the first question only: the others keep their points. And noise that costs nothing."""

from __future__ import annotations

from attack import ALL, FIRST_LOST, RIGHT, Attack, fault

_HANG = "def double(x):\n    "

FAULTS = (
    fault("an endless loop in the answer", _HANG + "while True: pass", says="timed out|still running|stopped after"),
    fault(
        "an endless loop in the answer's cell",
        RIGHT["double"] + "\nwhile True: pass",
        scores={"total-check": 3.0, "triple-test": 1.0},
        says="timed out|still running|stopped after",
    ),
    fault(
        "an endless loop that ignores every interrupt",
        """
def double(x):
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    while True:
        try:
            while True: pass
        except BaseException:
            pass""",
    ),
    fault("an endless loop in C", _HANG + "return sum(iter(int, 1))"),
    fault("sleeps for an hour", _HANG + "import time; time.sleep(3600)"),
    fault(
        "waits for a lock that nobody gives back",
        """
def double(x):
    import threading
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()""",
    ),
    fault("prints for ever", _HANG + "while True: print('still here')"),
    fault("asks for input", _HANG + "return float(input('how much? '))"),
    fault("asks for a password", _HANG + "import getpass; return getpass.getpass()"),
    fault("a segmentation fault", _HANG + "import ctypes; ctypes.string_at(0)"),
    fault("kills its own kernel", _HANG + "import os; os.kill(os.getpid(), 9)"),
    fault("stops its own kernel", _HANG + "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"),
    fault("aborts", _HANG + "import os; os.abort()"),
    fault(
        "kills its own kernel in the answer's cell",
        RIGHT["double"] + "\nimport os; os.kill(os.getpid(), 9)",
        scores={"total-check": 3.0, "triple-test": 1.0},
    ),
    fault(
        "os._exit(0) in the answer's cell",
        RIGHT["double"] + "\nimport os; os._exit(0)",
        scores={"total-check": 3.0, "triple-test": 1.0},
    ),
    fault(
        "recursion without end, with the limit lifted",
        """
import sys
sys.setrecursionlimit(10**9)
def double(x):
    return [double(x)]""",
    ),
    fault("takes all memory at once", _HANG + "return bytearray(1 << 42)"),
    fault("a syntax error", "def double(x)\n    return 2 * x"),
    fault("the answer raises", _HANG + "raise RuntimeError('no')"),
    fault("the answer raises KeyboardInterrupt", _HANG + "raise KeyboardInterrupt"),
    fault("the answer raises GeneratorExit", _HANG + "raise GeneratorExit"),
    fault("the answer is a coroutine", "async def double(x):\n    return 2 * x"),
    fault("the answer yields", "def double(x):\n    yield 2 * x"),
    fault("the name of the answer is deleted", RIGHT["double"] + "\ndel double"),
    fault("the answer is only half the work", _HANG + "return 2 * abs(x)", scores=FIRST_LOST | {"double-check": 1.0}),
    fault("NaN is returned", _HANG + "return x * float('nan')"),
    fault("warns", "import warnings\ndef double(x):\n    warnings.warn('careful')\n    return 2 * x", scores=ALL),
    fault(
        "writes to stderr in every way",
        """
import os, sys, warnings, logging
def double(x):
    print("a line", file=sys.stderr)
    os.write(2, b"I tensorflow/core/platform/cpu_feature_guard.cc:210]\\n")
    logging.getLogger().error("an error")
    os.system("echo from a shell >&2")
    return 2 * x""",
        scores=ALL,
    ),
    fault(
        "a cell of one's own writes to stderr and raises",
        scores=ALL,
        first="import sys\nprint('x', file=sys.stderr)\n1 / 0",
    ),
    fault(
        "names of the grader",
        scores=ALL,
        first="""
t = test = check = results = i = score = observe = verdict = 5
np = np2 = 5""",
        double="import numpy as np\n" + RIGHT["double"],
    ),
    fault("times its cell", "%%time\n" + RIGHT["double"], scores=ALL),
    fault(
        "draws inline",
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n" + RIGHT["double"],
        scores=ALL,
    ),
    fault("a cell in another language", scores=ALL, first="%%bash\necho hello\nexit 3"),
    fault("a magic that does not exist", scores=ALL, first="%%no_such_magic\nx = 1"),
    fault("await at the top of a cell", scores=ALL, first="import asyncio\nawait asyncio.sleep(0.01)"),
    fault("a cell of one's own that hangs", scores=ALL, first="while True: pass"),
    fault("a cell of one's own that kills the kernel", scores=ALL, first="import os\nos.kill(os.getpid(), 9)"),
    fault(
        "three cells that kill the kernel",
        scores={"total-check": 3.0, "triple-test": 1.0},
        first="import os\nos._exit(1)",
        double=RIGHT["double"] + "\nimport os\nos._exit(2)",
        last="import os\nos._exit(3)",
    ),
    fault(
        "a thread that kills the kernel a little later",
        scores={"triple-test": 1.0},
        double=RIGHT["double"]
        + """
import os, threading
if not os.path.exists("/tmp/once"):
    threading.Timer(0.2, os._exit, [1]).start()
import time; time.sleep(1)""",
    ),
    fault(
        "the interpreter's output is closed",
        "import sys\nsys.stdout.close(); sys.stderr.close()\n" + RIGHT["double"],
        scores=ALL,
    ),
    fault("file descriptors are closed", _HANG + "import os; os.closerange(3, 200); return 2 * x"),
    fault(
        "a tensor, or an array of another kind",
        scores=ALL,
        double="""
def double(x):
    return [2 * float(v) for v in x]""",
    ),
    fault(
        "a number behind a name that hangs when it is shown",
        """
class Slow(float):
    def __repr__(self):
        while True: pass
    __str__ = __format__ = __repr__
def double(x):
    return [Slow(2 * v) for v in x]""",
        scores={"total-check": 3.0, "triple-test": 1.0},
    ),
    Attack(
        "everything hangs",
        double=_HANG + "while True: pass",
        others={"total": "def total(x):\n    while True: pass", "triple": "def triple(x):\n    while True: pass"},
        scores={"double-check": 0.0, "total-check": 0.0, "triple-test": 0.0},
        long=True,
    ),
)
