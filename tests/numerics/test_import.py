"""The package as a whole: what importing it brings in, and what it offers."""

from __future__ import annotations

import subprocess
import sys

from ampcourse import numerics


def test_import_brings_no_framework_and_says_nothing():
    code = "import sys, ampcourse.numerics; print([m for m in sys.modules if m.split('.')[0] in sys.argv[1:]])"
    heavy = ["tensorflow", "keras", "tf_keras", "matplotlib", "pandas", "scipy", "IPython"]
    run = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_every_public_name_is_there_and_documented():
    for name in numerics.__all__:
        thing = getattr(numerics, name)
        assert not callable(thing) or thing.__doc__, name
