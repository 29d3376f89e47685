"""Keep one issue on GitHub while the newest TensorFlow and Keras give other results than the course expects.

    python3 tools/drift.py success|failure results.json

"failure" opens the issue, or brings the open one up to date; "success" closes it. GitHub's command `gh` does the
talking, with GH_TOKEN and GH_REPO from the environment; RUN_PAGE is the address of the run. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LABEL = "drift"
TITLE = "The newest TensorFlow and Keras give other results"
LONGEST = 60_000  # characters; GitHub takes 65,536


def body(results: Path, page: str) -> str:
    """The issue's text in Markdown: what drifted, with which versions, and where the run is."""
    lines = [f"The nightly run with the newest packages failed: {page or 'see the Actions page'}.", ""]
    try:
        run = json.loads(results.read_text("utf-8"))
        lines += ["| package | version |", "|---|---|"]
        lines += [f"| {name} | {_cell(version)} |" for name, version in run["versions"].items()]
        lines += ["", "| lesson | what | value | expected |", "|---|---|---|---|", *_rows(run["notebooks"])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        lines.append("It left no results: the packages could not be installed, or nothing could be run.")
    lines += ["", "This text is written anew by every failing run; the first run that succeeds closes the issue."]
    return "\n".join(lines)[:LONGEST] + "\n"


def _rows(notebooks: list[dict[str, Any]]) -> list[str]:
    rows = []
    for notebook in notebooks:
        lesson = _cell(notebook["lesson"])
        if notebook["status"] != "ok":
            rows.append(f"| {lesson} | {_cell(notebook['status'])}: {_cell(notebook['reason'])} | | |")
        rows += [
            f"| {lesson} | {_cell(one['name'])} | {_cell(one['value'])} | {one['low']} to {one['high']} |"
            for one in notebook["results"]
            if not one["held"]
        ]
    return rows


def _cell(value: object) -> str:
    """One cell of a table: an error message must not break the table, nor call anybody by an @name."""
    text = " ".join(str(value).split()).replace("|", "\\|").replace("@", "@\N{ZERO WIDTH SPACE}")
    return text if len(text) <= 300 else text[:299] + "…"


def _gh(*arguments: str, text: str | None = None) -> str:
    return subprocess.run(["gh", *arguments], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Bring the issue in line with how the run ended."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("success", "failure"):
        sys.exit("Call it as: python3 tools/drift.py success|failure results.json")
    ended, results, page = sys.argv[1], Path(sys.argv[2]), os.environ.get("RUN_PAGE", "")
    found = json.loads(_gh("issue", "list", "--state", "open", "--label", LABEL, "--json", "number") or "[]")
    numbers = sorted(str(issue["number"]) for issue in found)
    if ended == "success":
        for number in numbers:
            _gh("issue", "close", number, "--comment", f"The results hold again: {page}")
    elif numbers:
        _gh("issue", "edit", numbers[0], "--body-file", "-", text=body(results, page))
    else:
        _gh("label", "create", LABEL, "--force", "--description", "Newer packages give other results")
        _gh("issue", "create", "--title", TITLE, "--label", LABEL, "--body-file", "-", text=body(results, page))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"GitHub refused: gh {error.cmd[1]} {error.cmd[2]} ended with exit code {error.returncode}.")
    except FileNotFoundError:
        sys.exit("GitHub's command line, gh, is not installed here.")
