"""Exercises of a lesson "demo" that exist in these tests only, installed as a lesson's answers would be."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ampcourse.exercises import answers, check, progress


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setattr(answers, "__path__", [*answers.__path__, str(Path(__file__).parent / "demo_answers")])
    monkeypatch.delenv("AMPCOURSE_PROFILE", raising=False)
    progress.forget_unstored()
    check.forget()
    name = "ampcourse.exercises.answers.demo"
    yield importlib.import_module(name)
    sys.modules.pop(name, None)
    if hasattr(answers, "demo"):
        delattr(answers, "demo")
    check.forget()
