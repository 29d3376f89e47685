"""What the tests of training share."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"training_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of a small run as `.SMALL`, its models known by name, and few test pictures."""
    from ampcourse.training import catalogue, feed

    module = _load("small")
    monkeypatch.setitem(catalogue.MODELS, "small", catalogue.Entry("a small model", module.build))
    monkeypatch.setitem(catalogue.MODELS, "plain", catalogue.Entry("a smaller model", module.plain))
    monkeypatch.setattr(feed.data, "pictures", module.pictures)
    return module


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., subprocess.Popen]:
    """Starts a script in a process of its own, in which `small.install()` has run and `out` is a folder."""

    def start(body: str) -> subprocess.Popen:
        head = f"import sys\nsys.path[:0] = [{str(ROOT)!r}, {str(HERE)!r}]\nimport small\nsmall.install()\n"
        path = tmp_path / "script.py"
        path.write_text(f"{head}out = {str(tmp_path)!r}\n{body}")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, str(path)], **pipes)

    return start
