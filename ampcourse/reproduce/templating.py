"""The report's templates and style sheet; loads nothing of Jupyter."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, style: str = "", **content: Any) -> str:
    """Fill a template; everything is escaped but what the template itself marks as safe.

    `style` is added to the style sheet that all pages share.
    """
    return _templates().get_template(template).render(style=_sheet() + style, **content)


@cache
def _templates() -> Environment:
    loader = PackageLoader("ampcourse.reproduce")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)


@cache
def _sheet() -> str:
    return Path(__file__).with_name("templates").joinpath("style.css").read_text("utf-8")
