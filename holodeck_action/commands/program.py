"""The program as a process: its standard streams, memory, secrets and exit."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from holodeck_action.workers.environment import WITHHELD_VARIABLES, hide_variables


class _LastingFile(io.FileIO):
    """An output file that discards everything after the first failed write; `failure` is the error of that write."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write the data; after a failure, discard it."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


class LastingStream(io.TextIOWrapper):
    """A text stream on which writing never fails; characters that it cannot encode become escapes."""

    def __init__(self, descriptor: int, encoding: str, *, line_buffered: bool) -> None:
        """Create a stream for an open file descriptor, which it never closes; `line_buffered` flushes after every
        line."""
        self._file = _LastingFile(descriptor, "wb", closefd=False)
        super().__init__(
            io.BufferedWriter(self._file), encoding=encoding, errors="backslashreplace", line_buffering=line_buffered
        )

    @property
    def failure(self) -> OSError | None:
        """The error of the first failed write, as of the last flush; None if no write failed.

        A closed pipe is not a failure: its reader has stopped reading on purpose.
        """
        failure = self._file.failure
        return None if isinstance(failure, BrokenPipeError) else failure


def install_lasting_streams() -> tuple[LastingStream, LastingStream]:
    """Replace standard output and standard error by streams on which writing never fails, and return them.

    A stream that is closed is replaced by the null device.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # Takes the lowest free number, which is this one: no file of ours must become a standard stream.
            os.open(os.devnull, os.O_RDWR)
    encoding = getattr(sys.stdout or sys.stderr, "encoding", "utf-8")
    stdout = LastingStream(1, encoding, line_buffered=os.isatty(1))
    stderr = LastingStream(2, encoding, line_buffered=True)
    sys.stdout, sys.stderr = stdout, stderr
    return stdout, stderr


def disable_pydantic_plugins() -> None:
    """Keep pydantic from searching all installed packages for plugins, which this program does not use.

    The setting goes to `os.environ`, where pydantic reads it; processes that a run starts do not inherit it.
    """
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"


_GC_THRESHOLD = 200_000
"""Number of new objects that triggers a garbage collection."""


def collect_garbage_rarely() -> None:
    """Collect garbage less often than by default: most objects of a run, such as modules, exist until it ends."""
    gc.set_threshold(_GC_THRESHOLD, 20, 50)


def hide_tokens() -> str | None:
    """Overwrite the job's tokens in this process's environment, which other processes could read.

    Returns:
        A warning if they can still read the tokens; else None.
    """
    return hide_variables(WITHHELD_VARIABLES)


def current_folder() -> Path:
    """Return the current folder; the relative path `.` if it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


def exit_process(code: int) -> NoReturn:
    """End the process like `sys.exit`, with exit handlers but without tearing down modules.

    Teardown would take a sixth of a short run. Python's development mode keeps it, so that it reports open resources.
    """
    if sys.flags.dev_mode:
        sys.exit(code)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
