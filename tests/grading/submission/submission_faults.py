"""What students' code does, by accident or on purpose, in the cell that should define `double`; data for the tests.

`total`, in the next answer cell, is always right: its points must never be lost.
"""

from __future__ import annotations

RIGHT = "def double(x):\n    return 2 * x\n"

KEEPS = {
    "a long line": "def double(x):\n    print('x' * 20_000_000)\n    return 2 * x",
    "a long line in the cell": RIGHT + "print('x' * 20_000_000)",
    "many lines": RIGHT + "for i in range(200_000):\n    print(i)",
    "many lines in one": "def double(x):\n    print('line\\n' * 200_000)\n    return 2 * x",
    "many displays": RIGHT + "from IPython.display import display\nfor i in range(4_000):\n    display(i)",
    "updates": RIGHT
    + "from IPython.display import display\nh = display('a', display_id=True)\nfor i in range(3_000):\n    h.update(i)",
    "clear_output": RIGHT
    + "from IPython.display import clear_output\n"
    + "for i in range(3_000):\n    print(i)\n    clear_output(wait=True)",
    "a huge picture": RIGHT
    + "from IPython.display import display\n"
    + "display({'image/png': 'A' * 30_000_000, 'text/plain': 'picture'}, raw=True)\nprint('after')",
    "pictures one after the other": RIGHT
    + "from IPython.display import clear_output, display\nfor i in range(100):\n"
    + "    clear_output(wait=True)\n    display({'image/png': 'A' * 400_000}, raw=True)",
    "comms": RIGHT
    + "from comm import create_comm\nfor i in range(1000):\n    create_comm(target_name='x', data={'i': i})",
    "stderr": RIGHT + "import sys, os\nprint('a', file=sys.stderr)\nos.write(2, b'I tensorflow')",
    "stderr inside": "import warnings, sys\ndef double(x):\n    warnings.warn('w')\n"
    "    print('e', file=sys.stderr)\n    return 2 * x",
    "names": RIGHT + "t = test = check = results = i = _ = In = Out = get_ipython = np = 5\nimport numpy as np",
    "import": RIGHT + "def __import__(*a): raise ValueError\nopen = exec = eval = print = len = repr = str = None",
    "builtins": RIGHT + "import builtins\nbuiltins.print = builtins.repr = None\nbuiltins.display = lambda *a: None",
    "time magic": "%%time\n" + RIGHT,
    "matplotlib magic": "%matplotlib inline\n" + RIGHT,
    "await": RIGHT + "import asyncio\nawait asyncio.sleep(0.01)",
    "formatters": RIGHT
    + "ip = get_ipython()\nfor f in ip.display_formatter.formatters.values():\n"
    + "    f.for_type(float, lambda *a: '9.0')\n"
    + "    f.for_type(object, lambda *a: '9.0')",
    "displayhook": RIGHT + "import sys\nsys.displayhook = None\nget_ipython().displayhook = None",
    "no stdout": RIGHT + "import sys\nsys.stdout = sys.stderr = None",
    "closed stdout": RIGHT + "import sys\nsys.stdout.close()",
    "ast transformer": RIGHT
    + "import ast\nclass T(ast.NodeTransformer):\n    def visit(self, node):\n        return ast.parse('100.0')\n"
    + "get_ipython().ast_transformers.append(T())",
    "input transformer": RIGHT + "get_ipython().input_transformers_cleanup.append(lambda lines: ['100.0\\n'])",
    "hook": RIGHT + "def stop(*a):\n    raise SystemExit\nget_ipython().events.register('pre_run_cell', stop)",
    "tracing": RIGHT + "import sys\nsys.settrace(lambda *a: None)",
    "recursion": RIGHT + "import sys\nsys.setrecursionlimit(10**9)",
    "alarm": RIGHT + "import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "atexit": RIGHT + "import atexit\natexit.register(lambda: [None for _ in iter(int, 1)])",
    "thread": RIGHT
    + "import threading, time\ndef run():\n    while True:\n        print('x' * 1000)\n        time.sleep(0.001)\n"
    + "threading.Thread(target=run, daemon=True).start()",
    "process": RIGHT + "import subprocess\np = subprocess.Popen(['sleep', '1000'])",
    "fork": RIGHT + "import os\nif os.fork() == 0:\n    import time\n    time.sleep(3)\n    os._exit(0)",
    "SystemExit": RIGHT + "raise SystemExit",
    "sys.exit": RIGHT + "import sys\nsys.exit(0)",
    "an error": RIGHT + "1 / 0",
    "warnings as errors": RIGHT + "import warnings\nwarnings.simplefilter('error')",
    "numpy errors": RIGHT + "import numpy as np\nnp.seterr(all='raise')",
    "text for ever": RIGHT + "print('\\ud800 \\x1b[31m \\x00')",
    "many errors": RIGHT + "raise ValueError('x' * 10_000_000)",
    "no handlers": RIGHT + "get_ipython().kernel.shell_handlers.clear()",
    "unasked": RIGHT + "print('a')\nget_ipython().kernel.session.send(get_ipython().kernel.iopub_socket, 'nonsense')",
}
"""The answer is right all the same: full points."""

LOSES = {
    "endless answer": ("def double(x):\n    while True: pass", "timed out", "still running after"),
    "endless cell": ("while True: pass\n" + RIGHT, "timed out", "still running after"),
    "deaf cell": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "timed out",
        "still running after",
    ),
    "deaf answer": (
        "def double(x):\n    while True:\n        try:\n            while True: pass\n"
        "        except BaseException: pass",
        "timed out",
        "still running after",
    ),
    "no alarm": (
        "import signal\ndef double(x):\n    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n    while True: pass",
        "timed out",
        "still running after",
    ),
    "segfault": ("import ctypes\ndef double(x):\n    ctypes.string_at(0)", "died", "ended the process"),
    "segfault cell": ("import ctypes\nctypes.string_at(0)", "died", "ended the process"),
    "kill": ("import os\ndef double(x):\n    os.kill(os.getpid(), 9)", "died", "ended the process"),
    "_exit": ("import os\ndef double(x):\n    os._exit(0)", "died", "ended the process"),
    "_exit cell": ("import os\nos._exit(0)", "died", "ended the process"),
    "exit": ("exit()\n", "died", "ended the process"),
    "leaving": ("def double(x):\n    exit()\n    return 2 * x", "raised", "exit() was called"),
    "no sockets": ("import os\ndef double(x):\n    os.closerange(3, 200)\n    return 2 * x", "died", ""),
    "exit answer": ("import sys\ndef double(x):\n    sys.exit(0)", "raised", "SystemExit"),
    "input": ("def double(x):\n    return input()", "raised", "input()"),
    "input cell": ("x = input()\n" + RIGHT, "raised", "input"),
    "syntax": ("def double(x)\n    return 2 * x", "raised", "SyntaxError"),
    "nothing": ("x = 5", "not attempted", "`double` is not defined"),
    "not a function": ("double = 5", "raised", ""),
    "interrupt": ("def double(x):\n    raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
    "no JSON": (RIGHT + "import json\njson.dumps = lambda *a, **k: '1.0'", "timed out", "still running"),
    "equal to all": (
        "class E:\n    def __eq__(s, o): return True\n    def __float__(s): return 1.0\ndef double(x):\n    return E()",
        "wrong",
        "",
    ),
    "nan": ("import numpy as np\ndef double(x):\n    return np.full(8, np.nan)", "wrong", ""),
    "too much": ("import numpy as np\ndef double(x):\n    return np.zeros(10**8)", "wrong", "too large"),
    "patched observe": (
        "import ampcourse.exercises.observe as o, gc\no.observe = lambda *a: b'x'\n"
        "o.facts = lambda *a: {'value': 1.0}\n"
        "def double(x): return 0",
        "wrong",
        "",
    ),
}
"""No points for `double`, with this outcome and these words in the reason."""
