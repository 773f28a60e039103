"""Runs programs with limits on time and output size; all their descendants end with them."""

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

_BLOCK = 1 << 16
_SLICE_S = 0.1


class ProgramError(Exception):
    """A program did not end in time or wrote too much; the message is a clause to append to the program's name."""


class ProgramResult(Struct, frozen=True):
    """The result of a program: its exit code, negative for a signal, and its standard output."""

    code: int
    output: Foreign


def run_program(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    code: CodeAllowed | NoCode,
    seconds: float,
    most: int,
    folder: Path | None = None,
    given: BinaryIO | None = None,
) -> ProgramResult:
    """Run a program to its end; its error output is discarded, and its descendants end with it.

    Args:
        arguments: the program and its arguments; no shell is used.
        environ: the whole environment.
        code: the permission to start the program, as for `KillableProcess`.
        seconds: time limit.
        most: maximum bytes of output.
        folder: working directory; None to use the current one.
        given: file for the standard input, read from the beginning; None if there is no input.

    Raises:
        ProgramError: the program exceeded the time limit or the maximum output.
        OSError: the program cannot be started.
    """
    until = time.monotonic() + seconds
    reading, writing = os.pipe()
    try:
        try:
            stdin = DEVNULL if given is None else given.fileno()
            process = KillableProcess(arguments, environ, code=code, folder=folder, stdin=stdin, stdout=writing)
        finally:
            os.close(writing)
        try:
            output = _read_output(process, reading, until, most)
            status = None if output is None else process.wait(until - time.monotonic())
            if output is None or status is None:
                raise ProgramError(f"took longer than {seconds:g} s")
        finally:
            process.kill()
            process.reap()
    finally:
        os.close(reading)
    return ProgramResult(status, Foreign(output))


def _read_output(process: KillableProcess, reading: int, until: float, most: int) -> bytes | None:
    """Return the output of a process up to its end, or until it closes the output; None after the time limit."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    found = bytearray()
    while time.monotonic() < until:
        # Checked before the pipe is read: the output of an ended process is in the pipe.
        alive = process.alive
        if poll.poll(1000 * _SLICE_S if alive else 0):
            block = os.read(reading, _BLOCK)
            found += block
            if len(found) > most:
                raise ProgramError(f"wrote more than {most:,} bytes")
            alive = bool(block)
        if not alive:
            # A descendant may hold the pipe open.
            return bytes(found)
    return None
