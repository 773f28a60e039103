"""The program as a process: its standard streams, memory, and its end."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from holodeck_action.workers.environment import WITHHELD, hide_variables

if TYPE_CHECKING:
    pass


class _LastingFile(io.FileIO):
    """A file descriptor whose first failed write is its last; `failure` says why."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, or pretend to."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


class LastingStream(io.TextIOWrapper):
    """A text stream on which writing never fails; characters it cannot show become escapes."""

    def __init__(self, descriptor: int, encoding: str, *, by_line: bool) -> None:
        """Write to an open file descriptor, which stays open; `by_line` flushes after every line."""
        self._file = _LastingFile(descriptor, "wb", closefd=False)
        super().__init__(
            io.BufferedWriter(self._file), encoding=encoding, errors="backslashreplace", line_buffering=by_line
        )

    @property
    def failure(self) -> OSError | None:
        """Why something written before the last flush was lost; None when nothing was.

        A reader who went away has seen what they wanted: that is no failure.
        """
        failure = self._file.failure
        return None if isinstance(failure, BrokenPipeError) else failure


def lasting_streams() -> tuple[LastingStream, LastingStream]:
    """Replace standard output and standard error, closed ones by the null device, and return them."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # Takes the lowest free number, which is this one: no file of ours must become a standard stream.
            os.open(os.devnull, os.O_RDWR)
    encoding = getattr(sys.stdout or sys.stderr, "encoding", "utf-8")
    stdout = LastingStream(1, encoding, by_line=os.isatty(1))
    stderr = LastingStream(2, encoding, by_line=True)
    sys.stdout, sys.stderr = stdout, stderr
    return stdout, stderr


def look_for_no_plugins() -> None:
    """Keep pydantic from looking through all installed packages for plugins, of which none is of use here.

    `os.environ` is what it reads; processes that a run starts get the variables that were given to it.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"


_YOUNG = 200_000
"""So many new objects before garbage is looked for."""


def collect_rarely() -> None:
    """Look for garbage less often than Python does: most objects of a run, its modules above all, stay to the end."""
    gc.set_threshold(_YOUNG, 20, 50)


def hide_tokens() -> str | None:
    """Overwrite what carries the job's authority in the variables that the system shows of this process.

    Returns:
        A sentence where they can still be read; None where not.
    """
    return hide_variables(WITHHELD)


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
