"""Reads the spans of trace files: OTLP as JSON lines or Protocol Buffers, and exports of Phoenix and Langfuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO

from msgspec import Struct

from holodeck_action.extensions.frameworks.spans.otlp import JSON, MOST_BODY, PROTOBUF, Export, read_export
from holodeck_action.extensions.frameworks.spans.span import LONGEST_ID, Span
from holodeck_action.extensions.traces.exported_spans import Score, exported_spans
from holodeck_action.text.foreign import Foreign, ForeignError
from holodeck_action.text.lazy_patterns import lazy_pattern

_TRACE_ID = lazy_pattern(rb'"trace_?[iI]d"\s*:\s*"([^"\\]{1,200})"')
_LONGEST_NAME = 240
MOST_UNREAD = 200_000
"""Maximum number of traces with spans that could not be read."""
_BLANK = b"\xef\xbb\xbf \t\r\n"
_REST = 65_536
_LENGTH_SIZE = 4
_FIRST_FIELD = 0x0A
"""Protocol Buffers tag of an OTLP request's field `resource_spans`: field number 1, wire type LEN."""


class Part(Struct, frozen=True):
    """A part of a trace file, such as a line.

    Attributes:
        spans: the part's spans, with all attributes and events.
        problem: a clause that describes unreadable data; empty if everything was read.
        place: line number or byte position of the part, for messages.
        unread_traces: the ids of the traces of spans that could not be read, as far as they are known.
        scores: the scores and annotations in the part.
    """

    spans: tuple[Span, ...] = ()
    problem: str = ""
    place: str = ""
    unread_traces: frozenset[str] = frozenset()
    scores: tuple[Score, ...] = ()


def read_parts(file: BinaryIO) -> Iterator[Part]:
    """Yield the spans of a file, part by part, so that at most one part is in memory."""
    first = file.read(1)
    file.seek(0)
    if first and first[0] == _FIRST_FIELD:
        yield from _protobuf_parts(file, _read_field)
    elif first == b"\0":
        yield from _protobuf_parts(file, _read_prefixed)
    else:
        yield from _json_parts(file)


def _json_parts(file: BinaryIO) -> Iterator[Part]:
    number = 0
    first = file.readline(_REST).strip(_BLANK)
    if first in (b"[", b"{"):
        # One document over many lines.
        file.seek(0)
        data = file.read(MOST_BODY + 1)
        yield (
            _skip(data, iter(partial(file.read, _REST), b""), "line 1")
            if len(data) > MOST_BODY
            else _json_part(data, "line 1")
        )
        return
    file.seek(0)
    while line := file.readline(MOST_BODY + 1):
        number += 1
        place = f"line {number}"
        if len(line) > MOST_BODY and not line.endswith(b"\n"):
            yield _skip(line, _rest_of_line(file), place)
        elif line.strip(_BLANK):
            yield _json_part(line.strip(_BLANK), place)


def _skip(data: bytes, rest: Iterable[bytes], place: str) -> Part:
    """Return the part for a line or document that is too long, of which `data` is the beginning; read past its rest."""
    traces = set(_named_traces(data))
    for piece in rest:
        # An id may begin in one piece and end in the next.
        traces |= _named_traces(data[-_LONGEST_NAME:] + piece)
        data = piece
        if len(traces) > MOST_UNREAD:
            break
    return Part((), f"has more than {MOST_BODY:,} bytes; export fewer spans at once", place, frozenset(traces))


def _rest_of_line(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.readline(_REST):
        yield piece
        if piece.endswith(b"\n"):
            return


def _json_part(line: bytes, place: str) -> Part:
    try:
        found = read_export(Foreign(line), JSON, "", keep_all=True)
    except ForeignError as error:
        return _read_span_by_span(line, place, str(error))
    return _part(found, place) if found.spans or found.unread else _exported_part(line, place)


def _exported_part(data: bytes, place: str) -> Part:
    """Read what is JSON, but has no spans of OTLP."""
    try:
        found = list(exported_spans(Foreign(data).json()))
    except ForeignError as error:
        return Part((), str(error), place, _named_traces(data))
    spans = tuple(each for each in found if isinstance(each, Span))
    scores = tuple(each for each in found if isinstance(each, Score))
    unread = len(found) - len(spans) - len(scores)
    problem = f"has {unread:,} spans without an id or a time" if unread else ""
    return Part(spans, problem, place, frozenset(each for each in found if isinstance(each, str)), scores)


def _part(export: Export, place: str) -> Part:
    problem = f"has {export.unread:,} spans without an id or a time" if export.unread else ""
    return Part(tuple(span for span, _ in export.spans), problem, place, export.unread_traces)


def _read_span_by_span(line: bytes, place: str, problem: str) -> Part:
    """Read the spans of a request one by one, because one of them makes the whole request invalid."""
    try:
        request = Foreign(line).json()
    except ForeignError:
        return Part((), problem, place, _named_traces(line))
    if not isinstance(request, dict) or "resourceSpans" not in request:
        return _exported_part(line, place)
    spans: list[Span] = []
    unread: set[str] = set()
    for resource in _dicts(request, "resourceSpans"):
        for scope in _dicts(resource, "scopeSpans"):
            listed = scope.get("spans")
            for span in listed if isinstance(listed, list) else ():
                alone = {"resource": resource.get("resource"), "scopeSpans": [{**scope, "spans": [span]}]}
                body = json.dumps({"resourceSpans": [alone]}).encode("utf-8", "replace")
                try:
                    found = read_export(Foreign(body), JSON, "", keep_all=True)
                except ForeignError:
                    unread |= _named_traces(body)
                else:
                    spans += (each for each, _ in found.spans)
                    unread |= found.unread_traces
    return Part(tuple(spans), problem, place, frozenset(unread))


def _dicts(value: Any, key: str) -> list[dict[str, Any]]:
    listed = value.get(key) if isinstance(value, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _named_traces(data: bytes) -> frozenset[str]:
    """Return the trace ids that are found in data that cannot be parsed."""
    return frozenset(found.decode("utf-8", "replace").lower()[:LONGEST_ID] for found in _TRACE_ID.findall(data))


def _protobuf_parts(file: BinaryIO, read_next: Callable[[BinaryIO], bytes | None]) -> Iterator[Part]:
    while True:
        place = f"byte {file.tell():,}"
        try:
            data = read_next(file)
            if data is None:
                return
            found = read_export(Foreign(data), PROTOBUF, "", keep_all=True)
        except _CutError as error:
            yield Part((), str(error), place)
            return
        except ForeignError as error:
            yield Part((), str(error), place)
        else:
            yield _part(found, place)


class _CutError(Exception):
    """The rest of a file cannot be divided into requests; the error message is a clause."""


def _read_prefixed(file: BinaryIO) -> bytes | None:
    """Read a request preceded by its length as four bytes in network order, the file format of collectors."""
    prefix = file.read(_LENGTH_SIZE)
    if not prefix:
        return None
    return _read_exactly(file, int.from_bytes(prefix, "big") if len(prefix) == _LENGTH_SIZE else -1)


def _read_field(file: BinaryIO) -> bytes | None:
    """Read one field `resource_spans`, whose bytes are a complete request."""
    tag = file.read(1)
    if not tag:
        return None
    if tag[0] != _FIRST_FIELD:
        raise _CutError("is not OTLP from here on")
    size = shift = 0
    head = bytearray(tag)
    while byte := file.read(1):
        head += byte
        size |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80 or shift > 28:
            break
    if head[-1] >= 0x80 or len(head) == 1:
        raise _CutError("is cut short, or not OTLP from here on")
    return bytes(head) + _read_exactly(file, size)


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    if not 0 <= size <= MOST_BODY:
        raise _CutError(f"has a message of more than {MOST_BODY:,} bytes, or is not OTLP from here on")
    data = file.read(size)
    if len(data) < size:
        raise _CutError("is cut short")
    return data
