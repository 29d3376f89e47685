"""Write the README's table of lessons anew from `notebooks/course.toml`, the one list of lessons."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def table(course: str) -> str:
    """The rows of the table, one a lesson, from the text of `course.toml`."""
    lessons = tomllib.loads(course)["lesson"]
    rows = [f"| {entry['slug'][:2]} {entry['title']} | {entry['minutes']} | {entry['summary']} |" for entry in lessons]
    return "\n".join(rows) + "\n"


def main() -> int:
    """Write the table; with `--check` only compare, exit status 1 if it is not current."""
    readme = ROOT / "README.md"
    before = readme.read_text("utf-8")
    rows = table((ROOT / "notebooks" / "course.toml").read_text("utf-8"))
    after, found = re.subn(r"(?:^\| \d\d .*\n)+", lambda _: rows, before, count=1, flags=re.MULTILINE)
    if not found:
        print("'README.md' has no table of lessons to bring up to date.", file=sys.stderr)
        return 1
    if after == before:
        return 0
    if "--check" in sys.argv[1:]:
        print("'README.md' lists the lessons differently from course.toml: run make format.", file=sys.stderr)
        return 1
    readme.write_text(after, "utf-8")
    print("brought README.md's table of lessons up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
