"""The report of a run: a table for the terminal, Markdown, and HTML with the executed notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampcourse.reproduce import executed, files
from ampcourse.reproduce.results import NotebookResult, Report
from ampcourse.reproduce.templating import render

if TYPE_CHECKING:
    from rich.console import Console


def print_table(report: Report, console: Console | None = None) -> None:
    """Print the run's table, its problems, and where the report is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    table = Table(title=f"Profile {report.profile}, seed {report.seed}", title_justify="left")
    table.add_column("Lesson", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    table.add_column("Seconds", justify="right", no_wrap=True)
    table.add_column("Results held", justify="right")
    table.add_column("Reason", overflow="fold")
    for notebook in report.notebooks:
        style = "green" if notebook.good else "red"
        table.add_row(
            notebook.lesson,
            Text(status(notebook), style=style),
            f"{notebook.seconds:.1f}",
            held(notebook),
            Text(reason(notebook)),
        )
    console.print(table)
    for problem in report.problems:
        console.print(Text(problem))
    console.print(Text(verdict(report)))
    if report.page.is_file():
        console.print(Text(f"Report: {report.page}"), soft_wrap=True)


def verdict(report: Report) -> str:
    """One sentence for the whole run."""
    ok = sum(notebook.status == "ok" for notebook in report.notebooks)
    held_, expected = (sum(getattr(one, what) for one in report.notebooks) for what in ("held", "expected"))
    return f"{ok} of {len(report.notebooks)} notebooks ran to their end; {held_} of {expected} expected results held."


def status(notebook: NotebookResult) -> str:
    """The status, and whether it is an earlier run's."""
    return f"{notebook.status} (kept)" if notebook.kept else notebook.status


def held(notebook: NotebookResult) -> str:
    """As in "3 of 4"."""
    return f"{notebook.held} of {notebook.expected}" if notebook.expected else "none expected"


def reason(notebook: NotebookResult) -> str:
    """Why it failed, or which results did not hold."""
    if notebook.reason:
        return notebook.reason
    wrong = [f"{one.name} = {one.shown}, expected {one.range}" for one in notebook.results if one.held is False]
    return "; ".join(wrong)


_NAMES = {"memory_gib": "memory (GiB)", "fast_bfloat16": "fast bfloat16", "gpus": "GPUs", "flags": "processor flags"}
_WORDS = {"status": status, "held": held, "reason": reason, "verdict": verdict}


def write(report: Report) -> Report:
    """Write report.md, index.html and the pages of notebooks that lack one; what cannot be written becomes a problem.

    A page that fails (a library's fault, a full disk) must not take the numbers down with it.
    """
    try:
        files.write(report.out / "report.md", markdown(report))
        linked = {one.lesson: _page(report.out, one) for one in report.notebooks}
        files.write(report.page, render("index.html.j2", report=report, pages=linked, facts=facts(report), text=_WORDS))
    except files.OutputError as error:
        return report.with_problem(str(error))
    except Exception as error:  # a library's fault must not take the numbers of a long run down with it
        return report.with_problem(f"The report is incomplete: {type(error).__name__}: {error}.")
    return report


def _page(out: Path, one: NotebookResult) -> str:
    """The address of a notebook's page relative to the report, made now if its own process could not; "" if none."""
    notebook = out / "executed" / f"{one.lesson}.ipynb"
    page = notebook.with_suffix(".html")
    if not page.is_file() and (content := executed.load(notebook)):
        from ampcourse.reproduce import pages

        pages.write_page(content, one.title, page)
    return page.relative_to(out).as_posix() if page.is_file() else ""


def markdown(report: Report) -> str:
    """The report as Markdown."""
    lines = [f"# Run of {report.started}, profile {report.profile}, seed {report.seed}", "", verdict(report), ""]
    lines += [f"- {problem}" for problem in report.problems]
    lines += _table(
        ("Lesson", "Status", "Seconds", "Results held", "Reason"),
        [(one.lesson, status(one), f"{one.seconds:.1f}", held(one), reason(one)) for one in report.notebooks],
    )
    for one in report.notebooks:
        if one.results:
            lines += ["", f"## {one.title}", ""]
            rows = [(row.name, row.shown, row.range, row.verdict, row.note) for row in one.results]
            lines += _table(("Result", "Value", "Expected", "Verdict", "Note"), rows)
    lines += ["", "## Machine and versions", ""]
    return "\n".join([*lines, *_table(("What", "Value"), facts(report))]) + "\n"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    def line(cells: tuple[str, ...]) -> str:
        # A "<" would begin a tag and hide what follows, as in <tf.Tensor ...>.
        plain = (" ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;") for cell in cells)
        return f"| {' | '.join(plain)} |"

    return ["", line(head), "|" + " --- |" * len(head), *map(line, rows)]


def facts(report: Report) -> list[tuple[str, str]]:
    """The machine and the versions in words."""
    return [(_NAMES.get(key, key), _fact(value)) for key, value in {**report.machine, **report.versions}.items()]


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_fact, value)) or "none"
    if isinstance(value, dict):
        return " ".join(map(str, value.values()))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "not installed" if value is None else str(value)
