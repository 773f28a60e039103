"""Knows which mutant is on in this process; stands in a copy of the checkout, inside the changed package.

Child processes inherit an environment variable. A process whose environment is chosen by its parent finds the file of
its nearest ancestor that turned a mutant on.
"""

from __future__ import annotations

import os
from contextlib import suppress

VARIABLE = "PYTHON_MUTANT"
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_mutant_of_process")
_RECORD = "record:"
_seen: set[tuple[int, str]] = set()
_active = 0
_recorded_in = ""
_test = ""


def is_on(number: int) -> bool:
    """Whether a mutant is on; while recording, none is, and the running test is written down."""
    if _recorded_in:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0] or _test
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


def turn(setting: str, test: str = "") -> None:
    """Turn a mutant on, here and in new child processes.

    Args:
        setting: the mutant's number; `record:` and a file; or an empty text for none.
        test: the test for which child processes are started.
    """
    os.environ[VARIABLE] = setting
    os.makedirs(_FOLDER, exist_ok=True)
    with open(_file_of(os.getpid()), "w", encoding="utf-8") as file:
        file.write(f"{setting}\n{test}")
    _apply(setting)


def forget(process: int) -> None:
    """Remove the file of an ended process."""
    with suppress(FileNotFoundError):
        os.unlink(_file_of(process))


def _apply(setting: str) -> None:
    global _active, _recorded_in
    _recorded_in = setting.removeprefix(_RECORD) if setting.startswith(_RECORD) else ""
    _active = 0 if _recorded_in else int(setting or 0)


def _file_of(process: int) -> str:
    return os.path.join(_FOLDER, str(process))


def _find_inherited() -> tuple[str, str]:
    """Return the setting and the test of the nearest ancestor; empty texts if there is none."""
    process = os.getppid()
    with suppress(OSError, ValueError, IndexError):
        while process > 1:
            if os.path.exists(_file_of(process)):
                with open(_file_of(process), encoding="utf-8") as file:
                    setting, _, test = file.read().partition("\n")
                return setting, test
            with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
                process = int(file.read().rpartition(")")[2].split()[1])
    return "", ""


def _start() -> None:
    global _test
    has_all = VARIABLE in os.environ and "PYTEST_CURRENT_TEST" in os.environ
    inherited, _test = ("", "") if has_all else _find_inherited()
    _apply(os.environ.get(VARIABLE, inherited))


_start()
