"""What a hostile submission tries: plain data, for whatever starts sandboxes.

Each of `ATTEMPTS` runs in a kernel that goes on afterwards. It may use `BAIT` (see `bait` in conftest.py) and what
`TOOLS` defines; it raises or prints what it got, or ends with the line "held".
"""

from __future__ import annotations

import sandbox_holding

TOOLS = '''
import ctypes, errno, glob, json, mmap, os, pathlib, resource, signal, socket, struct, subprocess, sys, time

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
X86 = os.uname().machine == "x86_64"

def call(x86, arm, *arguments):
    """A system call by its number; it raises what went wrong."""
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(x86 if X86 else arm), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def refused(attempt, *arguments):
    """Whether it raised."""
    try:
        got = attempt(*arguments)
    except (OSError, ValueError, MemoryError) as error:
        return True
    print("not refused:", arguments, repr(got)[:200])
    return False

def dial(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as one:
        one.settimeout(1)
        one.connect(address)

def write(path):
    if os.path.isdir(path):
        path = os.path.join(path, ".mine")
    with open(path, "r+" if os.path.exists(path) else "w") as file:
        return file.write("mine")

def held(*answers):
    print("held" if all(answers) else "NOT HELD")
'''

READ = {
    "the grader's files": """
found = [path for path in BAIT["paths"] if os.path.lexists(path)]
held(not found) if not found else print("there:", found)
""",
    "paths known to be dangerous": """
paths = (
    "/sys", "/var", "/srv", "/mnt", "/media", "/opt", "/boot", "/run/docker.sock", "/var/run/docker.sock",
    "/run/user", "/run/dbus", "/run/systemd", "/tmp/.X11-unix", "/etc/shadow", "/etc/ssh", "/etc/jupyter",
    "/etc/machine-id", "/etc/hostname", "/etc/resolv.conf", "/usr/local/share/nbgrader/exchange", "/old_root")
python = [os.path.join(prefix, "") for prefix in (sys.prefix, sys.base_prefix)]  # it may lie in /opt
there = [path for path in paths if os.path.lexists(path) and not any(one.startswith(path + "/") for one in python)]
held(not there) if not there else print(there)
""",
    "everything that can be listed": """
text = BAIT["word"].encode()
got = []
for top in ("/", *(f"/{name}" for name in os.listdir("/") if name not in ("proc", "usr", "dev"))):
    for folder, below, files in os.walk(top):
        if folder == "/" or "site-packages" in folder or folder.startswith(sys.base_prefix) or "/usr" in folder:
            below.clear()
        got += [os.path.join(folder, name) for name in files if BAIT["word"] in name]
held(not got) if not got else print(got)
""",
    "the grader's environment, through every process": """
found = []
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ"):
    try:
        data = open(path, "rb").read()
    except OSError:
        continue
    if BAIT["word"].encode() in data:
        found.append(path)
held(not found, BAIT["word"] not in str(dict(os.environ)))
""",
    "the command line of what started it": """
lines = b""
for path in glob.glob("/proc/[0-9]*/cmdline"):
    lines += open(path, "rb").read()
held(b"ampcourse-grading-" not in lines, b"seccomp" not in lines, b"ro-bind" not in lines)
""",
    "memory of the processes above it": """
def status(pid):
    return dict(line.split(":", 1) for line in open(f"/proc/{pid}/status").read().split("\\n") if ":" in line)
def limits(pid):
    return [line.split()[-3:-1] for line in open(f"/proc/{pid}/limits") if not line.startswith(("Limit", "Max cpu"))]
answers = []
for pid in {1, os.getppid()} - {0, os.getpid()}:
    try:
        open(f"/proc/{pid}/mem", "r+b").close()
    except OSError:
        continue
    # It is the same user's, and so to be taken over: then it must be no better off.
    answers.append(status(pid)["Seccomp"].strip() == "2" and int(status(pid)["CapPrm"], 16) == 0)
    answers.append(limits(pid) == limits(os.getpid()))
held(*answers)
""",
    "open descriptors that lead out": """
odd = []
for number in os.listdir("/proc/self/fd"):
    try:
        odd.append((number, os.readlink(f"/proc/self/fd/{number}")))
    except OSError:
        continue
leads = [one for one in odd if one[1].startswith("/") and not one[1].startswith(("/dev/", "/home/student", "/tmp",
         "/proc", "/usr", sys.prefix, sys.base_prefix)) or "handed" in one[1]]
# A descriptor of a folder outside would be a way out, whatever it is called.
for number, _ in odd:
    try:
        os.close(os.open("../../../../../../etc/shadow", os.O_RDONLY, dir_fd=int(number)))
        leads.append(number)
    except OSError:
        pass
held(not leads) if not leads else print(leads)
""",
    "the names of the grader's keys": """
try:
    lines = open("/proc/keys").read().splitlines()
except OSError:
    lines = []
held(len(lines) <= 1, all("_ses" in line for line in lines))  # a session of its own, at most
""",
    "the launcher's modules": """
import importlib.util
held(*(importlib.util.find_spec(name) is None for name in ("start", "look", "seccomp", "limits")))
""",
    "the real package": """
import importlib.util
names = ("ampcourse.grading", "ampcourse.cli", "ampcourse.exercises.answers", "ampcourse.course")
def there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
import ampcourse
mentions = [name for name in glob.glob(f"{sys.prefix}/lib/python*/site-packages/*ampcourse*")
            if os.path.isfile(name) and open(name).read() or os.path.isdir(name) and os.listdir(name)]
held(not any(map(there, names)), ampcourse.__file__.startswith(BAIT["course"]), not mentions)
""",
}

WRITE = {
    "trees that are read-only": """
import numpy
places = ("/", "/usr", "/usr/bin", "/etc", "/etc/passwd", "/dev", "/proc", "/run", sys.prefix, sys.base_prefix,
          os.path.dirname(numpy.__file__), numpy.__file__, sys.executable, BAIT["course"], "/proc/sys",
          "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/pid_max",
          "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/sys/vm/overcommit_memory",
          "/proc/sysrq-trigger", "/sys/kernel", "/sys/fs/cgroup")
held(*(refused(write, place) for place in places))
""",
    "mount and remount": """
def mount(source, target, kind, flags):
    if _libc.mount(source, target, kind, flags, None):
        raise OSError(ctypes.get_errno(), "mount")
held(refused(mount, b"none", b"/tmp", b"tmpfs", 0), refused(mount, None, b"/usr", None, 32 | 4096),
     refused(mount, b"proc", b"/tmp", b"proc", 0), refused(call, 166, 39, b"/proc", 2))
""",
    "device nodes": """
disk, memory = os.makedev(8, 0), os.makedev(1, 2)
held(refused(os.mknod, "/tmp/disk", 0o60666, disk), refused(os.mknod, "/tmp/kmem", 0o20666, memory),
     *(not os.path.exists(path) for path in ("/dev/mem", "/dev/kmem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/fuse",
       "/dev/kvm", "/dev/net/tun", "/dev/vsock", "/dev/hugepages")))
""",
    "its own limits upwards": """
def raise_limit(kind):
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (hard + 1, hard + 1))
kinds = [getattr(resource, "RLIMIT_" + name) for name in ("NPROC", "DATA", "FSIZE", "CPU", "NOFILE", "MEMLOCK")]
held(*(refused(raise_limit, kind) for kind in kinds), resource.getrlimit(resource.RLIMIT_CORE) == (1, 1))
""",
    "out of the memory killer's sight": """
def lower():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-500")
held(refused(lower), open("/proc/self/oom_score_adj").read().strip() == "1000")
""",
}

RIGHTS = {
    "user, rights, no new privileges": """
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
held(os.getuid() == os.geteuid() == 1000, *(int(status[key], 16) == 0 for key in ("CapEff", "CapPrm", "CapInh",
     "CapBnd", "CapAmb")), status["NoNewPrivs"].strip() == "1", status["Seccomp"].strip() == "2", os.getgroups() in
     ([], [1000], [65534], [1000, 65534]))
""",
    "the same of every process that it can see": """
answers = []
for path in glob.glob("/proc/[0-9]*/status"):
    status = dict(line.split(":", 1) for line in open(path).read().splitlines() if ":" in line)
    mine = status["Uid"].split()[0] == "1000"
    answers.append(status["Seccomp"].strip() == "2" and int(status["CapEff"], 16) == 0 if mine else True)
held(len(answers) >= 1, *answers)
""",
    "becoming user 0": """
held(refused(os.setuid, 0), refused(os.setresuid, 0, 0, 0), refused(os.setgid, 0), refused(os.setgroups, [0]),
     refused(os.chroot, "/tmp"), refused(os.chown, "/tmp", 0, 0))
""",
    "programs that run as their owner": """
found = subprocess.run("find /usr -xdev -perm -4000 -type f 2>/dev/null", shell=True, capture_output=True, text=True)
became = subprocess.run(["su", "-c", "id -u"], input="", capture_output=True, text=True).stdout
flags = [line.split()[3] for line in open("/proc/mounts") if line.split()[1] == "/usr"][-1]
held("nosuid" in flags, became.strip() != "0")
""",
    "namespaces of its own": """
kinds = (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80)
child = subprocess.run(["unshare", "--user", "--map-root-user", "id", "-u"], capture_output=True, text=True)
held(*(refused(call, 272, 97, ctypes.c_long(kind)) for kind in kinds), child.returncode != 0,
     *(refused(call, 56, 220, ctypes.c_ulong(kind | 17), None, None, None, None) for kind in kinds[:-1]),
     refused(call, 435, 435, ctypes.create_string_buffer(struct.pack("Q", 0x10000000) + bytes(80)), 88))
""",
    "entering other namespaces": """
kinds = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
def enter(pid, kind):
    file = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
    call(308, 268, file, 0)
held(*(refused(enter, pid, kind) for pid in (1, os.getpid()) for kind in kinds))
""",
    "system calls that are filtered": """
buffer = ctypes.create_string_buffer(256)
attempts = {
    "memfd_create": (319, 279, b"x", 0), "shmget": (29, 194, 0, 4096, 0o1600), "msgget": (68, 186, 0, 0o1600),
    "semget": (64, 190, 0, 1, 0o1600), "ptrace": (101, 117, 0, 0, 0, 0), "bpf": (321, 280, 0, buffer, 48),
    "process_vm_readv": (310, 270, os.getpid(), buffer, 1, buffer, 1, 0), "keyctl": (250, 219, 0, -3, 0),
    "add_key": (248, 217, b"user", b"x", b"y", 1, -3), "request_key": (249, 218, b"user", b"x", 0, -3),
    "perf_event_open": (298, 241, buffer, 0, -1, -1, 0), "userfaultfd": (323, 282, 0),
    "inotify_init1": (294, 26, 0),
    "io_uring": (425, 425, 8, buffer),
    "open_by_handle_at": (304, 265, -100, buffer, 0), "init_module": (175, 105, buffer, 8, b""),
    "kexec_load": (246, 104, 0, 0, None, 0), "swapon": (167, 224, b"/tmp/x", 0), "reboot": (169, 142, 0, 0, 0, None),
    "settimeofday": (164, 170, buffer, None), "sethostname": (170, 161, b"x", 1), "syslog": (103, 116, 3, buffer, 100),
    "pidfd_getfd": (438, 438, 0, 0, 0), "vmsplice": (278, 75, 0, buffer, 1, 0),

    "mount_setattr": (442, 442, -100, b"/", 0, buffer, 32), "fsopen": (430, 430, b"tmpfs", 0),
    "open_tree": (428, 428, -100, b"/", 1),

    "pivot_root": (155, 41, b"/tmp", b"/tmp"), "acct": (163, 89, None),
    "quotactl": (179, 60, 0, None, 0, buffer), "io_setup": (206, 0, 1, buffer),
    "fanotify_init": (300, 262, 0, 0), "memfd_secret": (447, 447, 0), "mq_open": (240, 180, b"x", 66, 0o600, None)}
codes = {}
for name, arguments in attempts.items():
    try:
        call(*arguments)
        codes[name] = "worked"
    except OSError as error:
        codes[name] = errno.errorcode[error.errno]
bad = {name: code for name, code in codes.items() if code not in ("EPERM", "ENOSYS")}
held(not bad) if not bad else print(bad)
""",
    "the 32-bit door": """
# int 0x80 takes the numbers of the 32-bit table: 20 is getpid there and writev here.
if not X86:
    held(True)
else:
    code = b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3"
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
    page.write(code)
    got = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    x32 = _libc.syscall(ctypes.c_long(0x40000000 + 39))
    held(got == -errno.ENOSYS, x32 == -1)
""",
    "typing into a terminal": """
import fcntl, pty
a, b = pty.openpty()
held(refused(fcntl.ioctl, b, 0x5412, b"x"), refused(fcntl.ioctl, 0, 0x5412, b"x"), refused(open, "/dev/tty"))
""",
}

OTHERS = {
    "seeing other processes": """
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
names = [open(f"/proc/{pid}/cmdline").read() for pid in pids if os.path.exists(f"/proc/{pid}/cmdline")]
held(len(pids) < 12, not any("pytest" in name or BAIT["word"] in name for name in names))
""",
    "signals to the outside": """
held(*(refused(os.kill, pid, 0) for pid in BAIT["pids"]), refused(os.kill, -BAIT["pids"][0], 0))
""",
    "a signal to all": """
answer = subprocess.run([sys.executable, "-c", '''
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getsid(0), os.getpgrp(), os.getppid())
'''], capture_output=True, text=True)
held(all(int(word) < 1000 or int(word) == os.getpid() for word in answer.stdout.split()))
""",
    "dialling what listens on the machine": """
port = BAIT["port"]
held(refused(dial, socket.AF_INET, ("127.0.0.1", port)), refused(dial, socket.AF_INET6, ("::1", port)),
     refused(dial, socket.AF_UNIX, "\\0" + BAIT["abstract"]), refused(dial, socket.AF_UNIX, BAIT["socket"]))
""",
    "the network": """
found = {name for _, name in socket.if_nameindex()}
held(refused(dial, socket.AF_INET, ("1.1.1.1", 53)), refused(dial, socket.AF_INET, ("192.0.2.1", 9), socket.SOCK_DGRAM),
     refused(dial, socket.AF_INET6, ("2606:4700:4700::1111", 53)),
     refused(dial, socket.AF_INET, ("169.254.169.254", 80)),
     refused(socket.getaddrinfo, "example.org", 80), found <= {"lo"})
""",
    "unusual kinds of sockets": """
kinds = [(17, socket.SOCK_RAW, 0), (40, socket.SOCK_STREAM, 0), (38, 5, 0), (16, socket.SOCK_RAW, 12), (16, 3, 6),
         (31, 3, 0), (29, 3, 1), (2, socket.SOCK_RAW, 1), (2, socket.SOCK_STREAM, 132), (2, 2, 1),
         (44, 3, 0), (21, 5, 0)]
held(*(refused(socket.socket, *kind) for kind in kinds), refused(socket.socketpair, 30, 1, 0))
""",
}

HOLDING = sandbox_holding.HOLDING

ATTEMPTS = {
    f"{kind}: {name}": code
    for kind, group in (("read", READ), ("write", WRITE), ("rights", RIGHTS), ("others", OTHERS), ("memory", HOLDING))
    for name, code in group.items()
}


# Each in a kernel of its own, which it ends or fills: the code, settings, and words of the reason that is given; where
# there are none, the kernel must live and the code end with "held".
DEADLY: dict[str, tuple[str, dict[str, float], str]] = {
    **sandbox_holding.DEADLY,
    "memory, at once": (
        "held(refused(bytearray, 8 << 30), refused(mmap.mmap, -1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))",
        {},
        "",
    ),
    "memory, piece by piece": (
        """
pieces = []
try:
    while True:
        pieces.append(b"x" * (8 << 20))
except MemoryError:
    print("no more")
    time.sleep(3)
""",
        {"memory_mib": 150, "processes": 16},
        "more than 150 MiB of memory",
    ),
    "memory, by several processes": (
        """
for _ in range(6):
    if os.fork() == 0:
        piece = b"x" * (50 << 20)
        time.sleep(60)
time.sleep(20)
""",
        {"memory_mib": 200},
        "more than 200 MiB of memory",
    ),
    "memory, shared with children and so not a fault": (
        """
piece = bytearray(os.urandom(1)) * (60 << 20)
children = []
for _ in range(4):
    if (child := os.fork()) == 0:
        time.sleep(1)
        os._exit(0)
    children.append(child)
held(*(os.waitpid(child, 0)[1] == 0 for child in children))
""",
        {"memory_mib": 200},
        "",
    ),
    "memory, in the tables that describe it": (
        """
size = 1 << 40
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
begin = _libc.mmap(None, size, 1, 0x4022, -1, 0)  # to read only, private, nobody's, without reserve
for offset in range(0, size, 2 << 20):
    ctypes.c_char.from_address(begin + offset).value
""",
        {"memory_mib": 100},
        "more than 100 MiB of memory",
    ),
    "the disk": (
        """
full = 0
for folder in ("/tmp", os.environ["HOME"], os.getcwd(), "/dev/shm"):
    for number in range(100):
        try:
            with open(f"{folder}/fill{number}", "wb") as file:
                file.write(bytes(1 << 20))
        except OSError as error:
            full += error.errno == errno.ENOSPC
            break
    subprocess.run(f"rm -f {folder}/fill*", shell=True)
held(full == 4)
""",
        {"disk_mib": 16},
        "",
    ),
    "a file without end": (
        """
def grow():
    with open("large", "wb") as file:
        while True:
            file.write(bytes(1 << 20))
try:
    grow()
except OSError as error:
    held(error.errno == errno.EFBIG, os.path.getsize("large") <= 4 << 20)
""",
        {"disk_mib": 64, "file_mib": 4},
        "",
    ),
    "files without number": (
        """
for number in range(10**7):
    os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
""",
        {},
        "files",
    ),
    "sockets without number": (
        """
pairs = []
for _ in range(16):
    if os.fork() == 0:
        while True:
            try:
                pairs.append(socket.socketpair())
            except OSError:
                time.sleep(60)
time.sleep(20)
""",
        {},
        "sockets",
    ),
    "connections without number": (
        """
listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
held_open = []
for _ in range(200):
    held_open.append(socket.create_connection(listener.getsockname()))
    held_open.append(listener.accept()[0])
time.sleep(20)
""",
        {},
        "more than 100 sockets",
    ),
    "terminals without number": (
        """
for _ in range(300):
    os.open("/dev/ptmx", os.O_RDWR)
time.sleep(20)
""",
        {},
        "terminals",
    ),
    "descriptors without number": (
        """
held(refused(lambda: [os.open("/dev/null", os.O_RDONLY) for _ in range(10**6)]))
""",
        {},
        "",
    ),
    "processes without number": (
        """
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        count += 1
except OSError as error:
    held(error.errno == errno.EAGAIN, 8 < count < 32)
""",
        {"processes": 32},
        "",
    ),
    "threads without number": (
        """
import threading
count = 0
try:
    while count < 1000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        count += 1
except RuntimeError:
    held(count < 32)
""",
        {"processes": 32},
        "",
    ),
    "a loop without end": ("while True: pass", {"cpu_seconds": 1}, "more than 1 s of processor time"),
    "a loop that will not hear": (
        """
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
resource.setrlimit(resource.RLIMIT_CPU, (1, 2))  # or this would take as long as the hard limit leaves: 5 s more
held(hard == 6)
while True:
    pass
""",
        {"cpu_seconds": 1},
        "signal 9 (SIGKILL)",
    ),
    "time": ("time.sleep(600)", {"submission_seconds": 0.5, "start_seconds": 1.5}, "it ran for more than"),
    "its own end, by force": ("os.kill(os.getpid(), 9)", {}, "signal 9 (SIGKILL)"),
    "its own end, all together": ("os.killpg(0, 9)", {}, "signal 9 (SIGKILL)"),
    "its own end, quietly": ("os._exit(0)", {}, "it ended by itself, with exit code 0"),
    "a wrong address": ("ctypes.string_at(1)", {}, "segmentation fault"),
    "the end of its sandbox's first process": (
        "held(refused(os.kill, 1, 9) or os.path.exists('/proc/1/stat'))",
        {},
        "",
    ),
}


# Honest work that must succeed all the same: the code, and what it prints among other things.
WORKS: dict[str, tuple[str, str]] = {
    **sandbox_holding.WORKS,
    "files": (
        "import helper, os; print(helper.answer(), set(os.listdir('.')) >= {'helper.py', 'more', 'zmq.py'})",
        "42 True",
    ),
    "writing": (
        "open('mine.txt', 'w').write('x'); print(open('mine.txt').read())",
        "x",
    ),
    "box": (
        "import ampcourse.quiet as q; print(q.CALM, q.__file__)",
        "True /course/ampcourse/quiet.py",
    ),
    "data": (
        "import os; print(os.path.getsize('/course/ampcourse/_bundled/data/fashion_mnist.npz') > 1e6)",
        "True",
    ),
    "shell": (
        "!echo $HOME",
        "/home/student",
    ),
    "bash": (
        "%%bash\necho $((6 * 7)); id -un",
        "42\nstudent",
    ),
    "processes": (
        "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))",
        "[1, 2]",
    ),
    "sockets": (
        "import zmq; print(zmq.Context().socket(zmq.PAIR).bind_to_random_port('tcp://127.0.0.1') > 0)",
        "True",
    ),
    "figure": (
        "import matplotlib.pyplot as p; p.plot([1, 2]); p.savefig('f.png'); print(open('f.png', 'rb').read(4))",
        "b'\\x89PNG'",
    ),
    "profile": (
        "import os; print(os.environ['AMPCOURSE_PROFILE'], os.environ['PYTHONHASHSEED'], os.getcwd())",
        "grade 0 /home/student/work",
    ),
}

TENSORFLOW = """
import numpy as np, tensorflow as tf, keras
x = np.random.rand(256, 4).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
data = data.map(lambda a, b: (a * 2, b), num_parallel_calls=tf.data.AUTOTUNE)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=True)
history = model.fit(data.batch(32).prefetch(2), epochs=2, verbose=0).history["loss"]
square = tf.function(lambda a: tf.reduce_sum(a * a), jit_compile=True)
model.save("kept.keras")
again = keras.models.load_model("kept.keras")
import psutil
print(len(history), float(square(tf.ones(100))), len(again.weights), psutil.Process().num_threads() < 64)
"""
"""What a lesson does: a fit through tf.data, XLA, saving."""
