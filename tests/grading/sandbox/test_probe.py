"""The probe says what holds, and for each machine that does not isolate, why and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ampcourse.grading.model import Box, GradingError
from ampcourse.grading.sandbox import SandboxStarter, UnsafeStarter, choose_starter, choosing, command, probe, reasons
from ampcourse.grading.sandbox import starters as starting
from ampcourse.grading.settings import Settings

pytestmark = pytest.mark.sandbox

BOX = Box("01_some", {"__init__.py": b""})


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    probe.cache_clear()
    yield
    probe.cache_clear()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc whose settings a test can write."""
    monkeypatch.setattr(reasons, "_PROC", tmp_path)
    monkeypatch.setattr(reasons, "_MARKS", (tmp_path / "dockerenv",))
    return tmp_path


@pytest.fixture
def bwrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program of this name on PATH, and nothing else."""

    def put(text: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "bwrap").write_text(text)
        (folder / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return put


FAILS = (
    "#!/bin/sh\ncase $1 in --help) echo '    --size BYTES   x';; --version) echo 'bubblewrap 0.8.0';; *) {0};; esac\n"
)
DENIED = "echo 'bwrap: No permissions to create new namespace' >&2; exit 1"


def test_all_layers_hold_on_this_machine() -> None:
    layers = probe()
    assert layers.complete, layers.table()
    assert layers.reasons == ()
    assert len(layers.layers) > 15 and layers.table().count("\n") == len(layers.layers) - 1
    assert probe() is layers


def test_bubblewrap_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not probe().complete
    assert "apt-get install bubblewrap" in probe().reasons[0]


def test_bubblewrap_does_not_run(bwrap: Callable[[str], None]) -> None:
    bwrap("#!/bin/sh\nexit 3\n")
    assert "does not run" in probe().reasons[0]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "bwrap-userns-restrict"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ],
)
def test_user_namespaces_are_closed(
    name: str, value: str, says: str, machine: Path, bwrap: Callable[[str], None]
) -> None:
    (machine / "sys" / name).parent.mkdir(parents=True)
    (machine / "sys" / name).write_text(value + "\n")
    bwrap(FAILS.format(DENIED))
    assert not probe().complete
    assert says in probe().reasons[0] and "No permissions to create new namespace" in probe().reasons[0]


def test_a_container_is_recognised(machine: Path, bwrap: Callable[[str], None]) -> None:
    (machine / "self").mkdir()
    (machine / "self/mounts").write_text("overlay / overlay rw 0 0\ntmpfs /proc/acpi tmpfs ro 0 0\n")
    bwrap(FAILS.format('echo "bwrap: Can\'t mount proc on /newroot/proc: Operation not permitted" >&2; exit 1'))
    assert "This is a container" in probe().reasons[0] and "systempaths=unconfined" in probe().reasons[0]


def test_another_trouble_is_told_as_it_is(machine: Path, bwrap: Callable[[str], None]) -> None:
    bwrap(FAILS.format("echo 'bwrap: the moon is full' >&2; exit 1"))
    assert "the moon is full" in probe().reasons[0]


def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert probe().reasons == ("Grading needs Linux, whose namespaces isolate what students hand in.",)


def _without(layer: str) -> None:
    missing = {one.name for one in probe().layers if not one.holds}
    assert layer in missing, probe().table()
    assert not probe().complete


def _changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[str]], list[str]]) -> None:
    real = command.arguments

    def arguments(*positional: Any, **named: Any) -> tuple[list[str], list[str]]:
        words, program = real(*positional, **named)
        return change(words), program

    monkeypatch.setattr(command, "arguments", arguments)


def test_a_network_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    _changed(monkeypatch, lambda words: [word for word in words if word != "--unshare-net"])
    _without("no network")


def test_the_machines_processes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def bound(words: list[str]) -> list[str]:
        at = words.index("--proc")
        return [*words[:at], "--ro-bind", "/proc", *words[at + 1 :]]

    _changed(monkeypatch, bound)
    assert not probe().complete


def test_a_writable_system_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    _changed(monkeypatch, lambda words: [*words, "--bind", str(tmp_path), "/etc"])
    _without("system read-only")


def test_the_graders_folders_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/teacher")

    def shown(words: list[str]) -> list[str]:
        at = words.index("--remount-ro")
        return [*words[:at], "--dir", "/srv", "--ro-bind", str(tmp_path), "/srv/teacher", *words[at:]]

    _changed(monkeypatch, shown)
    _without("grader hidden")


@pytest.mark.parametrize("layer", ["limit on memory", "limit on files", "limit on processes"])
def test_limits_that_do_not_hold_are_noticed(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "rlimits", lambda _settings: [])
    _without(layer)


def test_a_missing_filter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting.seccomp, "filter_program", lambda **_: b"")
    _without("system calls filtered")


@pytest.mark.parametrize(
    "missing", [{"--size"}, {"--clearenv"}, {"--disable-userns"}, {"--size", "--clearenv", "--perms"}]
)
def test_an_older_bubblewrap_will_do(missing: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = command.find()
    older = command.Bubblewrap(found.path, "bubblewrap 0.4.0", found.options - missing)
    monkeypatch.setattr(command, "find", lambda: older)
    assert probe().complete, probe().table()


def test_choosing_refuses_or_obeys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GradingError, match=r"apt-get install bubblewrap.*--unsafe-no-sandbox"):
        choose_starter(BOX, Settings())
    starter = choose_starter(BOX, Settings(), unsafe=True)
    assert isinstance(starter, UnsafeStarter)
    starter.close()


def test_choosing_takes_a_sandbox_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampcourse.grading.template.TemplateStarter", _never)
    for starter in (choose_starter(BOX, Settings(), fast=False, unsafe=True), choose_starter(BOX, Settings())):
        assert isinstance(starter, SandboxStarter)
        starter.close()
    assert choosing.probe().complete


def _never(*_arguments: Any) -> None:
    raise GradingError("no template here")
