"""The package of tools as a whole: cheap to import, every name there, none hidden by a module."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from ampcourse import amp


def test_importing_the_tools_does_not_import_tensorflow() -> None:
    code = "import sys; from ampcourse import amp; assert dir(amp); print({'tensorflow', 'keras'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("set()\n", "")


@pytest.mark.parametrize("name", amp.__all__)
def test_every_tool_is_there_whatever_was_imported_before(name: str) -> None:
    for module in pkgutil.iter_modules(amp.__path__):
        importlib.import_module(f"{amp.__name__}.{module.name}")
    tool = getattr(amp, name)
    assert callable(tool)
    assert tool.__doc__


def test_an_unknown_tool_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="audti"):
        amp.audti  # noqa: B018
