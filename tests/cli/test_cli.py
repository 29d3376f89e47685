"""The command line as people meet it: help, mistakes, completion, start-up."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import ampcourse
from ampcourse import terminal
from ampcourse.cli import main
from ampcourse.course import CourseError, UserError, load_course

COMMANDS = list(main.commands)
SLUGS = [lesson.slug for lesson in load_course().lessons]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def real(*arguments: str, **options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ampcourse.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `ampcourse progress` meet this."""

    def survey() -> None:
        raise error

    monkeypatch.setattr("ampcourse.learner.progress.survey", survey)


# --- help ---------------------------------------------------------------------------------------------


def test_the_promised_commands_are_there() -> None:
    assert {"doctor", "start", "check", "progress", "run", "release", "completion"} <= set(COMMANDS)
    assert set(COMMANDS) == set(main.list_commands(None)), "a command that stands in no section of the help"  # type: ignore[arg-type]
    assert call().output == call("--help").output
    for command in COMMANDS:
        assert f"\n  {command}" in call().output


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_examples_that_the_command_line_accepts(command: str) -> None:
    said = call(*command.split(), "--help")
    assert said.exit_code == 0
    examples = [line.strip() for line in said.output.partition("Examples:")[2].splitlines()]
    examples = [line for line in examples if line.startswith("ampcourse ")]
    assert len(examples) >= 2
    for line in examples:
        name, *arguments = shlex.split(line.partition("  ")[0].partition(">")[0])[1:]
        assert name == command or not command
        main.commands[name].make_context(name, arguments)  # raises a usage error where the example is wrong


def test_version_is_the_packages() -> None:
    assert call("--version").output == f"ampcourse {ampcourse.__version__}\n"


# --- mistakes -----------------------------------------------------------------------------------------

MISTYPED = {
    "progres": "did you mean 'progress'?",
    "strat": "did you mean 'start'?",
    "xyzzy": "choose from: doctor,",
    "run 01_fp16_rang": "did you mean '01_fp16_range'?",
    "run loss_scalin": "did you mean 'loss_scaling'?",
    "run 99": f"choose from: {', '.join(SLUGS)}",
    "release nonsense_at_all": f"choose from: {', '.join(SLUGS)}",
    "run --profil cpu": "'--profile'",
    "run --profile tpu": "'cpu', 'gpu'",
    "run --jobs 0": "--jobs",
    "run --jobs many": "--jobs",
    "run --seed -1": "--seed",
    "check": "NOTEBOOK",
    "check a.ipynb b.ipynb": "b.ipynb",
    "check a.ipynb --timeout 0": "--timeout",
    "check a.ipynb --timeout nan": "--timeout",
    "check a.ipynb --timeout inf": "--timeout",
    "check a.ipynb --timeout soon": "valid number of seconds",
    "check ''": "NOTEBOOK is empty",
    "start ''": "DIR is empty",
    "start ' '": "DIR is empty",
    "run --out=": "DIR is empty",
    "start ~no_such_user/x": "a user who is not known here",
    "run --out=~no_such_user/x": "a user who is not known here",
    "'two\nlines \x1b[31m'": "There is no command 'two lines \N{REPLACEMENT CHARACTER}[31m'",
    "completion tcsh": "'bash', 'zsh', 'fish'",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_line_gets_a_sentence_and_exit_code_2(line: str) -> None:
    said = call(*shlex.split(line))
    assert said.exit_code == 2
    assert said.stdout == ""
    sentence, see = said.stderr.splitlines()
    assert sentence.startswith("Error: ")
    assert MISTYPED[line] in sentence
    assert see.startswith("See 'ampcourse")


@pytest.mark.parametrize("wanted", ["01_fp16_range", "fp16_range", "01", "1"])
def test_a_lesson_may_be_named_by_slug_name_or_number(wanted: str) -> None:
    context = main.commands["run"].make_context("run", [wanted])
    assert context.params["lessons"] == ("01_fp16_range",)


def test_a_users_mistake_is_one_sentence_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, UserError("The\n  lamp is off: switch it on."))
    said = call("progress")
    assert (said.exit_code, said.stdout, said.stderr) == (1, "", "Error: The lamp is off: switch it on.\n")


def test_a_file_that_refuses_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, PermissionError(13, "Permission denied", "/secret"))
    said = call("progress")
    assert said.exit_code == 1
    assert said.stderr.count("\n") == 1
    assert "'/secret': Permission denied" in said.stderr


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ModuleNotFoundError("No module named 'nbclient'", name="nbclient"))
    said = call("progress")
    assert said.exit_code == 1
    assert "'nbclient' is missing" in said.stderr
    fail_with(monkeypatch, ModuleNotFoundError("No module named 'ampcourse.gone'", name="ampcourse.gone"))
    assert call("progress").exit_code == 70


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interruption_ends_with_130(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    fail_with(monkeypatch, error)
    said = call("progress")
    assert said.exit_code == 130
    assert "Interrupted." in said.stderr


def test_a_fault_of_ours_is_one_sentence_and_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, RuntimeError("first line\nsecond line"))
    said = call("progress")
    assert said.exit_code == 70
    assert said.stderr.count("\n") == 1
    assert "Traceback" not in said.output
    log = Path(said.stderr.split("'")[-2])
    assert log.parent == Path(os.environ["AMPCOURSE_HOME"])
    assert "RuntimeError: first line\nsecond line" in log.read_text()
    assert "fail_with" not in said.stderr


def test_a_fault_of_ours_is_kept_elsewhere_when_the_folder_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AMPCOURSE_HOME", str(tmp_path / "file" / "below"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    fail_with(monkeypatch, RuntimeError("x"))
    said = call("progress")
    assert said.exit_code == 70
    assert Path(said.stderr.split("'")[-2]).parent == tmp_path


def test_the_exit_code_of_a_command_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    class Report:
        exit_code = 1

    def run_course(lessons: object, **options: object) -> type[Report]:
        seen.update(options, lessons=lessons)
        return Report

    monkeypatch.setattr("ampcourse.reproduce.run.run_course", run_course)
    monkeypatch.setattr("ampcourse.reproduce.report.print_table", lambda report: None)
    assert call("run", "2", "--jobs", "2", "--out", "o", "--fresh", "--seed", "7").exit_code == 1
    expected = {"lessons": ["02_loss_scaling"], "profile": "cpu", "jobs": 2, "out": Path("o"), "fresh": True, "seed": 7}
    assert seen == expected
    assert call("run").exit_code == 1
    assert seen["lessons"] is None


def help_into(stdout: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ampcourse.cli", "--help"]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60)


def test_a_reader_that_goes_away_is_nothing_to_talk_about() -> None:
    read, write = os.pipe()
    os.close(read)
    done = help_into(write)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_under_our_output_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = help_into(full)
    assert done.returncode == 1
    assert done.stderr == "Error: No space left on device; free some space and try again.\n"


@pytest.mark.parametrize(("line", "code"), [("--help", 0), ("progress", 0), ("progres", 2), ("check nowhere.ipynb", 1)])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_code_and_bring_no_traceback(line: str, code: int, closed: str) -> None:
    shell = f"{shlex.quote(sys.executable)} -m ampcourse.cli {line} {closed}"
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ") if code and closed == ">&-" else not done.stderr


def test_a_current_folder_that_was_deleted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = call("start")
    assert said.exit_code == 1
    assert said.stderr == "Error: The folder that you are in was deleted: change to another one.\n"


def test_a_home_of_nobody_gets_no_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMPCOURSE_HOME", "~no_such_user/x")
    fail_with(monkeypatch, RuntimeError("x"))
    assert call("progress").exit_code == 70
    assert list(tmp_path.iterdir()) == []


def test_a_tilde_that_no_shell_replaced_means_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("ampcourse.reproduce.run.run_course", lambda lessons, out, **_: seen.append(out) or {}["end"])
    call("run", "--out=~/results")
    assert seen == [tmp_path / "results"]


def test_real_mistakes_show_no_traceback() -> None:
    for arguments, code in ((["check", "/nowhere/x.ipynb"], 1), (["stat"], 2), (["start", "/dev/null"], 1)):
        done = real(*arguments)
        assert done.returncode == code
        assert done.stdout == ""
        assert done.stderr.startswith("Error: ")
        assert "Traceback" not in done.stderr


# --- tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_a_narrow_terminal_cuts_no_word_off(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ampcourse.terminal.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal.table(("exercise", "outcome", ""), [("start_here.fraction_changed", "not_attempted", "")])
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert sorted("".join(lines).replace("\u2500", "").replace(" ", "")) == sorted(
        "exerciseoutcomestart_here.fraction_changednot_attempted"
    )


# --- completion ---------------------------------------------------------------------------------------


def candidates(shell: str, line: str) -> list[str]:
    words = line.split()
    incomplete = "" if line.endswith(" ") else words[-1]
    index = str(len(words) - bool(incomplete))
    asked = {"_AMPCOURSE_COMPLETE": f"{shell}_complete", "COMP_WORDS": line}
    asked["COMP_CWORD"] = incomplete if shell == "fish" else index
    done = real(env={**os.environ, **asked})
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    if shell == "zsh":
        return lines[1::3]
    return [line.replace("\t", ",").split(",")[1] for line in lines]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_told_the_candidates(shell: str) -> None:
    assert candidates(shell, "ampcourse pro") == ["progress"]
    assert candidates(shell, "ampcourse run ") == SLUGS
    assert candidates(shell, "ampcourse release 01") == ["01_fp16_range"]


def test_a_course_that_cannot_be_read_does_not_disturb_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_course() -> None:
        raise CourseError("broken")

    monkeypatch.setattr("ampcourse.course.load_course", load_course)
    environment = {"_AMPCOURSE_COMPLETE": "bash_complete", "COMP_WORDS": "ampcourse run 0", "COMP_CWORD": "2"}
    said = CliRunner().invoke(main, [], env=environment, prog_name="ampcourse")
    assert (said.stdout.strip(), said.stderr) == ("", "")


def test_lessons_already_named_are_not_offered_again_and_options_are() -> None:
    assert candidates("bash", f"ampcourse run {SLUGS[0]} ") == SLUGS[1:]
    assert "--profile" in candidates("bash", "ampcourse run --p")
    assert candidates("bash", "ampcourse run --profile ") == ["cpu", "gpu"]
    assert candidates("bash", "ampcourse completion ") == ["bash", "zsh", "fish"]


def test_the_script_works_in_a_real_bash(tmp_path: Path) -> None:
    script = tmp_path / "complete.sh"
    script.write_text(call("completion", "bash").output)
    program = tmp_path / "ampcourse"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ampcourse.cli "$@"\n')
    program.chmod(0o755)
    ask = f"""
    source {shlex.quote(str(script))}
    complete -p ampcourse | grep -q _ampcourse_completion || exit 1
    COMP_WORDS=(ampcourse run 0); COMP_CWORD=2
    _ampcourse_completion ampcourse 0 run
    echo "${{COMPREPLY[@]}}"
    """
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [slug for slug in SLUGS if slug.startswith("0")]


def test_the_shell_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert call("completion").output == call("completion", "fish").output
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert call("completion").exit_code == 2
    monkeypatch.delenv("SHELL")
    assert call("completion").exit_code == 2


# --- start-up -----------------------------------------------------------------------------------------

HEAVY = {
    "tensorflow",
    "keras",
    "tf_keras",
    "numpy",
    "matplotlib",
    "papermill",
    "nbgrader",
    "nbformat",
    "rich",
    "IPython",
}
STARTS = {"import ampcourse": 0.3, "import ampcourse.cli as c; c.main(['--help'], standalone_mode=False)": 0.5}


@pytest.mark.parametrize("code", STARTS)
def test_starting_up_imports_nothing_heavy(code: str) -> None:
    code += "\nimport sys; print('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.rpartition("LOADED ")[2].split())
    assert "ampcourse" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize("code", STARTS)
def test_starting_up_is_quick(code: str) -> None:
    """With room for a busy machine: the best of five, Python's own start included, may take four times the promise."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=60)
        times.append(time.perf_counter() - begin)
    assert min(times) < 4 * STARTS[code]
