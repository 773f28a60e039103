"""The process in which Parquet tables are made and read; see `program` for what it is asked."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from holodeck_action.results.parquet.columns import specification
from holodeck_action.results.parquet.needed import NEEDED, is_installed
from holodeck_action.text.json_values import parse_json

MOST_BYTES = 256 * 1024 * 1024
"""Most bytes of a row group as lines of cases."""
SECONDS = 120.0
"""Longest time that an answer may take: each is about few cases."""
_HEAD = 4
_BLOCK = 1 << 20
# The caller's paths come last: what its own folder holds must not stand in the way of a package.
_START = "import sys; sys.path += sys.argv[1:]; from holodeck_action.results.parquet.program import main; main()"


class ProcessError(Exception):
    """Tables cannot be made or read; the message is a clause about them."""


class TableProcess:
    """A process that makes and reads tables, for several threads and records at once; it ends when nobody holds it."""

    def __init__(self) -> None:
        """Start it.

        Raises:
            ProcessError: pyarrow is not installed, or the process cannot be started.
        """
        if not is_installed():
            raise ProcessError(f"Parquet {NEEDED}")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *filter(os.path.isabs, sys.path)],
                # Where there is nothing of the checkout, and nothing that is secret.
                cwd="/",
                env={},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ProcessError(f"the process that reads Parquet cannot be started: {error.strerror}") from error
        weakref.finalize(self, _end, self._process)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._stdout, select.POLLIN)
        self._lock, self._keys = threading.RLock(), count()
        self._due: tuple[int, int] | None = None
        self._ahead: dict[tuple[int, int], bytes | ProcessError] = {}
        self._tell({"tables": specification(), "most": MOST_BYTES})

    @property
    def alive(self) -> bool:
        """Whether it still answers."""
        return self._process.poll() is None

    def add(self, lines: bytes) -> None:
        """Write lines of cases as the next row group.

        Raises:
            ProcessError: the process has ended.
        """
        with self._lock:
            self._tell({"add": True}, [len(lines)], [lines])

    def finish(self) -> tuple[list[int], list[bytes]]:
        """Return the rows and the content of each table of what was added.

        Raises:
            ProcessError: it cannot be written.
        """
        with self._lock:
            self._tell({"finish": True})
            head, contents = self._answer()
            return head["rows"], contents

    def open(self, sizes: Sequence[int], contents: Iterable[bytes]) -> tuple[int, list[int], list[int], list[str]]:
        """Open the tables of a part.

        Args:
            sizes: of their files.
            contents: these, in blocks, one file after the other.

        Returns:
            What to call the part, the cases of each row group, the rows of each table, and the ids of all cases.

        Raises:
            ProcessError: they are no such tables.
        """
        with self._lock:
            self._settle()
            key = next(self._keys)
            self._tell({"open": key}, sizes, contents)
            head, (ids,) = self._answer()
            return key, head["groups"], head["rows"], [parse_json(line) for line in ids.decode().split("\n") if line]

    def group(self, key: int, at: int) -> bytes:
        """Return a row group of a part as lines of cases.

        Raises:
            ProcessError: it cannot be read.
        """
        with self._lock:
            if (key, at) != self._due and (key, at) not in self._ahead:
                self.ask_ahead(key, at)
            self._settle()
            found = self._ahead.pop((key, at))
        if isinstance(found, ProcessError):
            raise found
        return found

    def ask_ahead(self, key: int, at: int) -> None:
        """Have a row group read, which is asked for next."""
        with self._lock:
            self._settle()
            try:
                self._tell({"group": key, "at": at})
                self._due = key, at
            except ProcessError as error:
                self._ahead[key, at] = error

    def close(self, key: int) -> None:
        """Forget a part."""
        with self._lock:
            self._settle()
            self._ahead = {place: lines for place, lines in self._ahead.items() if place[0] != key}
            self._tell({"close": key})

    def _settle(self) -> None:
        """Take the answer that is due: the process answers one question at a time."""
        if self._due is not None:
            place, self._due = self._due, None
            try:
                (self._ahead[place],) = self._answer()[1]
            except ProcessError as error:
                self._ahead[place] = error

    def _tell(self, head: Mapping[str, Any], sizes: Sequence[int] = (), payload: Iterable[bytes] = ()) -> None:
        encoded = json.dumps({**head, "sizes": [*sizes]}).encode()
        try:
            self._stdin.write(len(encoded).to_bytes(_HEAD, "big") + encoded)
            for block in payload:
                self._stdin.write(block)
            self._stdin.flush()
        except (OSError, ValueError) as error:
            raise self._ended() from error
        except BaseException:
            # A half-sent message must not be continued.
            self._process.kill()
            raise

    def _answer(self) -> tuple[dict[str, Any], list[bytes]]:
        until = time.monotonic() + SECONDS
        head = parse_json(self._read(int.from_bytes(self._read(_HEAD, until), "big"), until).decode())
        contents = [bytes(self._read(size, until)) for size in head["sizes"]]
        if "error" in head:
            raise ProcessError(head["error"])
        return head, contents

    def _read(self, size: int, until: float) -> bytearray:
        found = bytearray()
        while len(found) < size:
            if not self._poll.poll(1000 * max(0.0, until - time.monotonic())):
                self._process.kill()
                raise ProcessError(f"to read or write it takes longer than {SECONDS:g} s")
            block = os.read(self._stdout.fileno(), min(_BLOCK, size - len(found)))
            if not block:
                raise self._ended()
            found += block
        return found

    def _ended(self) -> ProcessError:
        self._process.kill()
        return ProcessError("it brought the process that reads and writes Parquet to its end")


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            # What it was still to be told is of no use any more.
            with suppress(OSError):
                stream.close()
    process.kill()
    process.wait()


_running: weakref.WeakValueDictionary[int, TableProcess] = weakref.WeakValueDictionary()


def reading_process() -> TableProcess:
    """Return the process that reads records: one for all that are open at the same time.

    Raises:
        ProcessError: it cannot be started.
    """
    # A fork has none yet.
    own = os.getpid()
    found = _running.get(own)
    if found is None or not found.alive:
        found = _running[own] = TableProcess()
    return found
