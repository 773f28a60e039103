"""Collects spans of the project's OpenTelemetry SDK in the worker process, like zero-code instrumentation.

Like all code of a worker, this module can be imported with the standard library alone; the SDK is the project's.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from holodeck_action.text.json_values import parse_json
from holodeck_action.workers.code_errors import MAX_SENT_CHARS, CallError
from holodeck_action.workers.frames import MOST_SPAN_BYTES

MOST_SPANS = 10_000
"""Maximum number of spans kept per turn."""
_LONGEST_MESSAGES = 1_000_000
"""Length limit, in characters, of a conversation that is searched for tool results."""
_RESPONSE_TYPE = "tool_call_response"
_ENTRY_POINTS = "opentelemetry_instrumentor"
_KEPT_PREFIXES = (
    "gen_ai.",
    "llm.",
    "tool.",
    "retrieval.",
    "reranker.output_documents.",
    "embedding.model_name",
    "openinference.span.kind",
    "session.id",
    "operation.cost",
)
_DROPPED_PREFIXES = (
    "gen_ai.input.messages",
    "gen_ai.prompt",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.description",
    "llm.input_messages",
    "llm.invocation_parameters",
    "llm.prompt",
    "llm.tools",
    "tool.description",
)
"""Prefixes of unused attributes, which repeat the whole conversation in each span."""
_KINDS_WITH_VALUES = ("TOOL", "RETRIEVER")
_VALUES = ("input.value", "output.value", "output.mime_type")
_EVENTS = ("gen_ai.tool.message", "gen_ai.choice", "exception")


def filter_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return those attributes of a span that the package `spans` reads."""
    values = _VALUES if str(attributes.get("openinference.span.kind", "")).upper() in _KINDS_WITH_VALUES else ()
    found = {
        name: value
        for name, value in attributes.items()
        if name in values or (name.startswith(_KEPT_PREFIXES) and not name.startswith(_DROPPED_PREFIXES))
    }
    return {**found, **_tool_results(attributes)}


def _tool_results(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that contain a conversation's messages, reduced to the messages with results of tools."""
    found: dict[str, Any] = {}
    for name in attributes:
        if name.startswith(("llm.input_messages.", "gen_ai.prompt.")) and name.endswith(".tool_call_id"):
            content = f"{name[: -len('tool_call_id')]}content"
            found.update({each: attributes[each] for each in (name, content) if each in attributes})
    messages = attributes.get("gen_ai.input.messages")
    if isinstance(messages, str) and len(messages) < _LONGEST_MESSAGES and _RESPONSE_TYPE in messages:
        try:
            messages = parse_json(messages, constants=True)
        except ValueError:
            messages = None
    if isinstance(messages, (list, tuple)):
        responses = [each for each in messages if _RESPONSE_TYPE in str(each)]
        found.update({"gen_ai.input.messages": responses} if responses else {})
    return found


def is_relevant_event(name: str) -> bool:
    """Return whether an event of a span is about a tool call or an exception; other events are dropped."""
    return name in _EVENTS


class Recorder:
    """Collects the spans that end in this process, one turn at a time."""

    def __init__(self) -> None:
        """Register with the project's tracer provider or a new one, and start the installed instrumentations.

        Raises:
            CallError: no spans can be created (code `missing_module`).
        """
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            raise CallError("missing_module", "spans: OTEL_SDK_DISABLED is true, so no spans are created; unset it")
        try:
            from opentelemetry import context, trace
            from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
            from opentelemetry.sdk.trace.sampling import ALWAYS_ON
        except ImportError:
            raise CallError(
                "missing_module",
                "spans: the Python package 'opentelemetry-sdk' is missing in the environment of the target; add it",
            ) from None
        self._context, self._trace = context, trace
        self._error = trace.StatusCode.ERROR
        self._lock = threading.Lock()
        self._spans: list[dict[str, Any]] = []
        self._left = MOST_SPAN_BYTES
        self._dropped = 0
        self._since = 0
        take = self._record_span

        class SpanCollector(SpanProcessor):
            def on_end(self, span: Any) -> None:
                take(span)

        own = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
        own.add_span_processor(SpanCollector())
        current = trace.get_tracer_provider()
        if hasattr(current, "add_span_processor"):
            # The project still exports its spans itself.
            current.add_span_processor(SpanCollector())
        else:
            trace.set_tracer_provider(own)
        self.failed = _start_instrumentations(own)
        """Instrumentations that could not be started, with the reason."""

    def begin(self) -> None:
        """Begin to collect the spans of a turn."""
        with self._lock:
            self._spans, self._left, self._dropped = [], MOST_SPAN_BYTES, 0
            self._since = time.time_ns()

    def end(self) -> dict[str, Any]:
        """Return `{spans, dropped, failed}`: the turn's spans, the number of dropped ones, failed instrumentations."""
        with self._lock:
            found, self._spans = self._spans, []
            failed, self.failed = self.failed, []
            return {"spans": found, "dropped": self._dropped, "failed": failed}

    @contextmanager
    def inside(self, traceparent: str) -> Iterator[None]:
        """Within the `with` block, make new spans children of the span that a `traceparent` header identifies."""
        _, trace_id, span_id, _ = traceparent.split("-")
        trace = self._trace
        parent = trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, trace.TraceFlags(1))
        token = self._context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
        try:
            yield
        finally:
            self._context.detach(token)

    def _record_span(self, span: Any) -> None:
        try:
            found = {**_span_data(span), "failed": span.status.status_code is self._error}
            size = len(json.dumps(found))
        except Exception:  # noqa: BLE001 - whatever a span holds, the project's code goes on
            found, size = None, 0
        with self._lock:
            if span.start_time is not None and span.start_time < self._since:
                # It is from work that an earlier turn left running.
                return
            if found is None or len(self._spans) >= MOST_SPANS or size > self._left:
                self._dropped += 1
            else:
                self._spans.append(found)
                self._left -= size


def _span_data(span: Any) -> dict[str, Any]:
    return {
        "trace": format(span.context.trace_id, "032x"),
        "id": format(span.context.span_id, "016x"),
        "parent": None if span.parent is None else format(span.parent.span_id, "016x"),
        "scope": str(span.instrumentation_scope.name) if span.instrumentation_scope else "",
        "name": str(span.name),
        "start": span.start_time,
        "end": span.end_time,
        "attributes": _json_value(filter_attributes(span.attributes or {})),
        "events": [
            {"name": str(event.name), "attributes": _json_value(event.attributes or {})}
            for event in span.events
            if is_relevant_event(event.name)
        ],
        "message": span.status.description,
    }


def _json_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _start_instrumentations(provider: Any) -> list[str]:
    """Start the installed instrumentations that the environment does not disable; return failed ones with reasons."""
    off = {name.strip() for name in os.environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")}
    failed = []
    for entry in _instrumentations():
        if entry.name in off or "*" in off:
            continue
        try:
            instrumentor = entry.load()()
            if not instrumentor.is_instrumented_by_opentelemetry:
                instrumentor.instrument(tracer_provider=provider)
        except Exception as error:  # noqa: BLE001 - the others may do
            failed.append(f"{entry.name} ({type(error).__name__}: {str(error)[:MAX_SENT_CHARS]})")
    return failed


def _instrumentations() -> list[Any]:
    found: Any = entry_points()
    # It is a mapping before Python 3.10.
    return list(found.select(group=_ENTRY_POINTS) if hasattr(found, "select") else found.get(_ENTRY_POINTS, ()))
