"""Programs that are run to their end: what they write is bounded and foreign, and nothing of them is left behind."""

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
    """A program did not end in time, or wrote too much; the message is a clause that goes on from its name."""


class Ended(Struct, frozen=True):
    """An ended program: its exit code, negative for a signal, and what it wrote to its standard output."""

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
) -> Ended:
    """Run a program; its error output is dropped, and its descendants end with it.

    Args:
        arguments: program and arguments; no shell is involved.
        environ: the whole environment.
        code: the permission to start it, as for `KillableProcess`.
        seconds: longest time that it may take.
        most: bytes of output.
        folder: working directory; None for the current one.
        given: a file as its standard input, from its beginning; None for none.

    Raises:
        ProgramError: it took longer, or wrote more.
        OSError: it cannot be started.
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
            output = _output(process, reading, until, most)
            status = None if output is None else process.wait(until - time.monotonic())
            if output is None or status is None:
                raise ProgramError(f"took longer than {seconds:g} s")
        finally:
            process.kill()
            process.reap()
    finally:
        os.close(reading)
    return Ended(status, Foreign(output))


def _output(process: KillableProcess, reading: int, until: float, most: int) -> bytes | None:
    """Return what a process writes until it ends, or closes its output; None if it does neither in time."""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    found = bytearray()
    while time.monotonic() < until:
        # Asked before the pipe is: what an ended process wrote is in it.
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
