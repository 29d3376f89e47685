"""What is shown of the machine, wherever Python and the course lie on it; the filter and the limits as data."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pytest
from sandbox_talk import PATIENCE

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import SandboxStarter, command, counting, folders, limits, seccomp, users, view
from ampcourse.grading.sandbox.channels import Channels
from ampcourse.grading.sandbox.view import BIND, LINK, make_view
from ampcourse.grading.settings import Settings

BOX = Box("01_some", {"__init__.py": b"", "a/b.py": b"x = 1\n"})
SITE = Path(pytest.__file__).parents[1]
CLONE = Path(__file__).resolve().parents[3]


def _targets(parts: tuple[view.Part, ...], kind: str) -> dict[str, str]:
    return {part.target: part.source for part in parts if part.kind == kind}


def test_nothing_of_the_clone_is_bound_but_its_environment(tmp_path: Path) -> None:
    parts = make_view(BOX, Settings(), tmp_path).parts
    for part in parts:
        inside = view.within(part.source, str(CLONE)) and not view.within(part.source, sys.prefix)
        assert part.kind != BIND or not inside, part
    hidden = [source for source in _targets(parts, BIND).values() if source.startswith(str(tmp_path / "nothing"))]
    assert all(not any(Path(source).iterdir()) for source in hidden)


def test_the_trees_are_read_by_anybody(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        make_view(BOX, Settings(), tmp_path)
    finally:
        os.umask(before)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path
    assert (tmp_path / "course/ampcourse/a/b.py").read_bytes() == b"x = 1\n"
    assert list((tmp_path / "course/ampcourse/a/__pycache__").glob("b.*.pyc"))


@pytest.mark.parametrize("wide", ["/", "/home", "home", "/tmp"])
def test_python_in_too_wide_a_folder_is_refused(wide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path) if wide == "home" else wide)
    with pytest.raises(GradingError, match="holds much besides"):
        make_view(BOX, Settings(), tmp_path / "view")


def test_links_on_the_way_to_python_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "versions" / "3.11.7"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "python3").touch()
    (tmp_path / "versions" / "3.11").symlink_to("3.11.7")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(tmp_path / "versions" / "3.11" / "bin" / "python3")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "versions" / "3.11"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "env" / "bin" / "python"))
    monkeypatch.setattr(sys, "_base_executable", str(real / "bin" / "python3"), raising=False)
    (tmp_path / "view").mkdir()
    parts = make_view(BOX, Settings(), tmp_path / "view").parts
    assert _targets(parts, BIND)[str(real)] == str(real)
    assert _targets(parts, BIND)[str(tmp_path / "env")] == str(tmp_path / "env")
    shown = {**_targets(parts, BIND), **_targets(parts, LINK)}
    assert str(tmp_path / "versions" / "3.11") in shown


def test_an_exchange_and_settings_inside_the_trees_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = tmp_path / "env"
    for name in ("etc/jupyter", "share/nbgrader/exchange", "lib/python3.11/site-packages/ampcourse"):
        (prefix / name).mkdir(parents=True)
    packages = prefix / "lib/python3.11/site-packages"
    (packages / "__editable___ampcourse_finder.py").write_text("MAPPING = {'ampcourse': '/secret'}")
    (packages / "_editable_impl_ampcourse.pth").write_text("/secret")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(view.site, "getsitepackages", lambda: [str(packages)])
    (tmp_path / "view").mkdir()
    bound = _targets(make_view(BOX, Settings(), tmp_path / "view").parts, BIND)
    for path in (prefix / "etc/jupyter", prefix / "share/nbgrader", *packages.iterdir()):
        assert bound[str(path)].startswith(str(tmp_path / "view")), path


def test_a_graphics_processor_is_let_in_by_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    monkeypatch.setattr(view, "_GPU", (f"{tmp_path}/nvidia*",))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with_one = make_view(BOX, Settings(gpu=True), tmp_path / "a")
    without = make_view(BOX, Settings(), tmp_path / "b")
    assert str(device) in _targets(with_one.parts, view.DEVICE)
    assert not _targets(without.parts, view.DEVICE)
    assert without.environment["CUDA_VISIBLE_DEVICES"] == "-1" and "CUDA_VISIBLE_DEVICES" not in with_one.environment


def test_the_command_line_for_root_and_for_others(tmp_path: Path) -> None:
    shown = make_view(BOX, Settings(), tmp_path)
    program = command.Bubblewrap("/usr/bin/bwrap", "0.8.0", frozenset({"--size", "--clearenv", "--disable-userns"}))
    root, _ = command.arguments(program, shown, 5, root=True, command=["x"])
    other, words = command.arguments(program, shown, 5, root=False, seccomp=7, command=["x"])
    assert words == ["x"]
    assert "--unshare-user" not in root and root[root.index("--cap-drop") + 1] == "ALL"
    assert "--disable-userns" in other and other[other.index("--seccomp") + 1] == "7" and "--cap-add" not in other
    for always in (
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--die-with-parent",
        "--new-session",
    ):
        assert always in root and always in other
    old, _ = command.arguments(command.Bubblewrap("", "", frozenset()), shown, 5, root=False, command=["x"])
    assert not {"--size", "--clearenv", "--disable-userns"} & set(old)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("column", [0, 1])
def test_the_filter_is_a_program_that_the_kernel_can_check(column: int, gpu: bool) -> None:
    program = seccomp.filter_program(column, gpu=gpu)
    assert len(program) % 8 == 0 and len(program) // 8 < 4096
    lines = [program[at : at + 8] for at in range(0, len(program), 8)]
    for number, line in enumerate(lines):
        code, if_true, if_false = int.from_bytes(line[:2], sys.byteorder), line[2], line[3]
        if code & 7 == 5:  # a jump, which only goes forward, and never past the end
            assert number + 1 + max(if_true, if_false) < len(lines)
    assert int.from_bytes(lines[-1][4:], sys.byteorder) == seccomp.ALLOW
    tables = (*seccomp.NOT_PERMITTED.values(), *seccomp.NOT_THERE.values())
    numbers = [entry[column] for entry in tables if entry[column] is not None]
    assert len(set(numbers)) == len(numbers)


def test_an_unknown_machine_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "riscv64")
    assert seccomp.filter_program() == b"" and not seccomp.install()


def test_limits_never_rise() -> None:
    code = (
        "import resource, sys\n"
        "from ampcourse.grading.sandbox import limits\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "limits.apply_limits([(resource.RLIMIT_NOFILE, 512, 1024)])\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "(64, 64)"
    assert len({kind for kind, *_ in limits.rlimits(Settings())}) == len(limits.rlimits(Settings()))


def test_a_process_cannot_make_up_lines_by_its_name() -> None:
    status = "Name:\ta\x0bRssAnon:\t-9 kB\x85Threads:\tx\nRssAnon:\t5 kB\nVmPTE:\t2 kB\nThreads:\t3\n"
    assert counting._sum(iter([status])) == counting.Used(5 * 1024, 2 * 1024, 3, 1)


def test_two_sandboxes_never_share_a_user() -> None:
    one, two = users.OwnUser(), users.OwnUser()
    assert one.uid != two.uid and min(one.uid, two.uid) > 60_000
    one.close()
    two.close()


def test_long_names_of_temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("n" * 90)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    mine = folders.OwnFolder()
    Channels(mine.path).close()
    mine.close()
    with pytest.raises(GradingError, match="too long a name"):
        Channels(deep / "x")


PROBE = """
import sys
sys.path[:0] = sys.argv[1:]
from ampcourse.grading.sandbox import probe
print(sys.prefix, probe().complete)
print(probe().table())
"""


@pytest.mark.sandbox
@pytest.mark.parametrize("place", ["tmp", "home"])
def test_an_environment_in_odd_places(place: str, tmp_path: Path) -> None:
    """Below /tmp, below the grader's home, with a space and an accent: shown, and nothing beside it."""
    root = tmp_path / "für alle" / "my course"
    root.mkdir(parents=True)
    for folder in (root, *root.parents):
        if folder.is_relative_to(tmp_path):
            folder.chmod(0o755)
    venv.create(root / ".venv", symlinks=True, with_pip=False)
    surroundings = {**os.environ, "HOME": str(root if place == "home" else tmp_path), "PYTHONPATH": ""}
    words = [str(root / ".venv/bin/python"), "-c", PROBE, str(CLONE), str(SITE)]
    home = subprocess.run(words, capture_output=True, text=True, env=surroundings, timeout=60 * PATIENCE, cwd=root)
    assert home.stdout.splitlines()[:1] == [f"{root / '.venv'} True"], home.stdout + home.stderr


@pytest.mark.sandbox
def test_the_box_needs_a_sandbox_of_its_own() -> None:
    other = Box("02_other", {"__init__.py": b"", "only.py": b"HERE = 2\n"})
    for box, gives in ((BOX, "True False"), (other, "False True")):
        starter = SandboxStarter(box, Settings())
        code = (
            "import os; print(os.path.exists('/course/ampcourse/a/b.py'), os.path.exists('/course/ampcourse/only.py'))"
        )
        kernel = starter.launch({}, instead=[sys.executable, "-c", code])
        kernel.process.wait(30 * PATIENCE)
        assert kernel.errors().strip() == gives
        starter.close()
