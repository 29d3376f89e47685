"""Which way kernels are started here."""

from __future__ import annotations

from ampcourse.grading.model import Box, GradingError, Starter
from ampcourse.grading.sandbox.probe import probe
from ampcourse.grading.sandbox.starters import SandboxStarter
from ampcourse.grading.sandbox.unsafe import UnsafeStarter
from ampcourse.grading.settings import Settings


def choose_starter(box: Box, settings: Settings, *, unsafe: bool = False, fast: bool = True, slots: int = 1) -> Starter:
    """The way to start kernels for a lesson on this machine.

    Args:
        box: what is seen of the course.
        settings: limits and times.
        unsafe: the instructor has asked to go on without a sandbox, where there cannot be one.
        fast: take the template, which loads once for all, where it works.
        slots: how many kernels run at a time.

    Raises:
        GradingError: if this machine does not isolate what students hand in, and `unsafe` is not set.
    """
    if unsafe and not probe().complete:
        return UnsafeStarter(box, settings)
    refuse_unless_isolated()
    if fast:
        from ampcourse.grading.template import TemplateStarter

        try:
            return TemplateStarter(box, settings, slots)
        except GradingError:
            pass  # a fresh sandbox for each is slower and as safe
    return SandboxStarter(box, settings)


def refuse_unless_isolated() -> None:
    """Go on only where the machine isolates.

    Raises:
        GradingError: if it does not, with the reasons.
    """
    layers = probe()
    if not layers.complete:
        raise GradingError(
            f"Students' code cannot be isolated here. {' '.join(layers.reasons)} To grade without isolation, so that "
            "each submission can read and change whatever you can, give --unsafe-no-sandbox."
        )
