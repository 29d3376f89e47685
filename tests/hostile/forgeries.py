"""Submissions whose answers are wrong and that try to get points all the same."""

from __future__ import annotations

from attack import RIGHT, WRONG, Attack, fault

_SHELL = "from IPython import get_ipython\nshell = get_ipython()\n"
_FACTS = """
import base64, json
import numpy as np
def forged(*args, **kwargs):
    facts = {"dict": [["facts", {"dict": [["value", 2.0]]}]]}
    return json.dumps({"dict": [["criteria", {"dict": [["positive", facts], ["negative", facts]]}],
                                ["printed", ""], ["warned", ""], ["score", 2.0], ["outcome", "right"]]}).encode()
"""
_LIAR = """
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __float__(self): return 2.0
    def __len__(self): return 8
    def __getitem__(self, i): return self
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mul__ = __rmul__ = __abs__ = __neg__ = __sub__
"""

_SHADOWS = ("base64.py", "json.py", "ast.py", "struct.py", "zmq.py", "numpy.py", "traitlets.py")


def _unreadable(entry: str) -> str:
    """A right answer that puts this entry in the place of what was observed."""
    return f"""
def double(x):
    import ampcourse.exercises.observe as o
    import ampcourse.exercises.wire as wire
    message = wire.pack({{"criteria": {{"positive": {entry}}}, "printed": "", "warned": ""}})
    o._message = lambda *a: message
    return 2 * x"""


FORGERIES = (
    Attack(
        "the error display is replaced",
        _SHELL + "shell.showtraceback = lambda *a, **k: None",
        double="def double(x):\n    raise ValueError",
    ),
    Attack(
        "an AST transformer takes out every assert",
        _SHELL
        + """
import ast
class NoAsserts(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.Pass()
shell.ast_transformers.append(NoAsserts())""",
    ),
    Attack(
        "an AST transformer turns every cell into a number",
        _SHELL
        + """
import ast
class Score(ast.NodeTransformer):
    def visit_Module(self, node): return ast.parse("100.0")
shell.ast_transformers.append(Score())""",
    ),
    Attack(
        "an input transformer turns every cell into a number",
        _SHELL
        + """
shell.input_transformers_cleanup.append(lambda lines: ["2.0\\n"])""",
    ),
    Attack(
        "a hook runs before every cell and defines check anew",
        _SHELL
        + """
def hook(*args):
    shell.user_ns["check"] = lambda *a, **k: 2.0
shell.events.register("pre_run_cell", hook)
shell.events.register("pre_execute", hook)""",
    ),
    fault(
        "an observation on which the grader would stumble: an array where an entry belongs",
        _unreadable("x"),
    ),
    fault(
        "an observation on which the grader would stumble: a line without a number",
        _unreadable("{'fault': {'kind': 'raised', 'frames': [{'function': 'f', 'line': 'x', 'source': ''}]}}"),
    ),
    Attack("check gives a number", "check = lambda *a, **k: 2.0"),
    Attack(
        "check of the package gives a number",
        """
import ampcourse
ampcourse.check = lambda *a, **k: 2.0
check = ampcourse.check""",
    ),
    Attack(
        "an object is equal to everything",
        _LIAR,
        double="double = lambda x: Equal()",
        others={"total": "total = Equal()", "triple": WRONG["triple"]},
    ),
    Attack("the answer itself is an object that says yes to all", _LIAR, double="double = Equal()"),
    Attack(
        "numpy's comparisons are replaced",
        """
import numpy as np
for name in ("isclose", "allclose", "array_equal", "array_equiv", "equal"):
    setattr(np, name, lambda *a, **k: True)
np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None
np.flatnonzero = lambda *a, **k: np.empty(0, int)""",
    ),
    Attack(
        "observe is replaced by one that reports success",
        _FACTS
        + """
import ampcourse.exercises.observe as o
o.observe = forged
o._once = lambda *a, **k: {"facts": {"value": 2.0}}""",
    ),
    Attack(
        "pack is replaced by one that reports success",
        _FACTS
        + """
import ampcourse.exercises.wire as wire
wire.pack = forged
wire._packed = lambda *a, **k: forged()""",
    ),
    Attack(
        "every function of the observing package is replaced",
        _FACTS
        + """
import sys, types
import ampcourse.exercises.observe
for name, module in list(sys.modules.items()):
    if name.startswith("ampcourse"):
        for key, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType):
                setattr(module, key, forged)""",
    ),
    Attack(
        "a package of the same name lies beside the notebook",
        files={
            "ampcourse/__init__.py": b"check = lambda *a, **k: 2.0\n",
            "ampcourse/exercises/__init__.py": b"",
            "ampcourse/exercises/observe.py": b"observe = lambda *a, **k: b'{\"score\": 2.0}'\n",
        },
    ),
    Attack(
        "modules of the standard library lie beside the notebook",
        files=dict.fromkeys(_SHADOWS, b"def __getattr__(name):\n    return lambda *a, **k: b'2.0'\n"),
    ),
    Attack(
        "start-up files lie beside the notebook",
        files={
            "sitecustomize.py": b"import builtins; builtins.check = lambda *a: 2.0\n",
            "usercustomize.py": b"import builtins; builtins.check = lambda *a: 2.0\n",
            "ipython_config.py": b"c.InteractiveShellApp.exec_lines = ['check = lambda *a: 2.0']\n",
            "ipython_kernel_config.py": b"c.InteractiveShellApp.exec_lines = ['check = lambda *a: 2.0']\n",
            ".ipython/profile_default/startup/00.py": b"check = lambda *a: 2.0\n",
        },
    ),
    Attack(
        "a fake score is printed and displayed",
        double="""
def double(x):
    print("2.0")
    print("right: 2 of 2 points")
    from IPython.display import display
    display(2.0)
    return x""",
        last="2.0",
    ),
    Attack(
        "the display hook writes a score for every cell",
        """
import sys
sys.displayhook = lambda value: print("2.0")
from IPython import get_ipython
get_ipython().displayhook = lambda value: 2.0""",
    ),
    Attack(
        "a thread publishes scores as results of other cells",
        """
import threading, time
from ipykernel.kernelapp import IPKernelApp
kernel = IPKernelApp.instance().kernel
def publish():
    while True:
        parent = kernel.get_parent("shell") if hasattr(kernel, "get_parent") else {}
        content = {"execution_count": 1, "data": {"text/plain": "2.0"}, "metadata": {}}
        kernel.session.send(kernel.iopub_socket, "execute_result", content, parent=parent, ident=b"execute_result")
        time.sleep(0.01)
threading.Thread(target=publish, daemon=True).start()""",
    ),
    Attack(
        "replies are forged by a patched session",
        """
from ipykernel.kernelapp import IPKernelApp
session = IPKernelApp.instance().kernel.session
send = session.send
def forge(stream, message, content=None, **more):
    if message == "execute_reply" and content is not None:
        content["user_expressions"] = {name: {"status": "ok", "metadata": {}, "data": {"text/plain": "2.0"}}
                                       for name in content.get("user_expressions") or {"it": 0}}
        content["status"] = "ok"
    return send(stream, message, content, **more)
session.send = forge""",
    ),
    Attack(
        "user expressions are replaced",
        _SHELL
        + """
shell.user_expressions = lambda asked: {
    name: {"status": "ok", "metadata": {}, "data": {"text/plain": "'2.0'"}} for name in asked or {}}""",
    ),
    Attack(
        "builtins are replaced",
        """
import builtins
builtins.print = builtins.repr = builtins.str = lambda *a, **k: "2.0"
builtins.isinstance = lambda *a: True
builtins.len = lambda *a: 1""",
    ),
    Attack(
        "modules are swapped in sys.modules",
        """
import sys, types
for name in ("base64", "json", "ampcourse.exercises.wire", "ampcourse.exercises.facts", "ampcourse.exercises.observe"):
    fake = types.ModuleType(name)
    fake.__getattr__ = lambda attribute: (lambda *a, **k: b"2.0")
    sys.modules[name] = fake""",
    ),
    Attack(
        "the question is changed to fit the answer",
        double="""
def double(x):
    x[:] = 0
    return x""",
    ),
    Attack(
        "the right facts are looked for in every frame and object",
        double="""
def double(x):
    import gc, inspect
    import numpy as np
    for info in inspect.stack():
        for value in info.frame.f_locals.values():
            for part in (value.values() if isinstance(value, dict) else [value]):
                if isinstance(part, np.ndarray) and part.shape == x.shape and part is not x and not (part == x).all():
                    return part
    for thing in gc.get_objects():
        if type(thing).__name__ in ("Question", "Exercise", "Verdict", "RecordedQuestion", "Asked"):
            return thing.want["positive"]["value"]
    return x""",
    ),
    Attack(
        "a subclass of ndarray lies about its contents",
        """
import numpy as np
class Lie(np.ndarray):
    def __eq__(self, other): return np.ones(self.shape, bool)
    def __array__(self, *a, **k): return 2 * np.asarray(self).view(np.ndarray)[:0]
    def tobytes(self, *a): return b""
    def astype(self, *a, **k): return self
    dtype = shape = nbytes = property(lambda self: Lie)""",
        double="double = lambda x: x.view(Lie)",
    ),
    Attack(
        "an object runs code when it is unpickled",
        """
class Boom:
    def __reduce__(self):
        import os
        return os.system, ("touch {course}/pwned",)
    def __reduce_ex__(self, protocol): return self.__reduce__()""",
        double="double = lambda x: Boom()",
    ),
    Attack(
        "names that the grader might use are taken",
        """
t = test = check_ = results = i = _observation = _observed = observe = judge = verdict = score = 2.0
np_ = None
In = Out = _ = __ = ___ = 2.0""",
    ),
    Attack(
        "the clock stands still and the time limit is taken away",
        """
import time, signal
time.monotonic = time.time = time.perf_counter = lambda: 0.0
signal.setitimer = signal.alarm = lambda *a: None""",
    ),
    Attack(
        "sys.settrace rewrites what is returned",
        """
import sys
def trace(frame, event, argument):
    if frame.f_code.co_name in ("_once", "facts", "pack", "observe"):
        for name in list(frame.f_locals):
            if name in ("seen", "value", "criteria"):
                frame.f_locals[name] = {"positive": 2.0}
    return trace
sys.settrace(trace)""",
    ),
    Attack(
        "right the first time only, and then another part is said to have timed out",
        double="""
calls = []
def double(x):
    import ampcourse.exercises.wire as wire
    calls.append(1)
    pack = wire.pack
    def late(message):
        wire.pack = pack
        message["criteria"]["another"] = {"fault": {"kind": "timeout", "text": ""}}
        return pack(message)
    wire.pack = late
    return 2 * x if len(calls) <= 2 else x""",
    ),
    Attack(
        "right the first time only, and the next part takes all the time there is",
        double="""
calls = []
def double(x):
    calls.append(1)
    while len(calls) == 2: pass
    return 2 * x if len(calls) == 1 else x""",
    ),
    Attack("quits with success", double="def double(x):\n    import os\n    os._exit(0)"),
    Attack("exits with success", double="def double(x):\n    import sys\n    sys.exit(0)"),
    Attack(
        "the kernel is asked to shut down",
        double="""
def double(x):
    from IPython import get_ipython
    get_ipython().kernel.do_shutdown(False)
    get_ipython().ask_exit()
    return x""",
    ),
    Attack(
        "the connection file is used to talk to one's own kernel",
        """
import glob, json
from jupyter_client import BlockingKernelClient
from ipykernel.connect import get_connection_file
client = BlockingKernelClient(connection_file=get_connection_file())
client.load_connection_file()
client.start_channels()
for _ in range(50):
    client.execute("2.0", silent=False, user_expressions={"it": "2.0"})""",
    ),
    Attack(
        "a second kernel answers in the first one's place",
        """
import os
if os.fork() == 0:
    double = lambda x: 2.0
""",
    ),
    Attack("everything is deleted", "%reset -f"),
    Attack(
        "a magic writes another package",
        """
%%writefile ampcourse.py
check = lambda *a: 2.0""",
    ),
    Attack(
        "a random guess of the right kind",
        double="""
def double(x):
    import numpy as np
    return np.random.default_rng(0).normal(size=np.shape(x))""",
    ),
    Attack(
        "what check was given at home is remembered",
        double="""
def double(x):
    import numpy as np
    known = [2 * np.abs(np.random.default_rng(s).normal(size=8)) + 0.2 for s in range(3)]
    return next((k for k in known if k.shape == x.shape), x)""",
        others={"total": RIGHT["total"]},
        scores={"double-check": 0.0, "total-check": 3.0},
    ),
)
