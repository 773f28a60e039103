"""The process of the command line and of a step: memory while it lives, and its end."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import NoReturn

_YOUNG = 50_000
"""So many new objects before garbage is looked for."""


def collect_rarely() -> None:
    """Look for garbage less often than Python does: most objects of a run, its modules above all, stay to the end."""
    gc.set_threshold(_YOUNG, 20, 50)


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
