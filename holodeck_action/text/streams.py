"""Standard streams that cannot end a run: what nobody reads or no disk takes is dropped, and remembered."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


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
