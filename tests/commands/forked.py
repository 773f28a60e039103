"""Starts of our program without the time that its imports take: processes forked from one in which it is imported.

What makes a process is real: its id, signals, streams, variables, folder and exit code. What an interpreter does at its
start is not repeated; a test of that starts one itself.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Self

AT_START = ("PYTHON", "LC_", "LANG")
"""How the names of variables begin that an interpreter reads once, at its start."""
SERVER = Path(__file__).with_name("fork_server.py")
CPU_SECONDS = [0.0]
"""The CPU time of all programs that have ended here, which the times of this process's children lack."""


class Forked:
    """A running program, with what tests use of `subprocess.Popen`; its streams are text in UTF-8."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environ: Mapping[str, str],
        *,
        newline: str | None = None,
        imported: tuple[str, ...] = (),
    ) -> None:
        """Run what `python ARGUMENTS` would run, with no input.

        Args:
            arguments: a script, or `-m` and a module, and its arguments.
            folder: where it runs.
            environ: all its variables.
            newline: that of `open`, for its two streams.
            imported: modules that need not be imported, instead of the program.
        """
        assert not needs_interpreter(environ), "this takes effect at the start of an interpreter"
        # As the stubs of `Popen` have it: None while it runs.
        self.returncode: int | Any = None
        self._connection, connection = socket.socketpair()
        self._file = self._connection.makefile("rw")
        (out, output), (err, errors), empty = os.pipe(), os.pipe(), os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(_server(imported), [b"."], [connection.fileno(), empty, output, errors])
        connection.close()
        for descriptor in (empty, output, errors):
            os.close(descriptor)
        self.stdout, self.stderr = (
            io.TextIOWrapper(os.fdopen(pipe, "rb"), "utf-8", "surrogateescape", newline) for pipe in (out, err)
        )
        start = {"arguments": [*arguments], "environ": {**environ}, "folder": str(folder)}
        print(json.dumps(start), file=self._file, flush=True)
        self.pid = int(self._file.readline())
        self._read: dict[IO[str], str] = {}
        self._readers = [
            threading.Thread(target=self._read_stream, args=(stream,), daemon=True)
            for stream in (self.stdout, self.stderr)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int(self._file.readline())
            print(file=self._file, flush=True)
            CPU_SECONDS[0] += float(self._file.readline())
            self._file.close()
            self._connection.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, which closes its streams, and return the rest of them."""
        for reader in self._readers:
            if reader.ident is None:
                reader.start()
        for reader in self._readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        self.wait(timeout)
        return self._read[self.stdout], self._read[self.stderr]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read_stream(self, stream: IO[str]) -> None:
        with stream:
            self._read[stream] = stream.read()


def needs_interpreter(environ: Mapping[str, str]) -> bool:
    """Whether variables of an interpreter's start are not those of this process, so that it must start again."""
    return any(value != os.environ.get(name) for name, value in environ.items() if name.startswith(AT_START))


def to_bytes(text: str) -> bytes:
    """Return the bytes of a stream's text."""
    return text.encode("utf-8", "surrogateescape")


@cache
def _server(imported: tuple[str, ...]) -> socket.socket:
    """Return the connection to a server of this process, which ends with it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, SERVER, str(theirs.fileno()), *imported], pass_fds=[theirs.fileno()]
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    assert ours.recv(1), "the server of forked programs did not start"
    return ours
