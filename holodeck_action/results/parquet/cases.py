"""The cases of a record in Parquet, checked as a whole and read by row groups."""

from __future__ import annotations

import hashlib
import os
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import BinaryIO

from msgspec import Struct, field
from msgspec.structs import replace

from holodeck_action.results.canonical import IdsHash
from holodeck_action.results.parquet.columns import TABLES
from holodeck_action.results.parquet.manifest import AGAIN, Part, RecordFolder, TableFile, file_names, read_manifest
from holodeck_action.results.parquet.process import ProcessError, TableProcess, reading_process
from holodeck_action.results.record import CaseRecord, Chosen, Record
from holodeck_action.results.stored_cases import LazyCases, RecordError, parsed_case

_BLOCK = 1 << 20
_KEPT = 2
"""Row groups and parts of a record that are kept: pages go back and forth between neighbours."""


def read_parquet(path: os.PathLike[str]) -> tuple[Record, str, str | None]:
    """Read a record, and check that it is whole.

    Args:
        path: its folder.

    Returns:
        The record, the digest of its manifest and that of the canonical record (None: it does not tell).

    Raises:
        RecordError: naming the file that is missing, damaged or of another record.
    """
    folder = RecordFolder(path)
    record, parts, digest, record_digest = read_manifest(folder)
    folder.check_names(len(parts))
    cases = ParquetCases(folder, parts)
    if record.chosen is None:
        raise RecordError(f"{folder}: is not whole: it does not say which cases were chosen; {AGAIN}")
    if len(cases) != record.chosen.cases:
        held = f"it holds {len(cases)} of the {record.chosen.cases} cases that were chosen"
        raise RecordError(f"{folder}: is not whole: {held}; {AGAIN}")
    if cases.check() != record.chosen:
        raise RecordError(f"{folder}: is not whole: its cases are not those that were chosen; {AGAIN}")
    return replace(record, cases=cases), digest, record_digest


class _Open(Struct):
    """A part that is being read: its name to the process, the first case of each row group, and how large these are."""

    key: int
    starts: array[int]
    sizes: dict[int, int] = field(default_factory=dict)


class ParquetCases(LazyCases):
    """The cases of a record in Parquet, whose row groups are read as a whole."""

    def __init__(self, folder: RecordFolder, parts: Sequence[Part]) -> None:
        """Take what a manifest tells; nothing is read yet."""
        self._folder, self._parts = folder, parts
        self._starts = array("Q", [0])
        for part in parts:
            self._starts.append(self._starts[-1] + part.cases.rows)
        self._process: TableProcess | None = None
        self._open: OrderedDict[int, _Open] = OrderedDict()
        self._kept: OrderedDict[tuple[int, int], list[bytes]] = OrderedDict()
        super().__init__(self._starts[-1])

    def made(self, place: int) -> CaseRecord:
        """Read the case.

        Raises:
            RecordError: it is no case, or its part was changed.
        """
        number = bisect_right(self._starts, place) - 1
        within = place - self._starts[number]
        part = self._part(number)
        group = bisect_right(part.starts, within) - 1
        lines = self._group(number, part, group)
        return parsed_case(lines[within - part.starts[group]], self._folder.named(file_names(number)[0]))

    def check(self) -> Chosen:
        """Check all parts, and return what the ids of their cases come to.

        Raises:
            RecordError: a part is not as the manifest has it, or two cases have the same id.
        """
        ids, seen = IdsHash(), set()
        for number in range(len(self._parts)):
            opened, found = self._opened(number)
            self._reading(number).close(opened.key)
            for case_id in found:
                ids.add(case_id)
                seen.add(case_id)
        if len(seen) < len(self):
            raise RecordError(f"{self._folder}: not a record: two of its cases have the same id")
        return ids.chosen

    def _part(self, number: int) -> _Open:
        found = self._open.get(number)
        if found is None:
            while len(self._open) >= _KEPT:
                _, oldest = self._open.popitem(last=False)
                self._reading(number).close(oldest.key)
            found = self._open[number] = self._opened(number)[0]
        return found

    def _group(self, number: int, part: _Open, group: int) -> list[bytes]:
        found = self._kept.get((number, group))
        if found is not None:
            return found
        while len(self._kept) >= _KEPT:
            self._kept.popitem(last=False)
        with self._named(number):
            process = self._reading(number)
            content = process.group(part.key, group)
            if group + 2 < len(part.starts):
                process.ask_ahead(part.key, group + 1)
            part.sizes[group] = len(content)
            # JSON of other programs may be shorter by its empty fields.
            if sum(part.sizes.values()) > 2 * self._parts[number].json_bytes + _BLOCK:
                raise ProcessError("they hold more than the manifest tells")
            lines = content.split(b"\n") if content else []
            if len(lines) != part.starts[group + 1] - part.starts[group]:
                raise ProcessError("a row group has more or fewer cases than it tells")
        self._kept[number, group] = lines
        return lines

    def _opened(self, number: int) -> tuple[_Open, list[str]]:
        """Open a part, and return it with the ids of its cases.

        Raises:
            RecordError: it is not as the manifest has it.
        """
        told = self._parts[number].files
        names = file_names(number)
        with ExitStack() as files:
            opened = [files.enter_context(self._folder.open(name)) for name in names]
            for name, file, known in zip(names, opened, told, strict=True):
                if os.fstat(file.fileno()).st_size != known.bytes:
                    raise self._changed(name)
            hashes = [hashlib.sha256() for _ in told]
            with self._named(number):
                blocks = _blocks(opened, told, hashes)
                key, groups, rows, ids = self._reading(number).open([file.bytes for file in told], blocks)
        for name, known, hashed in zip(names, told, hashes, strict=True):
            if hashed.hexdigest() != known.sha256:
                raise self._changed(name)
        for name, known, count in zip(names, told, rows, strict=True):
            if count != known.rows:
                raise RecordError(
                    f"{self._folder.named(name)}: is not whole: it has {count} of {known.rows} rows; {AGAIN}"
                )
        starts = array("Q", [0])
        for cases in groups:
            starts.append(starts[-1] + cases)
        return _Open(key, starts), ids

    def _changed(self, name: str) -> RecordError:
        return RecordError(
            f"{self._folder.named(name)}: is not that of the manifest: it was edited, exchanged or cut short; {AGAIN}"
        )

    def _reading(self, number: int) -> TableProcess:
        if self._process is None:
            with self._named(number):
                self._process = reading_process()
        return self._process

    @contextmanager
    def _named(self, number: int) -> Iterator[None]:
        """Name the file that something is wrong with."""
        try:
            yield
        except ProcessError as error:
            table, _, clause = str(error).partition(": ")
            name = dict(zip(TABLES, file_names(number), strict=True)).get(table)
            if name is None:
                raise RecordError(f"{self._folder}, part {number}: {error}") from error
            raise RecordError(f"{self._folder.named(name)}: {clause}; {AGAIN}") from error


def _blocks(files: Sequence[BinaryIO], told: Sequence[TableFile], hashes: Sequence[hashlib._Hash]) -> Iterator[bytes]:
    """Yield as many bytes of each file as its manifest tells, and hash them."""
    for file, known, hashed in zip(files, told, hashes, strict=True):
        left = known.bytes
        while left:
            # One that was cut in this moment has another hash.
            block = file.read(min(_BLOCK, left)) or bytes(min(_BLOCK, left))
            hashed.update(block)
            left -= len(block)
            yield block
