"""The command line. It imports what a command needs only when that command runs, so that help comes at once."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import click

import ampcourse
from ampcourse import faults
from ampcourse.commands.bench import bench
from ampcourse.commands.desk import course, explain, export, full_points, status, verify
from ampcourse.commands.feedback import feedback
from ampcourse.commands.grade import grade
from ampcourse.commands.options import LessonName, Place, Seconds, Whole, nearest
from ampcourse.commands.similar import similar
from ampcourse.commands.train import train
from ampcourse.commands.vary import vary

SHELLS = ("bash", "zsh", "fish")
SECTIONS = {
    "Learn": ("doctor", "start", "check", "progress"),
    "Teach": ("course", "vary", "verify", "grade", "status", "explain", "full-points", "similar", "feedback", "export"),
    "Reproduce and measure": ("run", "train", "bench"),
    "Maintain": ("release", "completion"),
}
"""The commands as the help lists them, in the order in which they are needed."""


class Commands(click.Group):
    """A group that ends every mistake with one sentence and the exit codes of `faults`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they are needed, not by alphabet."""
        return [name for names in SECTIONS.values() for name in names if name in self.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands for each kind of reader apart."""
        for title, names in SECTIONS.items():
            rows = [(name, self.commands[name].get_short_help_str(90)) for name in names if name in self.commands]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Find the command, or suggest the one that was meant."""
        word = args[0]
        if not ctx.resilient_parsing and not word.startswith("-") and self.get_command(ctx, word) is None:
            end = nearest(word, self.list_commands(ctx)) or f"; choose from: {', '.join(self.commands)}."
            raise click.UsageError(f"There is no command '{word}'{end}", ctx)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run, and leave with an exit code; with `standalone_mode=False`, return or raise instead, as click does."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        sys.exit(self._run(*args, **extra))

    def _run(self, *args: Any, **extra: Any) -> int:
        faults.stand_in_for_closed_streams()
        if isinstance(sys.stdout, io.TextIOWrapper):  # a file name that the terminal cannot show must not stop us
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(*args, standalone_mode=False, **extra)
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except click.Abort:
            return faults.explain(KeyboardInterrupt())
        except click.UsageError as error:
            faults.tell(f"Error: {error.format_message()}")
            faults.tell(f"See '{error.ctx.command_path if error.ctx else 'ampcourse'} --help'.")
            return faults.USAGE
        except click.ClickException as error:
            faults.tell(f"Error: {error.format_message()}")
            return error.exit_code
        except (Exception, KeyboardInterrupt) as error:
            return faults.explain(error)


lessons_argument = click.argument("lessons", metavar="[LESSON ...]", nargs=-1, type=LessonName())


@click.group(
    name="ampcourse",
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(ampcourse.__version__, "--version", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Learn mixed precision in TensorFlow: notebooks, checks and measurements.

    \b
    Examples:
      ampcourse doctor                     can I work here, and what does my hardware gain?
      ampcourse start                      put the lessons into ./ampcourse-lessons
      ampcourse check 01_fp16_range.ipynb  is everything in this notebook right?
      ampcourse progress                   how far am I?
      ampcourse run                        run every lesson and compare its results

    Exit codes: 0 all is well; 1 something is not right, and the last lines say what; 2 the command was mistyped;
    130 interrupted; 70 a fault of ampcourse itself.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@main.command(short_help="Say whether you can work here, and what AMP gains.")
@click.option("--no-measure", is_flag=True, help="Skip the matrix products that are timed for about 5 seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(no_measure: bool, as_json: bool) -> int:
    """Say whether you can work here, and what mixed precision gains on this machine.

    Looks at Python, the packages, the notebook kernel, the GPU with its driver and compute capability, and the CPU;
    then times float32, bfloat16 and float16 matrix products side by side on the CPU. Exit code 0 if a learner can
    work here, 1 if not: what to do then stands in the last column.

    \b
    Examples:
      ampcourse doctor
      ampcourse doctor --no-measure
      ampcourse doctor --json
    """
    from ampcourse.doctor import diagnose, show

    diagnosis = diagnose(measure=not no_measure)
    show(diagnosis, as_json=as_json)
    return 0 if diagnosis.ok else 1


@main.command(short_help="Put the lessons into a folder, or update them there.")
@click.argument("folder", metavar="[DIR]", type=Place(), default=Path("ampcourse-lessons"))
def start(folder: Path) -> int:
    """Put the lessons' notebooks into DIR (default: ./ampcourse-lessons), or bring them up to date.

    Your work is never overwritten. A notebook that you changed stays as it is; if the course has a newer version,
    that is laid beside it as NAME.new.ipynb. Untouched notebooks are updated and missing ones put back. Other files
    in DIR are left alone.

    \b
    Examples:
      ampcourse start
      ampcourse start ~/courses/amp
      ampcourse start .
    """
    from ampcourse.learner.start import report, start

    report(start(folder))
    return 0


@main.command(short_help="Run a whole notebook and say what is right.")
@click.argument("notebook", metavar="NOTEBOOK", type=Place())
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(),
    help="Stop a cell after this time (default: 60, or what the lesson needs); the whole notebook after five times it.",
)
def check(notebook: Path, timeout: float | None) -> int:
    """Run a whole notebook in a fresh kernel and say which exercises are right.

    NOTEBOOK is your copy of a lesson, under any file name. It is not changed, and your stored progress neither. The
    checks are the course's own: a check cell that was edited, deleted or never run counts all the same. Exit code 0
    only if every exercise of the lesson has full points and no cell raised an error; written questions are listed,
    but a person marks them, so they do not change the exit code.

    This tells you what the grader will see; it is no proof for anybody else.

    \b
    Examples:
      ampcourse check ampcourse-lessons/01_fp16_range.ipynb
      ampcourse check 02_loss_scaling.ipynb --timeout 120
    """
    from ampcourse.learner.selfcheck import check_notebook, report

    result = check_notebook(notebook, timeout=timeout)
    report(result)
    return 0 if result.passed else 1


@main.command(short_help="Show what is done and what comes next.")
@click.option("--json", "as_json", is_flag=True, help="Print the progress as JSON.")
def progress(as_json: bool) -> int:
    """Show which exercises are done, the points, and what comes next.

    Progress is what the check cells of your notebooks stored on this machine.

    \b
    Examples:
      ampcourse progress
      ampcourse progress --json
    """
    from ampcourse.learner.progress import report, survey

    report(survey(), as_json=as_json)
    return 0


@main.command(short_help="Run lessons and compare their results.")
@lessons_argument
@click.option(
    "--profile", type=click.Choice(["cpu", "gpu"]), default="cpu", show_default=True, help="What the notebooks run on."
)
@click.option("--jobs", metavar="N", type=Whole(min=1), help="Notebooks at a time; default: by cores.")
@click.option(
    "--out",
    metavar="DIR",
    type=Place(),
    default=Path("results"),
    show_default=True,
    help="Where the executed notebooks, results.json and the reports go.",
)
@click.option("--fresh", is_flag=True, help="Run again what already ran well in DIR.")
@click.option("--seed", metavar="N", type=Whole(0, 2**32 - 1), default=0, show_default=True)
def run(lessons: tuple[str, ...], profile: str, jobs: int | None, out: Path, fresh: bool, seed: int) -> int:
    """Run lessons (default: all) and compare their results with the ranges that the course expects.

    An interrupted run goes on where it stopped. Exit code 1 if a notebook failed or a result lies outside its range.
    LESSON is a slug such as 01_fp16_range, its name or its number.

    \b
    Examples:
      ampcourse run
      ampcourse run 01_fp16_range 02_loss_scaling --jobs 2
      ampcourse run 2 --profile gpu --out gpu-results --fresh
    """
    from ampcourse.reproduce.report import print_table
    from ampcourse.reproduce.run import run_course

    report = run_course(list(lessons) or None, profile=profile, jobs=jobs, out=out, fresh=fresh, seed=seed)
    print_table(report)
    return report.exit_code


@main.command(short_help="Make the learners' notebooks (maintainers).")
@lessons_argument
def release(lessons: tuple[str, ...]) -> int:
    """Make the learners' notebooks in notebooks/release from the sources with solutions (default: all lessons).

    For those who maintain the course; it needs a clone and nbgrader.

    \b
    Examples:
      ampcourse release
      ampcourse release 01_fp16_range
    """
    from ampcourse.grading.release import release

    for path in release(list(lessons) or None):
        click.echo(path)
    return 0


@main.command(short_help="Print the Tab completion script of your shell.")
@click.argument("shell", metavar="[SHELL]", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> int:
    """Print the script that teaches your shell to complete ampcourse with the Tab key.

    SHELL is bash, zsh or fish; without it, the shell is taken from the environment variable SHELL.

    \b
    Examples:
      ampcourse completion bash >> ~/.bashrc
      ampcourse completion zsh >> ~/.zshrc
      ampcourse completion fish > ~/.config/fish/completions/ampcourse.fish
    """
    from click.shell_completion import get_completion_class

    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"The shell is not known: name one of {', '.join(SHELLS)}.", click.get_current_context())
    found = get_completion_class(name)
    assert found is not None
    click.echo(found(main, {}, "ampcourse", "_AMPCOURSE_COMPLETE").source())
    return 0


for command in (train, bench, course, vary, verify, grade, status, explain, full_points, similar, feedback, export):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="ampcourse")
