"""Names as students and file systems make them: which can be used, and how to show them."""

from __future__ import annotations

_LONGEST = 100  # nbgrader's database takes 128 characters, a file system 255 bytes with a suffix
_PATTERNS = "*?[]"  # nbgrader takes names for file patterns
_SEPARATORS = "/\\"


def acceptable_student(name: str) -> str:
    """Empty if a student can be graded under this name, else one sentence that says why not and what to do.

    Spaces inside, quotes, round brackets, plus and letters of any script work.
    """
    where = f"The student's name '{shown(name)}'"
    rename = "rename the folder below submitted/"
    if not name.strip():
        return f"A student's name is empty: {rename}."
    if name != name.strip():
        return f"{where} begins or ends with a space, which nbgrader cuts off: {rename}."
    if name.startswith("."):
        return f"{where} begins with a dot, as hidden folders do: {rename}."
    if bad := next((letter for letter in name if not letter.isprintable()), None):
        return f"{where} holds a character that cannot be shown (U+{ord(bad):04X}): {rename}."
    if bad := next((letter for letter in name if letter in _PATTERNS), None):
        return f"{where} holds '{bad}', which nbgrader takes for a file pattern: {rename}."
    if bad := next((letter for letter in name if letter in _SEPARATORS), None):
        return f"{where} holds '{bad}', which separates folders: {rename}."
    if len(name) > _LONGEST or len(name.encode()) > 2 * _LONGEST:
        return f"{where} has {len(name)} characters; at most {_LONGEST} fit: {rename}."
    return ""


def shown(name: str, longest: int = 60) -> str:
    """A name as it can stand in a sentence: on one line, cut, and without characters that cannot be shown."""
    plain = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def size(count: int) -> str:
    """A number of bytes, for people."""
    for unit, step in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} bytes"
