"""The few places in nbgrader where no setting reaches. Each is named, says why, and acts where a course asks for it.

A course asks by `hooks.grade_with_ampcourse(c)` in its nbgrader_config.py. Other courses that the same server or
process opens are graded by nbgrader as ever.
"""

from __future__ import annotations

import sys
from typing import Any

from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde

from ampcourse.grading.doors.autograde import AmpGrade, autograde

_HANDLERS = "nbgrader.server_extensions.formgrader.handlers"
_BASE = "nbgrader.server_extensions.formgrader.base"
_MARK = "_ampcourse"
_NO_MATHJAX = """{% macro mathjax(url='') %}<script>
window.MathJax = {Hub: {Startup: {signal: {Interest: function (tell) { setTimeout(tell, 0, "End"); }}}}};
</script>{% endmacro %}"""
PAGE_POLICY = (
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; connect-src 'self'; img-src 'self' data:; object-src 'none'; "
    "frame-src 'none'; form-action 'self'; base-uri 'none'"
)


def install() -> None:
    """Put them in place; may be called again, and again once formgrader is loaded."""
    _once(Autograde, "start", _start)
    _once(NbGraderAPI, "autograde", _readable)
    if handlers := sys.modules.get(_HANDLERS):
        _once(handlers.SubmissionHandler, "content_security_policy", _page_policy)
        _once(handlers.SubmissionFilesHandler, "content_security_policy", _file_policy)
    if base := sys.modules.get(_BASE):
        _once(base.BaseHandler, "exporter", _exporter)


def _once(owner: type, name: str, patch: Any) -> None:
    if _MARK not in owner.__dict__:
        setattr(owner, _MARK, frozenset())
    done = owner.__dict__[_MARK]
    if name not in done:
        setattr(owner, name, patch(getattr(owner, name)))
        setattr(owner, _MARK, done | {name})


def _asked(config: Any) -> bool:
    return AmpGrade(config=config).enabled


def _start(original: Any) -> Any:
    """nbgrader's own way cannot keep old scores where a submission fails, and follows links out of submissions."""

    def start(self: Any) -> None:
        if not _asked(self.config):
            original(self)
            return
        try:
            autograde(self)
        finally:
            if isinstance(self.parent, NbGraderAPI):
                self.parent.ampcourse_said = self.ampcourse_said

    return start


def _readable(original: Any) -> Any:
    """formgrader shows a traceback of nbgrader's for every failure; where we know a sentence, it shows that."""

    def autograde(self: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        self.ampcourse_said = []
        result = original(self, *arguments, **options)
        if self.ampcourse_said and not result["success"]:
            result["error"] = "\n".join(self.ampcourse_said)
        return result

    return autograde


def _page_policy(original: Any) -> Any:
    """The page of a submission may load nothing from elsewhere, whatever a student put into it."""
    return property(lambda self: _policy(self, original, PAGE_POLICY))


def _file_policy(original: Any) -> Any:
    """A page that a student handed in as a file is served from Jupyter's own address: it must not run there."""
    return property(lambda self: _policy(self, original, "sandbox; default-src 'none'; img-src 'self' data:"))


def _policy(handler: Any, original: property, added: str) -> str:
    said = original.fget(handler) if original.fget else ""
    return f"{said}; {added}" if _asked(handler.settings["nbgrader_formgrader"].config) else said


def _exporter(original: Any) -> Any:
    """formgrader keeps the exporter of the course that it started with, and its page waits for MathJax from afar.

    Without a network nobody can give points there. The page gets what it waits for; formulas stay as they were typed.
    """

    def exporter(self: Any) -> Any:
        config = self.settings["nbgrader_formgrader"].config
        if not _asked(config):
            return original.fget(self)
        from jinja2 import DictLoader
        from nbconvert.exporters import HTMLExporter

        return HTMLExporter(config=config, extra_loaders=[DictLoader({"mathjax.html.j2": _NO_MATHJAX})])

    return property(exporter)
