"""The cases of a large results file, read one by one; only their positions are in memory."""

from __future__ import annotations

import hashlib
import os
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

from msgspec import ValidationError
from msgspec.structs import replace

from holodeck_action.record.canonical import IdsHash
from holodeck_action.record.record import SCHEMA_VERSION, CaseRecord, Record
from holodeck_action.record.sequences import LazySequence
from holodeck_action.record.serialization import JSON_ERRORS, decode_problem, from_json, to_json
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

INDEXED_FROM = 16 * 1024 * 1024
"""Size in bytes from which a file is not read as a whole."""
_BLOCK = 1 << 20
LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9
"""Minimum and maximum of a case's weight, so that all sums of weights are finite."""

_START = b'{\n "schema_version": %d,\n' % SCHEMA_VERSION
_CASES = b' "cases": [\n'
_LAST_CASE = b" ]"
_ID = lazy_pattern(rb'\{"id":("(?:[^"\\]|\\.)*"),')
_RECORD_DIGEST = lazy_pattern(rb' "record_digest": "([0-9a-f]{64})"')
_DIGEST = lazy_pattern(rb' "digest": "([0-9a-f]{64})"\n')


class RecordError(ConfigurationError):
    """A results file cannot be used; the message is one sentence with the name of the file and a remedy."""

    def __init__(self, message: str) -> None:
        super().__init__([message])


class LazyCases(LazySequence[CaseRecord]):
    """Cases that are read on demand."""

    def line(self, index: int) -> bytes:
        """Return the case at an index as JSON, as in a results file."""
        return to_json(self[index])

    def id(self, index: int) -> str:
        """Return the id of the case at an index."""
        return self[index].id


def case_ids(cases: Sequence[CaseRecord]) -> Iterator[str]:
    """Yield the ids of cases, in order."""
    return (case_id(cases, index) for index in range(len(cases)))


def case_id(cases: Sequence[CaseRecord], index: int) -> str:
    """Return the id of the case at an index, without parsing the rest of a stored case."""
    return cases.id(index) if isinstance(cases, LazyCases) else cases[index].id


def case_line(cases: Sequence[CaseRecord], index: int) -> bytes:
    """Return the case at an index as JSON, as in a results file."""
    return cases.line(index) if isinstance(cases, LazyCases) else to_json(cases[index])


class MappedCases(LazyCases):
    """A sequence that applies a function to each case of another sequence when the case is read."""

    def __init__(self, cases: Sequence[CaseRecord], change: Callable[[CaseRecord], CaseRecord]) -> None:
        super().__init__(len(cases), lambda index: change(cases[index]))


def case_lines(cases: Sequence[CaseRecord]) -> Iterator[bytes]:
    """Yield each case as JSON, as in a results file."""
    return (case_line(cases, index) for index in range(len(cases)))


class StoredFile:
    """An open file that can be read even after it is closed, replaced or deleted elsewhere."""

    def __init__(self, file: BinaryIO) -> None:
        """Duplicate the descriptor of an open file."""
        self._handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._handle)

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`, fewer at the end of the file."""
        return os.pread(self._handle, length, start)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the file block by block."""
        start = 0
        while block := self.read(start, _BLOCK):
            start += len(block)
            yield block


class StoredCases(LazyCases):
    """The cases of a results file."""

    def __init__(self, file: StoredFile, starts: array[int], lengths: array[int], name: str) -> None:
        """Set the file and the positions of its cases.

        Args:
            file: the file.
            starts: offset of each case in bytes.
            lengths: length of each case in bytes.
            name: the file's name in messages.
        """
        super().__init__(len(starts))
        self.file = file
        self._starts, self._lengths, self._name = starts, lengths, name

    def line(self, index: int) -> bytes:
        """Return the case at an index as it is written in the file."""
        return self.file.read(self._starts[index], self._lengths[index])

    def id(self, index: int) -> str:
        """Return the id of the case at an index, without parsing the rest of the case."""
        found = _ID.match(self.line(index))
        return self[index].id if found is None else str(parse_json(found[1].decode()))

    def make(self, index: int) -> CaseRecord:
        """Parse the case. Raises: RecordError: it is not a case."""
        return parse_case(self.line(index), self._name)


def parse_case(line: bytes, name: str) -> CaseRecord:
    """Parse a case of a results file.

    Args:
        line: the case as JSON.
        name: the file's name in messages.

    Raises:
        RecordError: the line is not a case.
    """
    try:
        case = from_json(line, CaseRecord)
    except ValidationError as error:
        raise RecordError(f"{name}: not a results file: cases: {decode_problem(error)}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{name}: not a results file: {error}") from error
    check_weight(case, name)
    return case


def check_weight(case: CaseRecord, name: str) -> None:
    """Check that a case's weight is neither too small nor too large to be added to other weights.

    Raises:
        RecordError: the weight is out of range; the message names the file.
    """
    if not LEAST_WEIGHT <= case.weight <= MOST_WEIGHT:
        raise RecordError(f"{name}: not a results file: the weight of a case is {case.weight:g}")


def index_cases(file: BinaryIO, name: str) -> tuple[Record, str, str | None] | None:
    """Index the cases of a results file in the layout of this version, and check that it is complete.

    Args:
        file: the file, opened for reading and positioned at its beginning.
        name: the file's name in messages.

    Returns:
        The record, the digest of the file, and the digest of the canonical record, which is None if the file lacks it.
        None if the file has another layout or is incomplete; `parse_results` must then read it.
    """
    hashed, lines = hashlib.sha256(), iter(file)
    head = _read_head(lines)
    if head is None:
        return None
    hashed.update(head)
    starts, lengths, offset = array("Q"), array("L"), len(head)
    ids, seen = IdsHash(), set()
    for line in lines:
        if line.startswith(_LAST_CASE):
            break
        found = _ID.match(line)
        if found is None:
            return None
        try:
            case_id = parse_json(found[1].decode()) if b"\\" in found[1] else found[1][1:-1].decode()
        except ValueError:
            return None
        ids.add(case_id)
        seen.add(case_id)
        starts.append(offset)
        lengths.append(len(line) - (2 if line.endswith(b",\n") else 1))
        offset += len(line)
        hashed.update(line)
    else:
        return None
    ending = _read_ending([line, *_next_four(lines)], hashed)
    try:
        record = from_json(head + b"]}", Record)
    except JSON_ERRORS:
        return None
    if ending is None or len(seen) < len(starts) or record.chosen != ids.selected_cases:
        return None
    cases = StoredCases(StoredFile(file), starts, lengths, name)
    return replace(record, cases=cases), *ending


def _read_head(lines: Iterable[bytes]) -> bytes | None:
    """Return the bytes before the cases; None if the file does not have the layout of this version."""
    gathered: list[bytes] = []
    for line in lines:
        gathered.append(line)
        if len(gathered) == 2 and b"".join(gathered) != _START:
            return None
        if line == _CASES:
            return b"".join(gathered)
    return None


def _next_four(lines: Iterator[bytes]) -> list[bytes]:
    return [line for _, line in zip(range(4), lines, strict=False)]


def _read_ending(last_lines: list[bytes], hashed: hashlib._Hash) -> tuple[str, str | None] | None:
    """Return the digests at the end of a file; None if they are missing or wrong."""
    if len(last_lines) < 3 or last_lines[-1] != b"}\n":
        return None
    digest = _DIGEST.fullmatch(last_lines[-2])
    sealed = b"".join(last_lines[:-2])
    if digest is None or not sealed.endswith(b",\n"):
        return None
    hashed.update(sealed[:-2])
    if hashed.hexdigest() != digest[1].decode():
        return None
    known = _RECORD_DIGEST.search(sealed)
    return digest[1].decode(), None if known is None else known[1].decode()
