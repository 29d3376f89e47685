"""Python, packages, the notebook kernel and the folder for progress: what a learner needs apart from TensorFlow."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from ampcourse import faults

OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"

# Taught by name in the lessons, whose numbers and calls belong to these versions.
TAUGHT = ("tensorflow", "keras", "tf-keras")
_IMPORTED = ("ampcourse", "tensorflow", "keras", "tf_keras", "numpy", "ml_dtypes", "matplotlib", "ipywidgets")


@dataclass(frozen=True)
class Finding:
    """One thing looked at: its status, what was found, and what to do about it (empty where there is nothing to do).

    A "problem" keeps a learner from working; a "warning" does not; a "note" is only said.
    """

    name: str
    status: str
    found: str
    advice: str = ""


def environment_findings() -> list[Finding]:
    """Everything that can be looked at without importing TensorFlow."""
    return [
        python_finding(),
        *package_findings(),
        *hidden_findings(Path.cwd()),
        kernel_finding(),
        jupyter_finding(),
        progress_finding(),
    ]


def python_finding() -> Finding:
    """Whether this Python is one that the course is tested with."""
    here = platform.python_version()
    try:
        from packaging.specifiers import SpecifierSet

        wanted = metadata.metadata("ampcourse").get("Requires-Python", "")
        if SpecifierSet(wanted).contains(here, prereleases=True):
            return Finding("Python", OK, f"{here} in {sys.prefix}")
    except (ImportError, metadata.PackageNotFoundError):
        return Finding(
            "Python", WARNING, f"{here}; ampcourse is not installed in it", "python -m pip install ampcourse"
        )
    advice = f"Use a Python that fits {wanted}; the course is tested with those only."
    return Finding("Python", WARNING, here, advice)


def package_findings() -> list[Finding]:
    """The packages that ampcourse asks for: those taught by name one by one, of the others only what is amiss."""
    try:
        from packaging.requirements import Requirement

        asked = [Requirement(line) for line in metadata.requires("ampcourse") or ()]
    except (ImportError, metadata.PackageNotFoundError):
        return [
            Finding(
                "packages", PROBLEM, "cannot be compared: ampcourse or packaging is not installed", _pip("ampcourse")
            )
        ]
    asked = [r for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})]
    findings = [package_finding(r.name.replace("_", "-"), str(r.specifier)) for r in asked]
    taught = [finding for finding in findings if finding.name in TAUGHT]
    others = [finding for finding in findings if finding.name not in TAUGHT]
    amiss = [finding for finding in others if finding.status != OK]
    rest = Finding("other packages", OK, f"{len(others) - len(amiss)} of {len(others)} as asked for")
    return [*taught, *amiss, rest]


def package_finding(name: str, wanted: str) -> Finding:
    """One package: missing or of another major version is a problem, another version a warning."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    try:
        here = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, PROBLEM, "not installed", _pip(f"{name}{wanted}"))
    specifier = SpecifierSet(wanted)
    if specifier.contains(here, prereleases=True):
        return Finding(name, OK, f"{here}, as taught" if name in TAUGHT else here)
    oldest = min((Version(part.version) for part in specifier if part.operator in (">=", "==")), default=None)
    if name in TAUGHT and oldest is not None and Version(here).major != oldest.major:
        return Finding(name, PROBLEM, f"{here}; the course teaches {wanted}", _pip(f"{name}{wanted}"))
    says = (
        f"{here}; the course teaches {wanted}, so numbers may differ"
        if name in TAUGHT
        else f"{here}; asked for {wanted}"
    )
    return Finding(name, WARNING, says, _pip(f"{name}{wanted}"))


def _pip(requirement: str) -> str:
    return f"python -m pip install '{requirement}'"


def hidden_findings(folder: Path) -> list[Finding]:
    """Files in the learner's folder that Python would import instead of the package of that name."""
    files = [folder / f"{name}.py" for name in _IMPORTED if (folder / f"{name}.py").is_file()]
    advice = "Rename that file: Python imports it instead of the package."
    return [Finding(f"import {path.stem}", PROBLEM, f"hidden by {path}", advice) for path in files]


def kernel_finding() -> Finding:
    """Whether notebooks find a kernel called python3 whose Python can import what the lessons import."""
    install = "python -m ipykernel install --sys-prefix"
    if util.find_spec("ipykernel") is None or util.find_spec("jupyter_client") is None:
        return Finding("kernel python3", PROBLEM, "ipykernel is not installed", _pip("ipykernel"))
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
        program = spec.argv[0]
    except NoSuchKernel:
        return Finding("kernel python3", PROBLEM, "not found", install)
    except Exception as error:  # a damaged kernel.json raises whatever its reader raises
        return Finding("kernel python3", PROBLEM, f"cannot be read: {error}", install)
    # A bare `python` is replaced by jupyter_client with the Python that runs Jupyter: this one.
    if Path(program).name == program or Path(program) == Path(sys.executable):
        return Finding("kernel python3", OK, f"{sys.executable}")
    if _imports(program, "ampcourse", "tensorflow"):
        return Finding("kernel python3", NOTE, f"another Python, which has the course too: {program}")
    return Finding("kernel python3", PROBLEM, f"starts another Python without the course: {program}", install)


def _imports(program: str, *modules: str) -> bool:
    code = f"import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in {modules!r}))"
    try:
        return subprocess.run([program, "-c", code], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def jupyter_finding() -> Finding:
    """Whether typing `jupyter lab` starts the JupyterLab of this Python."""
    if util.find_spec("jupyterlab") is None:
        return Finding("jupyter lab", PROBLEM, "not installed", _pip("jupyterlab"))
    program = shutil.which("jupyter")
    if program is not None and Path(program).resolve().parent == Path(sys.executable).parent.resolve():
        return Finding("jupyter lab", OK, program)
    says = f"the command 'jupyter' is another one: {program}" if program else "the command 'jupyter' is not on PATH"
    return Finding("jupyter lab", NOTE, says, f"Start it with: {sys.executable} -m jupyterlab")


def progress_finding() -> Finding:
    """Whether the checks can remember what a learner has done."""
    import platformdirs

    named = os.environ.get("AMPCOURSE_HOME")
    folder = faults.home() if named else Path(platformdirs.user_data_dir("ampcourse"))
    if folder is not None and _writable(folder):
        return Finding("progress", OK, f"kept in {folder}")
    where = folder or named
    return Finding("progress", WARNING, f"cannot be kept: {where} is not writable", "Name another in AMPCOURSE_HOME.")


def _writable(folder: Path) -> bool:
    """Whether a folder, or the nearest that exists above it, can be written."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        return there.is_dir() and os.access(there, os.W_OK)
    except OSError:  # something on the way must not even be looked into
        return False
