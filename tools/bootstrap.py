"""Find a Python that can run the course, and let it set up `.venv`, or `.venv-jax` with the argument jax.

The Makefile calls it with `python3`. Whatever that is, even one too old to run the course, it must be able to read this
file and say so in one sentence: so the syntax here is one that Python 2.7 understands, and the work is done by
setup_venv.py.
"""

import os
import subprocess
import sys

SUITABLE = ("3.11", "3.12", "3.13")
OTHERS = ("python3.13", "python3.12", "python3.11", "python3")
PROBE = "import sys, venv, ensurepip; print('{}.{}'.format(*sys.version_info))"
VENV = ".venv-jax" if sys.argv[1:] == ["jax"] else ".venv"
STAMP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), VENV, "ampcourse-setup.json")
HERE = "{}.{}".format(*sys.version_info)


def main():
    """Work with this Python if it will do, else hand over to another one; returns the exit status."""
    # Where a set-up was finished, nothing need be made; looking for venv would take longer than all the rest.
    if HERE in SUITABLE and (os.path.exists(STAMP) or has_venv()):
        import setup_venv

        return setup_venv.main()
    for name in OTHERS:
        if probe(name) in SUITABLE:
            os.execvp(name, [name] + sys.argv)
    sys.stderr.write("Set-up: " + reason() + "\n")
    return 1


def has_venv():
    """Whether this Python can make a virtual environment that has pip; Debian packages that apart."""
    try:
        __import__("venv")
        __import__("ensurepip")
    except ImportError:
        return False
    return True


def probe(name):
    """The version of another Python, or "" if it is missing or cannot make virtual environments."""
    try:
        process = subprocess.Popen([name, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError:
        return ""
    output = process.communicate()[0].decode("ascii", "replace").strip()
    return output if process.returncode == 0 else ""


def reason():
    """Why no Python will do, and what to install."""
    if HERE in SUITABLE:
        return (
            "Python {0} here lacks the module venv or ensurepip: install it (on Debian and Ubuntu: sudo apt install "
            "python{0}-venv) and call again."
        ).format(HERE)
    age = "old" if sys.version_info[:2] < (3, 11) else "new"
    return "Python {} is too {}, and no other was found: install Python {}, {} or {} and call again.".format(
        HERE, age, *SUITABLE
    )


if __name__ == "__main__":
    sys.exit(main())
