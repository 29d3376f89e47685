"""In place of grading in a kernel: it reads what the answers say, and can be made to hang, die, or fail."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

from ampcourse.exercises.model import BrokenExercise
from ampcourse.grading.model import (
    FAILED,
    GRADED,
    MISSING,
    UNREADABLE,
    Assignment,
    Graded,
    GradingError,
    QuestionResult,
    Starter,
    Submission,
)

ANSWERS = {"square-test": ("square", 2.0, r"x \* x"), "cube-test": ("cube", 3.0, r"x \* x \* x")}


def grade(submission: Submission, assignment: Assignment, starter: Starter) -> Graded:
    if submission.notebook is None and not submission.refused:
        return Graded(MISSING, "Nothing was handed in.", questions=_nothing())
    try:
        notebook = json.loads(submission.notebook or b"")
    except ValueError:
        return Graded(UNREADABLE, submission.refused or "The file is not a notebook.", questions=_nothing())
    text = {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}
    for what, argument in re.findall(r"#! (\w+) ?(\S*)", "\n".join(text.values())):
        _misbehave(what, argument, starter)
    questions = []
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in ANSWERS:
            answer, points, right = ANSWERS[name]
            good = bool(re.search(rf"return {right}$", text[answer], re.M))
            stops = {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}
            cell["outputs"] = [] if good else [stops]
            outcome = "right" if good else "wrong"
            questions.append(QuestionResult(name, "test", points, points if good else 0.0, outcome))
    untouched = text["why"] == "YOUR ANSWER HERE"
    questions.append(QuestionResult("why", "written", 2.0, 0.0 if untouched else None, "written"))
    content = json.dumps(notebook).encode()
    return Graded(GRADED, notebook=content, questions=tuple(questions), log=("ran",), seconds=0.01)


def _nothing() -> tuple[QuestionResult, ...]:
    tests = [QuestionResult(name, "test", points, None, "no answer cell") for name, (_, points, _) in ANSWERS.items()]
    return (*tests, QuestionResult("why", "written", 2.0, None, "no answer cell"))


def _misbehave(what: str, argument: str, starter: Starter) -> None:
    if what == "once":  # only the first time that a file of this name is not there
        path = Path(argument)
        if not path.exists():
            path.write_text("was here", "utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "count":
        with Path(argument).open("a", encoding="utf-8") as file:
            file.write("x")
    elif what == "sleep":
        time.sleep(float(argument))
    elif what == "kernel":
        kernel = starter.start({"a.txt": b"a"})
        assert kernel.alive() and kernel.connection["key"] and kernel.reason() == ""
        if argument != "leave":
            kernel.stop()
            assert not kernel.alive()
    elif what == "nokernel":
        raise GradingError("No kernel can be started here.")
    elif what == "bug":
        raise KeyError("no such thing")
    elif what == "broken":
        raise BrokenExercise("powers.square: the right answer fails")
    elif what == "noise":
        return
    else:
        raise AssertionError(f"unknown: {what}")


__all__ = ["FAILED", "grade"]
