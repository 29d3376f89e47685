"""What an audit returns: hazards as plain data, shown as text and as an accessible table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from ampcourse.amp.tables import html_list, html_table

SEVERITIES = ("error", "warning", "note")
_MARKS = {"error": "✗ error", "warning": "! warning", "note": "· note"}
_COLUMNS = ("Severity", "Kind", "Where", "Evidence", "Fix")


@dataclass(frozen=True)
class Hazard:
    """One thing that can go wrong, or has already.

    Attributes:
        kind: which kind, such as `"constant_out_of_range"`.
        severity: `"error"` (results are wrong), `"warning"` (they are wrong for some data), or `"note"` (worth knowing,
            nothing is wrong).
        layer: name of the layer, `"optimizer"`, `"step"`, `"loss"` or `"model"`.
        evidence: what was seen, with its numbers.
        fix: what to write instead, as code.
        value: the number that the evidence rests on; None where there is none.
    """

    kind: str
    severity: str
    layer: str
    evidence: str
    fix: str
    value: float | None = None


@dataclass(frozen=True, repr=False)
class AuditReport:
    """The hazards of one model, the gravest first; true in a condition if any of them is an error or a warning.

    A note (idle Tensor Cores, a policy that gains nothing on this machine) does not make a report true: a model with
    notes only is a clean model.

    Attributes:
        model: name of the model.
        policy: its dtype policy.
        hazards: the hazards, notes included.
        not_checked: what could not be looked into, and why; a sentence each.
    """

    model: str
    policy: str
    hazards: tuple[Hazard, ...] = ()
    not_checked: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.alarms)

    def __iter__(self) -> Iterator[Hazard]:
        return iter(self.hazards)

    @property
    def alarms(self) -> tuple[Hazard, ...]:
        """Errors and warnings."""
        return tuple(h for h in self.hazards if h.severity != "note")

    @property
    def notes(self) -> tuple[Hazard, ...]:
        """What is worth knowing although nothing is wrong."""
        return tuple(h for h in self.hazards if h.severity == "note")

    @property
    def kinds(self) -> set[str]:
        """The kinds of all hazards, notes included."""
        return {h.kind for h in self.hazards}

    def of(self, kind: str) -> tuple[Hazard, ...]:
        """The hazards of one kind."""
        return tuple(h for h in self.hazards if h.kind == kind)

    @property
    def headline(self) -> str:
        """One line: the model, its policy, how many hazards of which severity."""
        counts = [(sum(h.severity == s for h in self.hazards), s) for s in SEVERITIES]
        said = ", ".join(f"{n} {s}{'s' * (n > 1)}" for n, s in counts if n)
        return f"Audit of {self.model!r} ({self.policy}): {said or 'no hazards'}" + ("." if self else "; clean.")

    def __str__(self) -> str:
        parts = [self.headline]
        for hazard in self.hazards:
            parts.append(f"\n{_MARKS[hazard.severity]}  {hazard.kind}  ({hazard.layer})")
            parts.append(textwrap.fill(hazard.evidence, 110, initial_indent="    ", subsequent_indent="    "))
            parts.append(textwrap.indent(hazard.fix, "    fix: ", lambda _: True))
        parts += [f"\nNot checked: {sentence}" for sentence in self.not_checked]
        return "\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        missed = html_list(f"Not checked: {sentence}" for sentence in self.not_checked) if self.not_checked else ""
        if not self.hazards:
            return html_list([self.headline]) + missed
        rows = [(_MARKS[h.severity], h.kind, h.layer, h.evidence, h.fix) for h in self.hazards]
        return html_table(self.headline, _COLUMNS, rows) + missed
