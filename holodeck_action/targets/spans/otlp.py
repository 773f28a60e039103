"""Requests of OpenTelemetry's protocol (OTLP) over HTTP, in either of its two encodings."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from holodeck_action.targets.spans.span import TurnSpans, turn_spans
from holodeck_action.workers.instrumentation import kept_attributes, kept_event

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_FAILED = (2, "STATUS_CODE_ERROR")
_DEEPEST = 50


def decompressed(body: bytes, encoding: str, most: int) -> bytes:
    """Return a body without its content encoding.

    Raises:
        ValueError: it is broken, encoded in another way than gzip or deflate, or larger than `most` bytes.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise ValueError(f"content-encoding {encoding!r}")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        found = unpacker.decompress(body, most)
    except zlib.error as error:
        raise ValueError("a broken compressed body") from error
    if not unpacker.eof:
        raise ValueError("a compressed body that breaks off or is too large")
    return found


def exported_spans(body: bytes, content_type: str) -> TurnSpans:
    """Read the spans of a request.

    Raises:
        ValueError: the body is none; single spans that cannot be read are counted.
        ImportError: the package that reads protobuf is missing.
    """
    if content_type == JSON:
        try:
            request = json.loads(body)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    else:
        request = _from_protobuf(body)
    if not isinstance(request, Mapping):
        raise ValueError("no object")
    found = list(_items(request, base64_ids=content_type != JSON))
    return turn_spans({"spans": found, "dropped": 0, "failed": []})


def _from_protobuf(body: bytes) -> Any:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    try:
        return MessageToDict(ExportTraceServiceRequest.FromString(body))
    except (DecodeError, RecursionError, ValueError) as error:
        raise ValueError("no request in protobuf") from error


def _items(request: Mapping[str, Any], *, base64_ids: bool) -> Iterator[dict[str, Any] | None]:
    """Yield the spans as `turn_spans` reads them; None for what is none."""
    for resource in _list(request, "resourceSpans"):
        for scope in _list(resource, "scopeSpans"):
            for span in _list(scope, "spans"):
                try:
                    yield _item(span, scope, base64_ids=base64_ids)
                except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
                    yield None


def _item(span: Mapping[str, Any], scope: Mapping[str, Any], *, base64_ids: bool) -> dict[str, Any]:
    def identifier(name: str) -> str | None:
        given = span.get(name) or None
        return base64.b64decode(given).hex() if given is not None and base64_ids else given and str(given).lower()

    status = span.get("status") or {}
    return {
        "trace": identifier("traceId"),
        "id": identifier("spanId"),
        "parent": identifier("parentSpanId"),
        "scope": (scope.get("scope") or {}).get("name", ""),
        "name": span["name"],
        "start": int(span["startTimeUnixNano"]),
        "end": int(span["endTimeUnixNano"]),
        "attributes": kept_attributes(_attributes(span)),
        "events": [
            {"name": event["name"], "attributes": _attributes(event)}
            for event in _list(span, "events")
            if kept_event(event["name"])
        ],
        "failed": status.get("code") in _FAILED,
        "message": status.get("message") or "",
    }


def _attributes(holder: Mapping[str, Any], depth: int = 0, key: str = "attributes") -> dict[str, Any]:
    return {str(pair["key"]): _value(pair.get("value") or {}, depth) for pair in _list(holder, key)}


def _value(value: Mapping[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    for kind, held in value.items():
        if kind == "intValue":
            return int(held)
        if kind == "arrayValue":
            return [_value(item, depth + 1) for item in _list(held, "values")]
        if kind == "kvlistValue":
            return _attributes(held, depth + 1, "values")
        if kind in ("stringValue", "boolValue", "doubleValue"):
            return held
    return None


def _list(holder: Mapping[str, Any], key: str) -> list[Any]:
    found = holder.get(key)
    return found if isinstance(found, list) else []
