"""`ampcourse doctor`: whether a learner can work here, and what mixed precision gains on this machine.

What it says of the machine is what `ampcourse.amp.hardware()` says, from the same code.

TensorFlow is asked in a process of its own, so that the answer comes even where importing it fails or kills Python.
"""

from __future__ import annotations

from ampcourse import terminal
from ampcourse.amp.machine_advice import gains
from ampcourse.amp.machine_facts import read_cpu, read_driver
from ampcourse.doctor.answer import ask, tensorflow_findings
from ampcourse.doctor.environment import Finding, environment_findings
from ampcourse.doctor.report import Diagnosis, show

__all__ = ["Diagnosis", "Finding", "diagnose", "show"]


def diagnose(measure: bool = True) -> Diagnosis:
    """Look at everything a learner needs; `measure` also times matrix products on the CPU for about 5 seconds."""
    cpu, driver = read_cpu(), read_driver()
    with terminal.waiting("Asking TensorFlow and timing matrix products ..." if measure else "Asking TensorFlow ..."):
        answer = ask(seconds=4.0 if measure else 0.0)
    findings = (*environment_findings(), *tensorflow_findings(answer, cpu, driver))
    return Diagnosis(findings, cpu, driver, answer, gains(cpu, driver, answer))
