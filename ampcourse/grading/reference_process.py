"""The process that observes right answers and known mistakes, and how whoever grades talks with it.

Run as `python -m ampcourse.grading.reference_process`, it reads tasks as lines of JSON and answers in lines of JSON. It
may hang or die where a known mistake does: then it is ended, and another one goes on after that mistake.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ampcourse.exercises import check, private
from ampcourse.exercises.engine import Question
from ampcourse.exercises.model import BrokenExercise
from ampcourse.exercises.observe import observe
from ampcourse.exercises.wire import pack
from ampcourse.grading.modules import folder as package_folder

GRACE = 60.0
"""Seconds beyond an observation's own limit before the process is ended; importing TensorFlow is part of the first."""
NOTHING = pack({"criteria": {}, "printed": "", "warned": ""}).decode("ascii")
"""What stands for a mistake that could not be observed: nobody's answer looks like it."""


@dataclass(frozen=True)
class Task:
    """One question to observe: an exercise, a seed, and how many known mistakes there are."""

    exercise: str
    seed: int
    mistakes: int
    trains: bool = False

    @property
    def seconds(self) -> float:
        """The limit of one observation."""
        return check.SECONDS_TRAINING if self.trains else check.SECONDS


@dataclass(frozen=True)
class Answer:
    """What came of a task: observations as text, or why there are none."""

    packed: str = ""
    right: str = ""
    mistakes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    broken: str = ""


class _Gone(Exception):
    """The process does not answer; the text says why."""


def answers_of(tasks: Sequence[Task], folder: Path | None, gpu: bool, stop: threading.Event) -> Iterator[Answer]:
    """What comes of each task, in order, until `stop`; one process observes them all unless it has to be replaced."""
    with contextlib.ExitStack() as stack:
        running: list[_Process] = []

        def ask(task: Task, part: Mapping[str, Any]) -> str:
            if not running:
                running.append(stack.enter_context(contextlib.closing(_Process(folder, gpu, stop))))
            try:
                return running[0].ask({**asdict(task), **part}, task.seconds + GRACE * _patience())
            except _Gone:
                running.pop().close()
                raise

        for task in tasks:
            answer = _answer(task, ask)
            if stop.is_set():
                return
            yield answer


def _answer(task: Task, ask: Any) -> Answer:
    try:
        packed = ask(task, {"part": "inputs"})
        right = ask(task, {"part": "right"})
    except _Gone as gone:
        return Answer(broken=f"{task.exercise}: its right answer could not be observed: {gone}")
    except BrokenExercise as error:
        return Answer(broken=str(error))
    looks, notes = [], []
    for number in range(task.mistakes):
        try:
            looks.append(ask(task, {"part": "mistake", "number": number}))
        except (_Gone, BrokenExercise) as error:
            looks.append(NOTHING)
            notes.append(f"{task.exercise}: its known mistake {number + 1} could not be observed: {error}.")
    return Answer(packed, right, tuple(looks), tuple(notes))


def _patience() -> float:
    return float(os.environ.get("AMPCOURSE_PATIENCE", "1"))


class _Process:
    """One process that observes."""

    def __init__(self, folder: Path | None, gpu: bool, stop: threading.Event) -> None:
        paths = [str(package_folder().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": os.pathsep.join(paths)}
        if not gpu:
            environment["CUDA_VISIBLE_DEVICES"] = "-1"
        self._stop = stop
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, *([str(folder)] if folder else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # an interrupt from the keyboard is for whoever grades
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(b"")

    def ask(self, request: Mapping[str, Any], seconds: float) -> str:
        """The text that answers a request.

        Raises:
            _Gone: if nothing comes back within the time, or the process ends.
            BrokenExercise: if the exercise itself fails.
        """
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
            self._process.stdin.flush()
            line = self._line(seconds)
        except OSError:
            line = b""
        if not line:
            raise _Gone(f"the process ended ({self._ending()})")
        reply = json.loads(line)
        if "broken" in reply:
            raise BrokenExercise(reply["broken"])
        return reply["text"]

    def _line(self, seconds: float) -> bytes:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self._stop.is_set():
                raise _Gone("grading was stopped")
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=0.2)
        raise _Gone(f"no end after {seconds:.0f} seconds")

    def _ending(self) -> str:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def serve(folder: str | None) -> None:
    """Answer requests until there are no more; what observed code prints goes nowhere near the answers."""
    requests, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    asked: dict[tuple[str, int], Question] = {}
    try:
        private.use(folder)
    except Exception as error:
        for _ in requests:
            _reply(out, {"broken": str(error)})
        return
    for line in requests:
        request = json.loads(line)
        try:
            _reply(out, {"text": _observed(request, asked).decode("ascii")})
        except Exception as error:
            says = str(error) if isinstance(error, BrokenExercise) else f"{type(error).__name__}: {error}"
            _reply(out, {"broken": says})


def _observed(request: Mapping[str, Any], asked: dict[tuple[str, int], Question]) -> bytes:
    exercise = check.exercise(request["exercise"])
    key = exercise.id, request["seed"]
    question = asked.setdefault(key, Question(exercise, request["seed"]))
    if request["part"] == "inputs":
        return question.packed
    answer = exercise.right if request["part"] == "right" else exercise.mistakes[request["number"]].answer
    seconds = Task(exercise.id, 0, 0, exercise.trains).seconds
    return observe(exercise.observer, question.packed, answer, seconds)


def _reply(out: Any, content: Mapping[str, str]) -> None:
    out.write(json.dumps(content).encode("ascii") + b"\n")
    out.flush()


if __name__ == "__main__":
    serve(sys.argv[1] if len(sys.argv) > 1 else None)
