"""Requests of OpenTelemetry's protocol (OTLP) over HTTP, in either of its two encodings: their shape, and their spans.

Reading takes seconds of a large request, and so is done in a thread. What it takes is bounded by the number of values,
and other threads run in between. Source: opentelemetry-proto 1.9, `trace.proto`, `common.proto` and the specification
of OTLP/HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import Decoder

from holodeck_action.extensions.frameworks.instrumentation import kept_attributes, kept_event
from holodeck_action.extensions.frameworks.spans import protobuf
from holodeck_action.extensions.frameworks.spans.protobuf import (
    Message,
    Nested,
    boolean,
    double,
    fixed_64,
    hexadecimal,
    signed,
    text,
)
from holodeck_action.extensions.frameworks.spans.span import LONGEST_ID, Span
from holodeck_action.text.foreign import Foreign, ForeignError

T = TypeVar("T")

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MOST_BODY = 16_000_000
"""Bytes of one request, compressed or not."""
MOST_VALUES = 1_000_000
"""Attributes, values and other parts of the spans of one request."""
MOST_SPANS = 20_000
"""Spans of one request."""
_FAILED = (2, "STATUS_CODE_ERROR")
_DEEPEST = 50
_ENTRY = 8
"""Bytes that a value has beside its text, about."""


class Export(Struct, frozen=True):
    """The spans of a request, each with the bytes that it has, about, and how many there are that cannot be read."""

    spans: tuple[tuple[Span, int], ...]
    unread: int


class _Allowance:
    """How many spans and values may still be read."""

    def __init__(self) -> None:
        self._spans, self._values = MOST_SPANS, MOST_VALUES

    def spend(self, *, spans: int = 0) -> None:
        """Count a value, and perhaps a span.

        Raises:
            ValueError: there are too many.
        """
        self._spans -= spans
        self._values -= 1
        if self._spans < 0 or self._values < 0:
            raise ValueError(f"more than {MOST_SPANS:,} spans or {MOST_VALUES:,} values; export fewer at once")


_allowance: ContextVar[_Allowance] = ContextVar("_allowance")


class _Part(Struct, rename="camel", gc=False):
    """A part of a request; what is not read of it may be anything."""

    def __post_init__(self) -> None:
        # Python runs here, so that other threads may: the decoder itself would let nothing else run.
        _allowance.get().spend()


class _AnyValue(_Part):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | float | str | None = None
    double_value: float | str | None = None
    array_value: _Values | None = None
    kvlist_value: _Pairs | None = None


class _Values(_Part):
    values: list[_AnyValue] | None = None


class _Pair(_Part):
    key: str = ""
    value: _AnyValue | None = None


class _Pairs(_Part):
    values: list[_Pair] | None = None


class _Event(_Part):
    name: str = ""
    attributes: list[_Pair] | None = None


class _Status(_Part):
    code: int | str | None = None
    message: str | None = None


class _Span(_Part):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    name: str = ""
    start_time_unix_nano: int | float | str | None = None
    end_time_unix_nano: int | float | str | None = None
    attributes: list[_Pair] | None = None
    events: list[_Event] | None = None
    status: _Status | None = None

    def __post_init__(self) -> None:
        _allowance.get().spend(spans=1)


class _Scope(_Part):
    name: str | None = None


class _ScopeSpans(_Part):
    scope: _Scope | None = None
    spans: list[_Span] | None = None


class _ResourceSpans(_Part):
    scope_spans: list[_ScopeSpans] | None = None


class _Request(_Part):
    resource_spans: list[_ResourceSpans] | None = None


_JSON = Decoder(_Request)
_VALUE: Message = Message(
    _AnyValue,
    {
        1: text("string_value"),
        2: boolean("bool_value"),
        3: signed("int_value"),
        4: double("double_value"),
        5: Nested("array_value", lambda: _ARRAY),
        6: Nested("kvlist_value", lambda: _PAIRS),
    },
)
_ARRAY: Message = Message(_Values, {1: Nested("values", lambda: _VALUE, several=True)})
_PAIR: Message = Message(_Pair, {1: text("key"), 2: Nested("value", lambda: _VALUE)})
_PAIRS: Message = Message(_Pairs, {1: Nested("values", lambda: _PAIR, several=True)})
_EVENT = Message(_Event, {2: text("name"), 3: Nested("attributes", lambda: _PAIR, several=True)})
_STATUS = Message(_Status, {2: text("message"), 3: signed("code")})
_SPAN = Message(
    _Span,
    {
        1: hexadecimal("trace_id"),
        2: hexadecimal("span_id"),
        4: hexadecimal("parent_span_id"),
        5: text("name"),
        7: fixed_64("start_time_unix_nano"),
        8: fixed_64("end_time_unix_nano"),
        9: Nested("attributes", lambda: _PAIR, several=True),
        11: Nested("events", lambda: _EVENT, several=True),
        15: Nested("status", lambda: _STATUS),
    },
)
_SCOPE = Message(_Scope, {1: text("name")})
_SCOPE_SPANS = Message(
    _ScopeSpans, {1: Nested("scope", lambda: _SCOPE), 2: Nested("spans", lambda: _SPAN, several=True)}
)
_RESOURCE_SPANS = Message(_ResourceSpans, {2: Nested("scope_spans", lambda: _SCOPE_SPANS, several=True)})
_REQUEST = Message(_Request, {1: Nested("resource_spans", lambda: _RESOURCE_SPANS, several=True)})


def exported_spans(body: Foreign, kind: str, encoding: str) -> Export:
    """Read the spans of a request.

    Args:
        body: as it came.
        kind: `PROTOBUF` or `JSON`.
        encoding: how it is packed, the value of `content-encoding`.

    Raises:
        ForeignError: it is no such request, or too large; single spans that cannot be read are counted.
    """
    allowance = _Allowance()
    _allowance.set(allowance)
    unpacked = Foreign(body.parse(partial(_unpacked, encoding=encoding)))
    if kind == JSON:
        request = unpacked.parse(_JSON.decode)
    else:
        request = unpacked.parse(partial(_from_protobuf, spend=allowance.spend))
    return _export(request)


def _from_protobuf(data: bytes, spend: Callable[[], None]) -> _Request:
    request: _Request = protobuf.read(_REQUEST, data, spend)
    return request


def _unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body without its content encoding.

    Raises:
        ValueError: it is broken, encoded in another way than gzip or deflate, or too large.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise ValueError("its content-encoding is none of gzip, deflate and identity")
    try:
        return Foreign(body).unpacked(MOST_BODY).parse(bytes)
    except ForeignError as error:
        raise ValueError(f"the compressed body {error}") from None


def _export(request: _Request) -> Export:
    found: list[tuple[Span, int]] = []
    unread = 0
    for resource in _drained(request.resource_spans):
        for scope in _drained(resource.scope_spans):
            for span in _drained(scope.spans):
                try:
                    found.append(_sized(span, (scope.scope and scope.scope.name) or ""))
                except (ValueError, OverflowError, RecursionError):
                    unread += 1
    return Export(tuple(found), unread)


def _drained(parts: list[T] | None) -> Iterator[T]:
    """Yield parts and let go of each: to free all of them at once would let nothing else run meanwhile."""
    if parts is not None:
        parts.reverse()
        while parts:
            yield parts.pop()


def _sized(span: _Span, scope: str) -> tuple[Span, int]:
    """Return a span as it is kept, and its size.

    Raises:
        ValueError: an id or a time is missing or none, or values are nested too deeply.
    """
    attributes = kept_attributes(_mapping(span.attributes, 0))
    events = tuple((event.name, _mapping(event.attributes, 0)) for event in span.events or () if kept_event(event.name))
    status = span.status or _Status()
    made = Span(
        trace=_identifier(span.trace_id),
        id=_identifier(span.span_id),
        parent=None if not span.parent_span_id else _identifier(span.parent_span_id),
        scope=scope,
        name=span.name,
        start_ns=_whole(span.start_time_unix_nano),
        end_ns=_whole(span.end_time_unix_nano),
        attributes=attributes,
        events=events,
        error=(status.message or "") if status.code in _FAILED else None,
    )
    return made, _size((scope, span.name, status.message, attributes, *events))


def _identifier(given: str | None) -> str:
    if not given:
        raise ValueError("an id is missing")
    return given.lower()[:LONGEST_ID]


def _whole(given: float | str | None) -> int:
    if given is None:
        raise ValueError("a time is missing")
    return int(given)


def _mapping(pairs: list[_Pair] | None, depth: int) -> dict[str, Any]:
    return {pair.key: _value(pair.value, depth) for pair in pairs or ()}


def _value(value: _AnyValue | None, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("values are nested too deeply")
    if value is None:
        return None
    if value.int_value is not None:
        return int(value.int_value)
    if value.array_value is not None:
        return [_value(item, depth + 1) for item in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return _mapping(value.kvlist_value.values, depth + 1)
    if isinstance(value.double_value, float) and not math.isfinite(value.double_value):
        # As JSON has it.
        return str(value.double_value)
    return next((held for held in (value.string_value, value.bool_value, value.double_value) if held is not None), None)


def _size(value: Any) -> int:
    if isinstance(value, str):
        return _ENTRY + len(value)
    if isinstance(value, Mapping):
        return _ENTRY + sum(len(key) + _size(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return _ENTRY + sum(map(_size, value))
    return _ENTRY
