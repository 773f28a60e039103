"""A program that turns cases into Parquet tables and back; see `process`, which starts it.

A process of its own keeps the memory of pyarrow out of the caller's, works beside it, and can be killed: tables of an
artifact may be made to unpack to anything. It sees no file, no setting and no secret: bytes come in, bytes go out.

Messages, either way, are four bytes with the length of a head, the head (a JSON object) and so many bytes as its
`sizes` say together. The first one brings the tables, as `columns.specification` gives them.

    {"add"}              lines of cases: the next row group. No answer.
    {"finish"}           the tables of what was added, and the rows of each.
    {"open": KEY}        the tables of a part. The cases of each row group, the rows of each table, and all case ids.
    {"group": KEY, "at"} one row group, as lines of cases.
    {"close": KEY}       no answer.

An answer with `error` says in a clause what is wrong.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from json.encoder import encode_basestring
from typing import BinaryIO

import pyarrow

from holodeck_action.results.parquet.decoding import Reading
from holodeck_action.results.parquet.encoding import Writing
from holodeck_action.results.parquet.tables import Spec, TableError
from holodeck_action.text.json_values import parse_json

MEMORY_BYTES = 3 << 30
"""Most bytes of memory of its own."""
HEAD = 4
"""Bytes of the length of a head."""


class _Program:
    def __init__(self, first: Spec) -> None:
        self._tables, self._most = first["tables"], first["most"]
        self._open: dict[int, Reading] = {}
        self._writing: Writing | None = None
        self._failed: TableError | None = None

    def answer(self, asked: Spec, payload: Sequence[bytes]) -> tuple[Spec, Sequence[bytes]] | None:
        """Do what is asked for.

        Raises:
            TableError: it cannot be done.
        """
        match asked:
            case {"add": _}:
                self._add(payload[0])
                return None
            case {"finish": _}:
                return self._finish()
            case {"open": key}:
                part = self._open[key] = Reading(self._tables, payload, self._most)
                ids = "\n".join(map(encode_basestring, part.ids()))
                return {"groups": part.groups, "rows": part.rows}, [ids.encode()]
            case {"group": key, "at": at}:
                return {}, [self._open[key].group(at)]
            case {"close": key}:
                self._open.pop(key, None)
        return None

    def _add(self, lines: bytes) -> None:
        # What went wrong is told when it is asked for.
        if self._failed is None:
            try:
                self._writing = self._writing or Writing(self._tables)
                self._writing.add(lines)
            except TableError as error:
                self._failed = error

    def _finish(self) -> tuple[Spec, Sequence[bytes]]:
        writing, failed = self._writing, self._failed
        self._writing = self._failed = None
        if failed is not None:
            raise failed
        assert writing is not None
        rows, contents = writing.finish()
        return {"rows": rows}, contents


def _receive(stream: BinaryIO) -> tuple[Spec, list[bytes]] | None:
    length = stream.read(HEAD)
    if len(length) < HEAD:
        return None
    head = parse_json(stream.read(int.from_bytes(length, "big")).decode())
    return head, [stream.read(size) for size in head.get("sizes", ())]


def _send(stream: BinaryIO, head: Spec, payload: Sequence[bytes]) -> None:
    encoded = json.dumps({**head, "sizes": [*map(len, payload)]}).encode()
    stream.writelines([len(encoded).to_bytes(HEAD, "big"), encoded, *payload])
    stream.flush()


def main() -> None:
    """Answer until the input ends."""
    # Some systems know no such limit.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    # It gives back what it does not need; others keep it for later.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    # One thread: the others would wait for each other, and take memory.
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    # Values of JSON hold no cycles.
    gc.disable()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    first = _receive(stdin)
    if first is None:
        return
    program = _Program(first[0])
    for head, payload in iter(lambda: _receive(stdin), None):
        try:
            answer = program.answer(head, payload)
        except TableError as error:
            answer = {"error": str(error)}, ()
        except MemoryError:
            answer = {"error": f"unpacks to more than {MEMORY_BYTES:,} bytes"}, ()
        if answer is not None:
            _send(stdout, *answer)


if __name__ == "__main__":
    main()
