"""Write `requirements.lock` (everything on a CPU), `requirements-gpu.lock` (what a GPU needs besides), and
`requirements-jax.lock` (what runs on JAX, without TensorFlow).

They hold versions, hashes and markers for every platform and every supported Python, and no address: the index is the
installing machine's business. uv keeps versions that are already locked; `--upgrade` moves them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK, GPU_LOCK, JAX_LOCK = "requirements.lock", "requirements-gpu.lock", "requirements-jax.lock"
GPU_HEADER = """\
# What `ampcourse[gpu]` needs besides requirements.lock: CUDA for TensorFlow on Linux. Written by `make lock`.
#    pip install --require-hashes -r requirements.lock -r requirements-gpu.lock
"""


# keras-hub asks for these, and does without them on other backends: an environment marker that never holds.
WITHOUT = ("tensorflow", "tensorflow-text")


def compile_lock(what: list[str], target: str, arguments: list[str]) -> str:
    """Let uv resolve what is asked for into a file; returns its text. Stops if uv cannot."""
    command = [sys.executable, "-m", "uv", "pip", "compile", *what, "--universal", "--quiet"]
    # "fewest" takes one version for all Pythons wherever one exists, so that numbers agree between learners.
    command += ["--python-version", "3.11", "--fork-strategy", "fewest", "--generate-hashes"]
    command += ["--output-file", target, *arguments]
    environment = os.environ | {"UV_CUSTOM_COMPILE_COMMAND": "make lock"}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        sys.exit(f"uv could not write {target}: see above.")
    return (ROOT / target).read_text("utf-8")


def blocks(lock: str) -> dict[str, str]:
    """The entries of a lock, by their first line without the extras: `name==version ; marker`."""
    found = re.findall(r"^[A-Za-z0-9].*\n(?:[ \t]+.*\n)*", lock, re.MULTILINE)
    return {re.sub(r"\[.*?\]", "", entry.partition("\n")[0]): entry for entry in found}


def main() -> None:
    """Write the three files."""
    project, arguments = ["pyproject.toml", "--extra=dev"], sys.argv[1:]
    base = blocks(compile_lock(project, LOCK, arguments))
    everything = blocks(compile_lock([*project, "--extra=gpu"], GPU_LOCK, ["--constraint", LOCK]))
    if changed := sorted(set(base) - set(everything)):
        sys.exit(f"{GPU_LOCK} would need another version than {LOCK}: {', '.join(changed)}.")
    extra = [entry for name, entry in everything.items() if name not in base]
    (ROOT / GPU_LOCK).write_text(GPU_HEADER + "".join(extra), "utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as never:
        never.write("".join(f"{name} ; python_version < '3'\n" for name in WITHOUT))
        never.flush()
        compile_lock(["--group=jax"], JAX_LOCK, ["--override", never.name, "--constraint", LOCK, *arguments])


if __name__ == "__main__":
    main()
