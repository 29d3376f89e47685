"""What a sandboxed kernel sees of the machine: the system and Python to read, folders in memory to write, the box.

A `View` is plain data: whoever starts a sandbox renders it in its own way. Everything that a grader has besides is
simply not there.
"""

from __future__ import annotations

import os
import py_compile
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox.limits import MIB
from ampcourse.grading.settings import Settings

USER, UID, GID = "student", 1000, 1000
HOME, WORK = "/home/student", "/home/student/work"
HOST = "grading"
COURSE = "/course"
"""Where the box's `ampcourse` lies."""
INSIDE = "/run/ampcourse"
"""Where the programs of the sandbox's own lie."""
WRITABLE = ("/tmp", HOME, WORK, "/dev/shm")
"""File systems in memory, each with a size."""

BIND, LINK, TMPFS, DEVICE = "bind", "link", "tmpfs", "device"
_LINKED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
_ETC = ("alternatives", "fonts", "ld.so.cache", "localtime", "mime.types", "protocols", "services")
# Inside /usr or Python's own folders, and yet not for students: the exchange holds everybody's submissions, and
# Jupyter's settings may hold the gradebook's password.
_PRIVATE = ("/usr/local/share/nbgrader", "/usr/share/nbgrader", "/usr/local/etc/jupyter", "/usr/etc/jupyter")
_GPU = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dxg")
_GPU_READ = ("/sys/bus/pci", "/sys/devices", "/sys/module/nvidia", "/opt/nvidia")


@dataclass(frozen=True)
class Part:
    """One thing in the view; parts are made in order.

    Attributes:
        kind: BIND (a file or folder of the machine, to read), LINK, TMPFS (to write) or DEVICE (a device node).
        target: where it is inside.
        source: what is bound, or what the link says.
        size: of a file system in memory, in bytes.
    """

    kind: str
    target: str
    source: str = ""
    size: int = 0


@dataclass(frozen=True)
class View:
    """All that is visible, and the surroundings of the first process. Only `WRITABLE` folders can be written."""

    parts: tuple[Part, ...]
    environment: dict[str, str]


def make_view(box: Box, settings: Settings, folder: Path) -> View:
    """Write the box's files below a folder of ours and say what is to be seen.

    Args:
        box: the course as a student's process may see it.
        settings: sizes, and whether there is a GPU.
        folder: empty, and to be kept as long as a sandbox uses the view; readable for the sandbox's user.

    Raises:
        GradingError: if Python lies where it cannot be shown without showing too much.
    """
    trees = _trees()
    size = settings.disk_mib * MIB
    parts = [Part(BIND, "/usr", "/usr"), *_top_links(), *_etc(folder)]
    parts += [Part(TMPFS, path, size=size) for path in WRITABLE]
    parts += [Part(BIND, tree, tree) for tree in trees]
    parts += _links_on_the_way(["/usr", *trees])
    parts += _hidden(folder, ["/usr", *trees])
    parts += _course(box, folder)
    parts.append(Part(BIND, INSIDE, str(write_programs(folder))))
    if settings.gpu:
        parts += _gpu()
    _readable(folder)
    return View(tuple(parts), environment(settings))


def environment(settings: Settings, profile: str = "grade") -> dict[str, str]:
    """The surroundings, with nothing of the grader's own; one hash seed, so that the order of sets is the same."""
    found = {
        "AMPCOURSE_PROFILE": profile,
        "HOME": HOME,
        "KERAS_BACKEND": "tensorflow",
        "LANG": "C.UTF-8",
        "LOGNAME": USER,
        "MKL_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",  # results do not depend on the machine's processors, and no thread waits busily
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": COURSE,
        "SHELL": "/bin/sh",
        "TERM": "dumb",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_NUM_INTRAOP_THREADS": "1",  # submissions run side by side: two threads each would get in each other's way
        "TMPDIR": "/tmp",
        "USER": USER,
    }
    if not settings.gpu:
        found["CUDA_VISIBLE_DEVICES"] = "-1"
    return found


def _trees() -> list[str]:
    """Python's own folders, the outer one first; not those that /usr holds."""
    found: list[str] = []
    for tree in sorted({sys.base_prefix, sys.prefix, os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)}):
        if within(tree, "/usr"):
            continue
        _refuse_too_wide(tree)
        if not any(within(tree, other) for other in found):
            found.append(tree)
    return found


def _refuse_too_wide(tree: str) -> None:
    homes = [str(Path("~").expanduser().resolve()), *("/home", "/root", "/tmp", "/var", "/etc", "/run", "/srv")]
    if any(within(home, tree) for home in homes):
        raise GradingError(
            f"Python is installed in '{tree}', which holds much besides, and a sandbox would show all of it: "
            "make a virtual environment in a folder of its own (python3 -m venv) and run ampcourse from there."
        )


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it, by its words alone."""
    return PurePosixPath(path).is_relative_to(folder)


def _top_links() -> Iterator[Part]:
    for name in _LINKED:
        path = Path("/", name)
        if path.is_symlink():
            yield Part(LINK, str(path), str(path.readlink()))
        elif path.is_dir():
            yield Part(BIND, str(path), str(path))


def _links_on_the_way(trees: list[str]) -> Iterator[Part]:
    """The links, outside of what is bound, by which Python's folders and its executable are named."""
    said = set()
    for path in (sys.prefix, sys.base_prefix, sys.executable, getattr(sys, "_base_executable", sys.executable)):
        for link, text in _links(path):
            bound = any(within(link, tree) for tree in trees) or str(PurePosixPath(link).parent) == "/"
            if link not in said and not bound:
                said.add(link)
                yield Part(LINK, link, text)


def _links(path: str, most: int = 40) -> Iterator[tuple[str, str]]:
    """Every link that is met in following a path, with what it says."""
    rest, here = list(PurePosixPath(path).parts[1:]), Path("/")
    while rest and most:
        here = Path(os.path.normpath(here / rest.pop(0)))
        if here.is_symlink():
            text, most = str(here.readlink()), most - 1
            yield str(here), text
            rest[:0] = [part for part in PurePosixPath(text).parts if part != "/"]
            here = Path("/") if text.startswith("/") else here.parent


def _etc(folder: Path) -> Iterator[Part]:
    files = {
        "passwd": f"{USER}:x:{UID}:{GID}:{USER}:{HOME}:/bin/sh\n",
        "group": f"{USER}:x:{GID}:\n",
        "hosts": f"127.0.0.1 localhost {HOST}\n::1 localhost {HOST}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    _write(folder / "etc", {name: text.encode() for name, text in files.items()})
    yield from (Part(BIND, f"/etc/{name}", str(folder / "etc" / name)) for name in files)
    yield from (Part(BIND, f"/etc/{name}", f"/etc/{name}") for name in _ETC if Path("/etc", name).exists())


def _hidden(folder: Path, trees: list[str]) -> Iterator[Part]:
    """Empty things in front of what lies inside a bound tree and is not for students."""
    nothing, blank = folder / "nothing", folder / "blank"
    nothing.mkdir()
    blank.touch()
    for path in sorted({*_PRIVATE, *_own_package(), *_settings_folders()}):
        if any(within(path, tree) for tree in trees) and Path(path).exists():
            yield Part(BIND, path, str(nothing if Path(path).is_dir() else blank))


def _own_package() -> Iterator[str]:
    """The real `ampcourse` wherever Python would find it, and the clone, if that lies within what is bound."""
    package = Path(__file__).resolve().parents[2]
    yield str(package)
    clone = package.parent
    if (clone / "pyproject.toml").is_file() and not within(sys.prefix, str(clone)):
        yield str(clone)
    places = {*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for place in map(Path, places):
        for pattern in ("ampcourse", "ampcourse-*", "*editable*ampcourse*", "ampcourse.egg-link", "ampcourse.pth"):
            yield from (str(path) for path in place.glob(pattern))


def _settings_folders() -> Iterator[str]:
    for prefix in {sys.prefix, sys.base_prefix}:
        yield from (f"{prefix}/etc/jupyter", f"{prefix}/share/nbgrader", f"{prefix}/etc/nbgrader")


def write_course(box: Box, folder: Path) -> Path:
    """Make `course/ampcourse` below a folder: the box's package, compiled, for inside nobody can write there."""
    package = folder / "course" / "ampcourse"
    _write(package, box.package)
    for name in box.package:
        if name.endswith(".py"):
            inside = f"{COURSE}/ampcourse/{name}"
            py_compile.compile(str(package / name), dfile=inside, quiet=2, invalidation_mode=_UNCHECKED)
    return package


def _course(box: Box, folder: Path) -> Iterator[Part]:
    package = write_course(box, folder)
    yield Part(BIND, COURSE, str(folder / "course"))
    if box.data:
        from ampcourse.data import data_root

        (package / "_bundled" / "data").mkdir(parents=True, exist_ok=True)
        yield Part(BIND, f"{COURSE}/ampcourse/_bundled/data", str(data_root()))


_UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH


def write_programs(folder: Path) -> Path:
    """Make `inside` below a folder: the launcher and the kernel, with what they import of ours."""
    here = Path(__file__).parent
    programs = folder / "inside"
    programs.mkdir()
    for path in [*sorted((here / "inside").glob("*.py")), here / "limits.py", here / "seccomp.py"]:
        shutil.copyfile(path, programs / path.name)
    return programs


def _gpu() -> Iterator[Part]:
    for pattern in _GPU:
        yield from (Part(DEVICE, str(node), str(node)) for node in sorted(Path("/").glob(pattern[1:])))
    yield from (Part(BIND, path, path) for path in _GPU_READ if Path(path).exists())


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / checked(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _readable(folder: Path) -> None:
    """For the sandbox's user too, whatever this process's umask; the folder itself may be closed to others."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def checked(name: str) -> str:
    """A relative path that stays below the folder it is put in.

    Raises:
        GradingError: if it does not.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise GradingError(f"The file name {name!r} leads out of the submission's folder.")
    return str(PurePosixPath(*parts))
