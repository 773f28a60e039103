"""Knows which mutant is on in this process; stands in a copy of the checkout, inside the changed package.

Child processes inherit the environment variable. Its name begins with PYTHON, since programs whose environment is
chosen keep those.
"""

from __future__ import annotations

import os
from contextlib import suppress

VARIABLE = "PYTHON_MUTANT"
_RECORD = "record:"
_seen: set[tuple[int, str]] = set()
_active = 0
_recorded_in = ""


def is_on(number: int) -> bool:
    """Whether a mutant is on; while recording, none is, and the running test is written down."""
    if _recorded_in:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        if test and (number, test) not in _seen:
            _seen.add((number, test))
            # A test may allow its processes no file of this size.
            with suppress(OSError):
                append(_recorded_in, f"{number}\t{test}")
    return number == _active


def append(file: str, line: str) -> None:
    """Append a line to a file in one call, so that lines of several processes do not mix."""
    opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(opened, f"{line}\n".encode())
    finally:
        os.close(opened)


def turn(setting: str) -> None:
    """Turn a mutant on, here and in new child processes: its number, or `record:` and a file."""
    global _active, _recorded_in
    os.environ[VARIABLE] = setting
    _recorded_in = setting.removeprefix(_RECORD) if setting.startswith(_RECORD) else ""
    _active = int(setting or 0) if not _recorded_in else 0


turn(os.environ.get(VARIABLE, ""))
