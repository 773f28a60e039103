"""Reads spans, scores and annotations from files that Phoenix and Langfuse export, in the words of OpenInference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.frameworks.spans.span import LONGEST_ID, Span

_KINDS = {"GENERATION": "LLM", "TOOL": "TOOL", "RETRIEVER": "RETRIEVER", "EMBEDDING": "EMBEDDING", "AGENT": "AGENT"}
"""Kind of span in OpenInference, by type of observation in Langfuse; others are chains."""
_TOKENS = {"input": "llm.token_count.prompt", "output": "llm.token_count.completion"}
_MOST_FLAT = 5_000
_ENVELOPES = ("data", "traces", "observations", "spans")


class Score(Struct, frozen=True):
    """Scores of Langfuse or an annotation of Phoenix, as attributes.

    Attributes:
        kind: `trace`, `span` or `session`.
        id: id of the trace, span or session that was scored.
        attributes: the number as `score.NAME`, the label as `score.NAME.label`.
    """

    kind: str
    id: str
    attributes: Mapping[str, Any]


def exported_spans(value: Any) -> Iterator[Span | Score | str | None]:
    """Yield the spans and scores in JSON of Phoenix or Langfuse: an object, a list, or a page of their interfaces.

    For an unreadable span, the id of its trace is yielded, or None if the id is unknown.
    """
    if isinstance(value, list):
        for each in value:
            yield from exported_spans(each)
    elif isinstance(value, Mapping):
        if isinstance(value.get("context"), Mapping):
            yield _read(_phoenix_span, value, value["context"].get("trace_id"))
        elif "annotator_kind" in value:
            result = value.get("result")
            yield from _scores("span", value.get("span_id"), value.get("name"), result, "score", "label")
        elif "startTime" not in value and not value.keys().isdisjoint(("value", "stringValue")):
            kind = "trace" if value.get("traceId") else "session"
            yield from _scores(kind, value.get(f"{kind}Id"), value.get("name"), value, "value", "stringValue")
        elif "traceId" in value:
            yield _read(_langfuse_span, value, value["traceId"])
        elif isinstance(value.get("observations"), list):
            yield from _langfuse_trace(value)
        else:
            for key in _ENVELOPES:
                if isinstance(value.get(key), list):
                    yield from exported_spans(value[key])


def _scores(kind: str, target: Any, name: Any, values: Any, number: str, label: str) -> Iterator[Score]:
    if isinstance(target, str) and target and isinstance(name, str) and isinstance(values, Mapping):
        found = {f"score.{name}": values.get(number), f"score.{name}.label": values.get(label)}
        found = {key: each for key, each in found.items() if each is not None}
        yield Score(kind, target if kind == "session" else _id(target), found)


def _read(make: Any, value: Mapping[str, Any], trace: Any) -> Span | str | None:
    try:
        found: Span = make(value)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError):
        return _id(trace) if isinstance(trace, str) else None
    return found


def _langfuse_trace(trace: Mapping[str, Any]) -> Iterator[Span | Score | str | None]:
    """Yield the observations and scores of a trace; observations without a parent get the data of the trace."""
    own: dict[str, Any] = {"session.id": trace.get("sessionId"), "tag.tags": trace.get("tags")}
    own |= {f"langfuse.trace.{key}": _text(trace.get(key)) for key in ("input", "output")}
    for score in trace["scores"] if isinstance(trace.get("scores"), list) else ():
        if isinstance(score, Mapping):
            yield from _scores("trace", trace.get("id"), score.get("name"), score, "value", "stringValue")
    own = {key: value for key, value in own.items() if value not in (None, "", [])}
    for each in trace["observations"]:
        if isinstance(each, str):
            # Lists of traces have only the ids of their observations.
            continue
        if not isinstance(each, Mapping):
            yield _id(trace["id"]) if isinstance(trace.get("id"), str) else None
            continue
        shared = {} if each.get("parentObservationId") else own
        yield _read(
            lambda value, shared=shared: _langfuse_span(value, shared),
            {"traceId": trace.get("id"), **each},
            trace.get("id"),
        )


def _langfuse_span(value: Mapping[str, Any], resource_attributes: Mapping[str, Any] | None = None) -> Span:
    attributes: dict[str, Any] = {"openinference.span.kind": _KINDS.get(str(value.get("type")).upper(), "CHAIN")}
    attributes |= resource_attributes or {}
    attributes |= {f"{key}.value": _text(value.get(key)) for key in ("input", "output")}
    for key, name in (
        ("model", "llm.model_name"),
        ("sessionId", "session.id"),
        ("calculatedTotalCost", "llm.cost.total"),
    ):
        if value.get(key) is not None:
            attributes[name] = value[key]
    if isinstance(value.get("output"), list | Mapping):
        attributes["output.mime_type"] = "application/json"
    # The older `usage` has zeros for unknown counts.
    usage = value.get("usageDetails")
    for key, name in _TOKENS.items():
        if isinstance(usage, Mapping) and usage.get(key) is not None:
            attributes[name] = usage[key]
    if attributes["openinference.span.kind"] == "LLM":
        attributes |= _messages(value.get("input"), "llm.input_messages", "user")
        attributes |= _messages(value.get("output"), "llm.output_messages", "assistant")
    if attributes["openinference.span.kind"] == "RETRIEVER" and isinstance(value.get("output"), list):
        for at, document in enumerate(value["output"]):
            text = document if isinstance(document, str) else document.get("page_content", document.get("content"))
            attributes[f"retrieval.documents.{at}.document.content"] = text
    failed = value.get("level") == "ERROR"
    return Span(
        trace=_id(value["traceId"]),
        id=_id(value["id"]),
        parent=_id(value["parentObservationId"]) if value.get("parentObservationId") else None,
        scope="langfuse",
        name=str(value.get("name") or ""),
        start_ns=_time(value["startTime"]),
        end_ns=0 if value.get("endTime") is None else _time(value["endTime"]),
        attributes={key: each for key, each in attributes.items() if each is not None},
        error=str(value.get("statusMessage") or "") if failed else None,
    )


def _messages(value: Any, prefix: str, role: str) -> dict[str, Any]:
    """Return messages in the words of OpenInference; a plain text is one message of a role."""
    listed = value.get("messages", [value]) if isinstance(value, Mapping) else value
    listed = [{"role": role, "content": listed}] if isinstance(listed, str) else listed
    found: dict[str, Any] = {}
    for at, message in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(message, Mapping):
            continue
        place = f"{prefix}.{at}.message"
        found |= {f"{place}.role": message.get("role", role), f"{place}.tool_call_id": message.get("tool_call_id")}
        found[f"{place}.content"] = _text(message.get("content"))
        calls = message.get("tool_calls")
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function", call)
            each = {
                "id": call.get("id"),
                "function.name": function.get("name"),
                "function.arguments": function.get("arguments"),
            }
            found |= {f"{place}.tool_calls.{number}.tool_call.{key}": held for key, held in each.items()}
    return {key: held for key, held in found.items() if held is not None}


def _phoenix_span(value: Mapping[str, Any]) -> Span:
    context = value["context"]
    attributes = dict(_flat("", value.get("attributes") or {}))
    if isinstance(value.get("span_kind"), str):
        attributes.setdefault("openinference.span.kind", value["span_kind"])
    events = tuple((str(event.get("name")), dict(event.get("attributes") or {})) for event in value.get("events") or ())
    return Span(
        trace=_id(context["trace_id"]),
        id=_id(context["span_id"]),
        parent=_id(value["parent_id"]) if value.get("parent_id") else None,
        scope="phoenix",
        name=str(value.get("name") or ""),
        start_ns=_time(value["start_time"]),
        end_ns=0 if value.get("end_time") is None else _time(value["end_time"]),
        attributes=attributes,
        events=events,
        error=str(value.get("status_message") or "") if value.get("status_code") == "ERROR" else None,
    )


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values inside of objects, and of lists of objects, by path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item)
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        for at, item in enumerate(value[:_MOST_FLAT]):
            yield from _flat(f"{prefix}.{at}", item)
    else:
        yield prefix, value


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _id(value: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("an id is missing")
    return value.lower()[:LONGEST_ID] if len(value) <= LONGEST_ID else value[:64]


def _time(text: str) -> int:
    """Return the nanoseconds since 1970 of a time in ISO 8601, which is in UTC if it has no offset."""
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000) * 1_000
