"""Every command of the README is run: the quick ones in a copy of this clone, all of them by `make test-full` in a real
clone with a set-up of its own. A command that is not listed here fails the tests.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from clone import ROOT, copy_of_the_clone

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = [block.splitlines() for block in re.findall(r"^```bash\n(.*?)^```", README, re.MULTILINE | re.DOTALL)]
# Command: (every day or only in the full test, the exit status that it must have)
COMMANDS = {
    "make run": ("full", 0),
    "make test": ("full", 0),
    "make lab": ("server", 0),
    ".venv/bin/ampcourse doctor": ("daily", 0),
    ".venv/bin/ampcourse progress": ("daily", 0),
    ".venv/bin/ampcourse check learner/00_start_here.ipynb": ("daily", 1),  # nothing is answered in it yet
    "source .venv/bin/activate": ("daily", 0),
    "cd notebooks": ("daily", 0),
    "ampcourse verify 01_fp16_range": ("daily", 0),
    "ampcourse grade 01_fp16_range": ("daily", 0),
    "ampcourse status 01_fp16_range": ("daily", 0),
    "ampcourse feedback 01_fp16_range": ("daily", 0),
    "ampcourse export grades.csv": ("daily", 0),
    "nbgrader autograde 01_fp16_range": ("daily", 0),
    '.venv/bin/python -c "from ampcourse.amp import hardware; print(hardware())"': ("daily", 0),
    ".venv/bin/ampcourse train resnet8 --policy mixed_bfloat16 --limit 1000 --epochs 1 --out runs/first": ("full", 0),
    ".venv/bin/ampcourse bench --models resnet8 --xla off --turns 3 --out results-bench": ("full", 0),
    ".venv/bin/ampcourse run 01_fp16_range --out results-of-01": ("daily", 0),
    ".venv/bin/ampcourse run --fresh": ("full", 0),
    ".venv/bin/papermill notebooks/source/01_fp16_range/01_fp16_range.ipynb executed.ipynb -p profile cpu -p seed 0": (
        "daily",
        0,
    ),
}


def test_every_command_of_the_readme_is_listed_here_and_the_other_way_round() -> None:
    assert {command for block in BLOCKS for command in block} == set(COMMANDS)
    assert not re.findall(r"^```(?!bash$|$)", README, re.MULTILINE), "commands in blocks of another kind are not run"


def environment(clone: Path) -> dict[str, str]:
    """What a stranger's shell has, and no more of this test run than it must: the copy's own package comes first."""
    dropped = ("MAKE", "PYTEST_", "AMPCOURSE_VENV", "VIRTUAL_ENV", "PYTHONPATH", "TF_CPP")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return kept | {"AMPCOURSE_HOME": str(clone.parent / "home")}


def run_block(clone: Path, block: list[str], kinds: tuple[str, ...], settings: dict[str, str], seconds: int) -> None:
    """Run a block's commands of these kinds in one shell, as typed one after the other, and compare exit statuses."""
    commands = [command for command in block if COMMANDS[command][0] in kinds]
    script = "\n".join(line for command in commands for line in (command, 'echo "@@ $?"'))
    command = ["bash", "-c", script]
    done = subprocess.run(
        command, cwd=clone, env=settings, capture_output=True, text=True, timeout=seconds, check=False, errors="replace"
    )
    statuses = [int(status) for status in re.findall(r"^@@ (\d+)$", done.stdout, re.MULTILINE)]
    said = f"\n{done.stdout}\n{done.stderr}"
    assert dict(zip(commands, statuses, strict=True)) == {command: COMMANDS[command][1] for command in commands}, said
    assert "Traceback" not in done.stdout + done.stderr, said


def serve(clone: Path, settings: dict[str, str], seconds: int) -> None:
    """Run `make lab` until JupyterLab answers with its page, then stop it."""
    settings = settings | {"ARGS": "--no-browser --allow-root --ServerApp.port=0 --ServerApp.password=''"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True}
    with subprocess.Popen(["make", "lab"], cwd=clone, env=settings, **pipes) as server:
        said, end = b"", time.monotonic() + seconds
        try:
            while not (address := re.search(rb"http://(?:localhost|127\.0\.0\.1):\d+/lab\?token=\w+", said)):
                ready, _, _ = select.select([server.stdout], [], [], max(0, end - time.monotonic()))
                part = os.read(server.stdout.fileno(), 65536) if ready else b""
                assert part, f"JupyterLab did not start: {said.decode()}"
                said += part
            assert b"jupyter-config-data" in fetched(address[0].decode(), end)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
    assert (clone / "learner" / "00_start_here.ipynb").is_file()


def fetched(address: str, end: float) -> bytes:
    """A page, once its server answers; on a busy machine that is some time after it has said where it listens."""
    while True:
        try:
            with urllib.request.urlopen(address, timeout=30) as page:
                return page.read()
        except urllib.error.URLError:
            assert time.monotonic() < end, f"{address} does not answer"
            time.sleep(0.5)


def hand_in(clone: Path) -> None:
    """A student's work, where the README says that it must lie."""
    folder = clone / "notebooks" / "submitted" / "ada" / "01_fp16_range"
    folder.mkdir(parents=True)
    shutil.copy(clone / "notebooks" / "release" / "01_fp16_range" / "01_fp16_range.ipynb", folder)


def grades_are_there(clone: Path) -> None:
    lines = (clone / "notebooks" / "grades.csv").read_text("utf-8").splitlines()
    assert sum("01_fp16_range" in line for line in lines) == 1
    assert (clone / "notebooks" / "feedback" / "ada" / "01_fp16_range" / "01_fp16_range.html").is_file()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this clone that borrows this environment instead of setting up its own."""
    clone = copy_of_the_clone(tmp_path_factory.mktemp("readme") / "a clone é")
    (clone / ".venv").symlink_to(sys.prefix)
    return clone


@pytest.fixture(scope="module")
def borrowed(copy: Path) -> dict[str, str]:
    return environment(copy) | {"AMPCOURSE_VENV": sys.prefix, "PYTHONPATH": str(copy)}


def block_with(command: str) -> list[str]:
    (block,) = [block for block in BLOCKS if command in block]
    return block


def test_learner(copy: Path, borrowed: dict[str, str]) -> None:
    serve(copy, borrowed, 120)
    run_block(copy, block_with(".venv/bin/ampcourse doctor"), ("daily",), borrowed, 300)


@pytest.mark.sandbox
def test_instructor(copy: Path, borrowed: dict[str, str]) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if not (Path(sys.prefix) / "bin" / "activate").exists():
        pytest.skip("this environment cannot be activated as the README does it: it was not made by venv")
    hand_in(copy)
    run_block(copy, block_with("cd notebooks"), ("daily",), borrowed, 600)
    grades_are_there(copy)


def test_reproducer(copy: Path, borrowed: dict[str, str]) -> None:
    run_block(copy, block_with(".venv/bin/ampcourse run --fresh"), ("daily",), borrowed, 300)
    assert (copy / "results-of-01" / "results.json").is_file()
    assert (copy / "results-of-01" / "index.html").is_file()
    (papermill,) = [block for block in BLOCKS if "papermill" in block[0]]
    run_block(copy, papermill, ("daily",), borrowed, 300)


def test_somebody_with_a_model_of_their_own(copy: Path, borrowed: dict[str, str]) -> None:
    (block,) = [block for block in BLOCKS if "hardware()" in block[0]]
    run_block(copy, block, ("daily",), borrowed, 300)


@pytest.mark.full
def test_a_stranger_follows_the_readme_from_a_fresh_clone(tmp_path: Path) -> None:
    """What is committed, with a set-up from the package index, in the order of the README."""
    clone = tmp_path / "a clone é"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    settings = environment(clone)
    for block in BLOCKS:
        if block == ["make lab"]:
            serve(clone, settings, 300)
            continue
        if "cd notebooks" in block:
            hand_in(clone)
        run_block(clone, block, ("daily", "full"), settings, 3 * 3600)
    grades_are_there(clone)
    status = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert status.stdout == "", "following the README must leave nothing that git would offer to commit"


def test_the_table_of_lessons_is_that_of_the_course() -> None:
    lessons = tomllib.loads((ROOT / "notebooks" / "course.toml").read_text("utf-8"))["lesson"]
    rows = [f"| {entry['slug'][:2]} {entry['title']} | {entry['minutes']} | {entry['summary']} |" for entry in lessons]
    assert re.findall(r"^\| \d\d .*", README, re.MULTILINE) == rows, "run make format"


def test_a_changed_lesson_reaches_the_table(tmp_path: Path) -> None:
    for name in ("README.md", "notebooks/course.toml", "tools/readme.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    course = tmp_path / "notebooks" / "course.toml"
    course.write_text(course.read_text("utf-8").replace("minutes = ", "minutes = 9", 1), "utf-8")
    before = (tmp_path / "README.md").read_text("utf-8")

    def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, tmp_path / "tools" / "readme.py", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    checked = tool("--check")
    assert (checked.returncode, checked.stderr.count("\n")) == (1, 1)
    assert (tmp_path / "README.md").read_text("utf-8") == before
    assert tool().returncode == 0
    assert tool("--check").returncode == 0
    after = (tmp_path / "README.md").read_text("utf-8")
    changed = [(old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert [new.split("|")[2].strip()[0] for _, new in changed] == ["9"]


def test_the_words_of_the_picture_are_those_that_were_drawn_with_it() -> None:
    ((words, path),) = re.findall(r"!\[(.*?)\]\((.*?)\)", README)
    assert words == (ROOT / path).with_suffix(".txt").read_text("utf-8").strip()
    assert (ROOT / path).read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_the_picture_can_be_drawn_again(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "tools" / "make_images.py", "--folder", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    words, committed = (
        re.sub(r"[\d.,e-]+", "#", path.read_text("utf-8"))
        for path in (tmp_path / "gradients.txt", ROOT / "docs" / "images" / "gradients.txt")
    )
    assert words == committed, "other numbers are another processor's; other words are another picture"
