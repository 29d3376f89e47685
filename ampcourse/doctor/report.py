"""The doctor's findings as a table, as plain text or as JSON."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from ampcourse import terminal
from ampcourse.amp.machine_advice import choose
from ampcourse.amp.machine_facts import Cpu, Driver
from ampcourse.doctor.answer import Answer
from ampcourse.doctor.environment import PROBLEM, WARNING, Finding


@dataclass(frozen=True)
class Diagnosis:
    """Everything found; `ok` says whether a learner can work here."""

    findings: tuple[Finding, ...]
    cpu: Cpu
    driver: Driver
    answer: Answer
    gains: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """No finding is a problem."""
        return all(finding.status != PROBLEM for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "ok": self.ok,
            "findings": [asdict(finding) for finding in self.findings],
            "cpu": asdict(self.cpu),
            "driver": asdict(self.driver),
            "gpus": [asdict(gpu) for gpu in self.answer.gpus],
            "measurement": self.answer.measurement,
            "policy": choose(self.cpu, self.answer).policy,
            "gains": list(self.gains),
        }


def show(diagnosis: Diagnosis, as_json: bool = False) -> None:
    """Print the diagnosis."""
    if as_json:
        terminal.say(json.dumps(diagnosis.as_dict(), indent=2))
        return
    rows = [(finding.name, finding.status, finding.found, finding.advice) for finding in diagnosis.findings]
    terminal.table(("what", "status", "found", "what to do"), rows)
    terminal.say("\nWhat mixed precision gains here")
    for gain in diagnosis.gains:
        terminal.say(textwrap.fill(terminal.clean(gain), 100, initial_indent="- ", subsequent_indent="  "))
    if diagnosis.answer.measurement:
        terminal.say("\n" + _measurement(diagnosis.answer.measurement))
    terminal.say("\n" + _verdict(diagnosis))


def _measurement(measurement: dict[str, Any]) -> str:
    times = ", ".join(f"{dtype} {ms:.1f} ms" for dtype, ms in measurement["milliseconds"].items())
    size, rounds = measurement["size"], measurement["rounds"]
    return (
        f"Measured on this CPU: products of {size} x {size} matrices, median of {rounds} interleaved rounds: {times}."
    )


def _verdict(diagnosis: Diagnosis) -> str:
    problems = [finding.name for finding in diagnosis.findings if finding.status == PROBLEM]
    warnings = [finding.name for finding in diagnosis.findings if finding.status == WARNING]
    if problems:
        return f"You cannot work here yet: see 'what to do' for {', '.join(problems)}."
    if warnings:
        return f"You can work here; have a look at {', '.join(warnings)}."
    return "You can work here."
