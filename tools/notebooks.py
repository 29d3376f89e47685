"""Normalise notebooks: no outputs, no counts, only the metadata that means something, so that a diff shows the work.

python tools/notebooks.py [--check] [FILE_OR_FOLDER ...]        (default: notebooks/source)
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parent.parent
CELL_METADATA = ("tags", "nbgrader", "editable", "deletable")
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def normalise(text: str) -> str:
    """The normalised form of a notebook's JSON; normalising twice changes nothing more.

    Raises:
        ValueError: if the text is not a valid notebook.
    """
    # Not nbformat.reads: it mends duplicate ids with random ones, which would differ from machine to machine.
    notebook = json.loads(text)
    if not isinstance(notebook, dict) or notebook.get("nbformat") != 4:
        raise ValueError("it is not in notebook format 4")
    try:
        cells = [clean_cell(cell) for cell in notebook["cells"]]
        give_ids(cells)
        notebook = {"cells": cells, "metadata": NOTEBOOK_METADATA, "nbformat": 4, "nbformat_minor": 5}
        nbformat.validate(notebook)
    except (nbformat.ValidationError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from None
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def clean_cell(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell with its text, its kind and the metadata that is kept."""
    metadata = {key: cell["metadata"][key] for key in CELL_METADATA if key in cell["metadata"]}
    if not metadata.get("tags", True):
        del metadata["tags"]
    lines = "".join(cell["source"]).rstrip("\n").splitlines(keepends=True)
    kept = {"cell_type": cell["cell_type"], "id": cell.get("id", ""), "metadata": metadata, "source": lines}
    if cell["cell_type"] == "code":
        kept |= {"execution_count": None, "outputs": []}
    if cell.get("attachments"):
        kept["attachments"] = cell["attachments"]
    return kept


def give_ids(cells: list[dict[str, Any]]) -> None:
    """Keep ids that are valid and unique; give the others one made from the text, the same on every machine."""
    used: set[str] = set()
    for cell in cells:
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"]) or cell["id"] in used:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
            digest = hashlib.sha256("".join(cell["source"]).encode()).hexdigest()
            candidates = [name] if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) else []
            candidates += [digest[:8]] + [f"{digest[:8]}-{number}" for number in range(2, len(cells) + 2)]
            cell["id"] = next(candidate for candidate in candidates if candidate not in used)
        used.add(cell["id"])


def notebooks_in(paths: list[Path]) -> Iterator[Path]:
    """The files named, and every notebook in the folders named; Jupyter's own copies are left out."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        yield from (found for found in sorted(path.rglob("*.ipynb")) if ".ipynb_checkpoints" not in found.parts)


def main(arguments: list[str] | None = None) -> int:
    """Normalise, or with `--check` say which notebooks are not; exit status 1 if any is not, or is no notebook."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a notebook is not normalised")
    parser.add_argument("paths", nargs="*", type=Path, default=[ROOT / "notebooks" / "source"])
    options = parser.parse_args(arguments)
    failed = False
    for path in notebooks_in(options.paths):
        try:
            before = path.read_text("utf-8")
            after = normalise(before)
        except (OSError, ValueError) as error:
            print(f"'{path}' is not a notebook that can be read: {error}", file=sys.stderr)
            failed = True
            continue
        if after == before:
            continue
        if options.check:
            print(f"'{path}' is not normalised: run make format.", file=sys.stderr)
            failed = True
        else:
            new = path.with_name(path.name + ".new")
            new.write_text(after, "utf-8")
            new.replace(path)
            print(f"normalised '{path}'")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
