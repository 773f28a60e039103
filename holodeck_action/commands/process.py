"""The process of the command line and of a step: memory while it lives, and its end."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

from holodeck_action.workers.environment import WITHHELD

_YOUNG = 50_000
"""So many new objects before garbage is looked for."""


def collect_rarely() -> None:
    """Look for garbage less often than Python does: most objects of a run, its modules above all, stay to the end."""
    gc.set_threshold(_YOUNG, 20, 50)


def hide_tokens() -> str | None:
    """Overwrite what carries the job's authority in the variables that the system shows of this process.

    `/proc/PID/environ` is the memory in which the process got its variables, and every process of the same user can
    read it: code of a suite, too. `os.environ` is a copy and keeps them.

    Returns:
        A sentence where they can still be read; None where not.
    """
    given = [name for name in WITHHELD if os.environ.get(name)]
    if not given:
        return None
    failed = "variables with the job's tokens could not be hidden from code of the suite"
    try:
        # Only where there is something to hide.
        import ctypes

        entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
        names = {os.fsencode(name) for name in given}
        index = 0
        while address := entries[index]:
            name, _, value = ctypes.string_at(address).partition(b"=")
            if name in names:
                ctypes.memset(address + len(name) + 1, 0, len(value))
            index += 1
        left = _shown_variables() & {os.fsencode(f"{name}={os.environ[name]}") for name in given}
    except (ImportError, OSError, ValueError, AttributeError) as error:
        return f"{failed}: {error}"
    return failed if left else None


def _shown_variables() -> set[bytes]:
    """Return the variables that the system shows of this process; none where it shows no process."""
    shown = Path("/proc/self/environ")
    return set(shown.read_bytes().split(b"\0")) if shown.exists() else set()


def current_folder() -> Path:
    """Return the folder in which the process is; a relative path to it where it has been removed meanwhile."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


def leave(code: int) -> NoReturn:
    """End the process as `sys.exit` does, exit handlers included, but without taking every module apart.

    That would take a sixth of a short run. In Python's development mode, which tells what was left open, it is done.
    """
    if sys.flags.dev_mode:
        sys.exit(code)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
