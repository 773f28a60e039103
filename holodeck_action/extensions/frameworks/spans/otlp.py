"""Decodes spans from requests of OpenTelemetry's protocol (OTLP) over HTTP, in Protocol Buffers or JSON.

Decoding a large request takes seconds, so it runs in a thread. The number of values is limited, and other threads can
run meanwhile. Source: opentelemetry-proto 1.9, `trace.proto`, `common.proto` and the specification of OTLP/HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import Decoder

from holodeck_action.extensions.frameworks.instrumentation import filter_attributes, is_relevant_event
from holodeck_action.extensions.frameworks.spans import protobuf
from holodeck_action.extensions.frameworks.spans.protobuf import (
    Message,
    MessageField,
    bool_field,
    double_field,
    fixed64_field,
    hex_field,
    int64_field,
    text_field,
)
from holodeck_action.extensions.frameworks.spans.span import LONGEST_ID, Span
from holodeck_action.text.foreign import Foreign, ForeignError

T = TypeVar("T")

PROTOBUF, JSON = "application/x-protobuf", "application/json"
MOST_BODY = 16_000_000
"""Size limit of a request in bytes, compressed or not."""
MOST_VALUES = 1_000_000
"""Limit of the total number of attributes, values and other message parts in a request."""
MOST_SPANS = 20_000
"""Limit of spans in a request."""
_FAILED = (2, "STATUS_CODE_ERROR")
_DEEPEST = 50
_OVERHEAD = 8
"""Estimated overhead of a value, in bytes."""


class Export(Struct, frozen=True):
    """The spans of a request with their estimated sizes in bytes, and the number of unreadable spans.

    `unread_traces` has the ids of the traces of unreadable spans, as far as they are known.
    """

    spans: tuple[tuple[Span, int], ...]
    unread: int
    unread_traces: frozenset[str] = frozenset()


class _Allowance:
    """The remaining numbers of spans and values that may be read."""

    def __init__(self) -> None:
        self._spans, self._values = MOST_SPANS, MOST_VALUES

    def spend(self, *, span_count: int = 0) -> None:
        """Count one value, and `span_count` spans.

        Raises:
            ValueError: a limit is exceeded.
        """
        self._spans -= span_count
        self._values -= 1
        if self._spans < 0 or self._values < 0:
            raise ValueError(f"more than {MOST_SPANS:,} spans or {MOST_VALUES:,} values; export fewer at once")


_allowance: ContextVar[_Allowance] = ContextVar("_allowance")


class _Part(Struct, rename="camel", gc=False):
    """Base class of the parts of a request; unknown fields are ignored."""

    def __post_init__(self) -> None:
        # A call into Python lets other threads run, which the decoder itself would block.
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
        _allowance.get().spend(span_count=1)


class _Scope(_Part):
    name: str | None = None


class _ScopeSpans(_Part):
    scope: _Scope | None = None
    spans: list[_Span] | None = None


class _Resource(_Part):
    attributes: list[_Pair] | None = None


class _ResourceSpans(_Part):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None


class _Request(_Part):
    resource_spans: list[_ResourceSpans] | None = None


_JSON = Decoder(_Request)
_VALUE: Message = Message(
    _AnyValue,
    {
        1: text_field("string_value"),
        2: bool_field("bool_value"),
        3: int64_field("int_value"),
        4: double_field("double_value"),
        5: MessageField("array_value", lambda: _ARRAY),
        6: MessageField("kvlist_value", lambda: _PAIRS),
    },
)
_ARRAY: Message = Message(_Values, {1: MessageField("values", lambda: _VALUE, several=True)})
_PAIR: Message = Message(_Pair, {1: text_field("key"), 2: MessageField("value", lambda: _VALUE)})
_PAIRS: Message = Message(_Pairs, {1: MessageField("values", lambda: _PAIR, several=True)})
_EVENT = Message(_Event, {2: text_field("name"), 3: MessageField("attributes", lambda: _PAIR, several=True)})
_STATUS = Message(_Status, {2: text_field("message"), 3: int64_field("code")})
_SPAN = Message(
    _Span,
    {
        1: hex_field("trace_id"),
        2: hex_field("span_id"),
        4: hex_field("parent_span_id"),
        5: text_field("name"),
        7: fixed64_field("start_time_unix_nano"),
        8: fixed64_field("end_time_unix_nano"),
        9: MessageField("attributes", lambda: _PAIR, several=True),
        11: MessageField("events", lambda: _EVENT, several=True),
        15: MessageField("status", lambda: _STATUS),
    },
)
_SCOPE = Message(_Scope, {1: text_field("name")})
_SCOPE_SPANS = Message(
    _ScopeSpans, {1: MessageField("scope", lambda: _SCOPE), 2: MessageField("spans", lambda: _SPAN, several=True)}
)
_RESOURCE = Message(_Resource, {1: MessageField("attributes", lambda: _PAIR, several=True)})
_RESOURCE_SPANS = Message(
    _ResourceSpans,
    {
        1: MessageField("resource", lambda: _RESOURCE),
        2: MessageField("scope_spans", lambda: _SCOPE_SPANS, several=True),
    },
)
_REQUEST = Message(_Request, {1: MessageField("resource_spans", lambda: _RESOURCE_SPANS, several=True)})


def read_export(body: Foreign, content_type: str, encoding: str, *, keep_all: bool = False) -> Export:
    """Return the spans of a request.

    Args:
        body: the body as received.
        content_type: `PROTOBUF` or `JSON`.
        encoding: value of the header `content-encoding`.
        keep_all: whether to keep all attributes and events of a span, and to add its resource's attributes with the
            prefix `resource.`; otherwise only the attributes and events that a reply needs are kept.

    Raises:
        ForeignError: the request is invalid or too large. Unreadable spans in a valid request are only counted.
    """
    allowance = _Allowance()
    _allowance.set(allowance)
    unpacked = Foreign(body.parse(partial(_decompress, encoding=encoding)))
    if content_type == JSON:
        request = unpacked.parse(_JSON.decode)
    else:
        request = unpacked.parse(partial(_decode_protobuf, spend=allowance.spend))
    return _collect_spans(request, keep_all=keep_all)


def _decode_protobuf(data: bytes, spend: Callable[[], None]) -> _Request:
    request: _Request = protobuf.read_message(_REQUEST, data, spend)
    return request


def _decompress(body: bytes, encoding: str) -> bytes:
    """Return the decompressed body.

    Raises:
        ValueError: the body is damaged or too large, or the encoding is not gzip, deflate or identity.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise ValueError("its content-encoding is not gzip, deflate or identity")
    try:
        return Foreign(body).unpack(MOST_BODY).parse(bytes)
    except ForeignError as error:
        raise ValueError(f"the compressed body {error}") from None


def _collect_spans(request: _Request, *, keep_all: bool) -> Export:
    found: list[tuple[Span, int]] = []
    unread = 0
    unread_traces: set[str] = set()
    for resource in _drain(request.resource_spans):
        shared = _resource_attributes(resource.resource) if keep_all else None
        for scope in _drain(resource.scope_spans):
            for span in _drain(scope.spans):
                try:
                    found.append(_convert_span(span, (scope.scope and scope.scope.name) or "", shared))
                except (ValueError, OverflowError, RecursionError):
                    unread += 1
                    if span.trace_id:
                        unread_traces.add(_identifier(span.trace_id))
    return Export(tuple(found), unread, frozenset(unread_traces))


def _resource_attributes(resource: _Resource | None) -> dict[str, Any]:
    try:
        found = _attributes(None if resource is None else resource.attributes, 0)
    except (ValueError, OverflowError, RecursionError):
        return {}
    return {f"resource.{name}": value for name, value in found.items()}


def _drain(parts: list[T] | None) -> Iterator[T]:
    """Yield parts and free each one, since freeing all at once would block other threads."""
    if parts is not None:
        parts.reverse()
        while parts:
            yield parts.pop()


def _convert_span(span: _Span, scope: str, resource_attributes: Mapping[str, Any] | None) -> tuple[Span, int]:
    """Convert a decoded span to a `Span`, and estimate its size in bytes.

    Args:
        span: the decoded span.
        scope: name of the library that created the span.
        resource_attributes: attributes to add to all attributes of the span; None to keep only the attributes that a
            reply needs.

    Raises:
        ValueError: an id or a time is missing or invalid, or values are nested too deeply.
    """
    read = _attributes(span.attributes, 0)
    attributes = filter_attributes(read) if resource_attributes is None else {**resource_attributes, **read}
    events = tuple(
        (event.name, _attributes(event.attributes, 0))
        for event in span.events or ()
        if resource_attributes is not None or is_relevant_event(event.name)
    )
    status = span.status or _Status()
    made = Span(
        trace=_identifier(span.trace_id),
        id=_identifier(span.span_id),
        parent=None if not span.parent_span_id else _identifier(span.parent_span_id),
        scope=scope,
        name=span.name,
        start_ns=_nanoseconds(span.start_time_unix_nano),
        end_ns=_nanoseconds(span.end_time_unix_nano),
        attributes=attributes,
        events=events,
        error=(status.message or "") if status.code in _FAILED else None,
    )
    return made, _size((scope, span.name, status.message, attributes, *events))


def _identifier(value: str | None) -> str:
    if not value:
        raise ValueError("an id is missing")
    return value.lower()[:LONGEST_ID]


def _nanoseconds(value: float | str | None) -> int:
    if value is None:
        raise ValueError("a time is missing")
    return int(value)


def _attributes(pairs: list[_Pair] | None, depth: int) -> dict[str, Any]:
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
        return _attributes(value.kvlist_value.values, depth + 1)
    if isinstance(value.double_value, float) and not math.isfinite(value.double_value):
        # As in OTLP's JSON.
        return str(value.double_value)
    return next((held for held in (value.string_value, value.bool_value, value.double_value) if held is not None), None)


def _size(value: Any) -> int:
    if isinstance(value, str):
        return _OVERHEAD + len(value)
    if isinstance(value, Mapping):
        return _OVERHEAD + sum(len(key) + _size(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return _OVERHEAD + sum(map(_size, value))
    return _OVERHEAD
