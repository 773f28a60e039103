"""Runs programs with limits on time and output size, and kills all processes that they leave behind."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL
from typing import BinaryIO

from msgspec import Struct

from holodeck_action.text.foreign import Foreign
from holodeck_action.workers.permission import CodeAllowed, NoCode
from holodeck_action.workers.processes import KillableProcess

_BLOCK_BYTES = 1 << 16
_POLL_S = 0.1


class ProgramError(Exception):
    """A program exceeded its time or output limit. The message is a clause to append to the program's name."""


class ProgramResult(Struct, frozen=True):
    """The exit code of a program (negative if a signal ended it), and its standard output."""

    code: int
    output: Foreign


def run_program(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    code: CodeAllowed | NoCode,
    timeout_s: float,
    max_bytes: int,
    folder: Path | None = None,
    input_file: BinaryIO | None = None,
) -> ProgramResult:
    """Run a program to its end. Its error output is discarded, and processes that it leaves behind are killed.

    Args:
        arguments: the program and its arguments; no shell is used.
        environ: the whole environment.
        code: the permission to start the program, as for `KillableProcess`.
        timeout_s: time limit in seconds.
        max_bytes: maximum bytes of output.
        folder: working directory; None to use the current one.
        input_file: file for the standard input, read from the beginning; None if there is no input.

    Raises:
        ProgramError: the program exceeded the time limit or the maximum output.
        OSError: the program cannot be started.
    """
    until = time.monotonic() + timeout_s
    reading, writing = os.pipe()
    try:
        try:
            stdin = DEVNULL if input_file is None else input_file.fileno()
            process = KillableProcess(arguments, environ, code=code, folder=folder, stdin=stdin, stdout=writing)
        finally:
            os.close(writing)
        try:
            output = _read_output(process, reading, until, max_bytes)
            status = None if output is None else process.wait(until - time.monotonic())
            if output is None or status is None:
                raise ProgramError(f"took longer than {timeout_s:g} s")
        finally:
            process.kill()
            process.reap()
    finally:
        os.close(reading)
    return ProgramResult(status, Foreign(output))


def _read_output(process: KillableProcess, reading: int, deadline: float, max_bytes: int) -> bytes | None:
    """Return the output of a process until it ends or closes the pipe; None if that exceeds the time limit.

    Args:
        reading: file descriptor of the pipe to which the process writes.
        deadline: end of the time limit, in seconds of the monotonic clock.
    """
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    found = bytearray()
    while time.monotonic() < deadline:
        # Checked before the pipe is read: the output of an ended process is in the pipe.
        alive = process.is_alive
        if poll.poll(1000 * _POLL_S if alive else 0):
            block = os.read(reading, _BLOCK_BYTES)
            found += block
            if len(found) > max_bytes:
                raise ProgramError(f"wrote more than {max_bytes:,} bytes")
            alive = bool(block)
        if not alive:
            # A descendant may hold the pipe open.
            return bytes(found)
    return None
