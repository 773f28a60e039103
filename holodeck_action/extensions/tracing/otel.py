"""Creates spans with OpenTelemetry's SDK. Needs the packages of the `otel` extra.

The tracer provider is not registered globally, so the clients of models and tools send no trace headers.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode

from holodeck_action import __version__
from holodeck_action.extensions.tracing.exporters import ConsoleSpans, LogListener, SendingMonitor, otlp_exporter
from holodeck_action.extensions.tracing.traces import TracePlan
from holodeck_action.llm.spans import NO_SPAN, Attributes, Kind, Span
from holodeck_action.text.redaction import MASK, Redactor
from holodeck_action.text.secrets import environment_secrets

if TYPE_CHECKING:
    import regex

PATTERN_SECONDS = 0.25
"""Time limit in seconds for all patterns on one value; exceeded at most once per run (see `Content`)."""
TEXT_CHARS = 8_000
"""Maximum characters of one text."""
VALUE_CHARS = 32_000
"""Maximum characters of one value as JSON."""


class Content:
    """Converts inputs and outputs to span attributes without secrets.

    If a pattern exceeds its time limit, all later inputs and outputs are masked completely, since its matches are
    unknown.
    """

    def __init__(self, redactor: Redactor, patterns: Sequence[str]) -> None:
        """Compile the redaction patterns.

        Args:
            patterns: valid regular expressions, whose matches are replaced by `***`.
        """
        self._redactor = redactor
        self._patterns = _compile(patterns)
        self.slow_pattern: str | None = None
        """The pattern that exceeded its time limit; None if no pattern exceeded it."""

    def text(self, value: Any) -> str:
        """Return JSON data as the string value of an attribute, without secrets: a string as it is, any other value as
        JSON.

        If a list is too long, only its last items are kept, such as the latest messages of a conversation.
        """
        cleaned = self._clean(value)
        if isinstance(cleaned, str):
            return cleaned
        if isinstance(cleaned, list):
            return _last_items(cleaned)
        return _json(cleaned)[:VALUE_CHARS]

    def _clean(self, value: Any) -> Any:
        value = self._redactor.value(value)
        if self._patterns:
            # The time limit is for the whole value, however many texts it has.
            value = self._redact_value(value, perf_counter() + PATTERN_SECONDS)
            if self.slow_pattern is not None:
                return MASK
        return _shorten(value)

    def _redact_value(self, value: Any, deadline: float) -> Any:
        if isinstance(value, str):
            return self._redact_text(value, deadline)
        if isinstance(value, list | tuple):
            return [self._redact_value(item, deadline) for item in value]
        if isinstance(value, dict):
            return {
                self._redact_text(str(key), deadline): self._redact_value(item, deadline) for key, item in value.items()
            }
        return value

    def _redact_text(self, text: str, deadline: float) -> str:
        for pattern in self._patterns:
            left = deadline - perf_counter()
            if self.slow_pattern is not None or left <= 0:
                self.slow_pattern = self.slow_pattern or pattern.pattern
                return MASK
            try:
                text = pattern.sub(MASK, text, timeout=left)
            except TimeoutError:
                self.slow_pattern = pattern.pattern
                return MASK
        return text


def _compile(patterns: Sequence[str]) -> list[regex.Pattern[str]]:
    if not patterns:
        return []
    # Import only for suites with patterns.
    import regex

    return [regex.compile(pattern) for pattern in patterns]


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARS else f"{value[:TEXT_CHARS]}… ({len(value):,} characters)"
    if isinstance(value, list | tuple):
        return [_shorten(item) for item in value]
    if isinstance(value, dict):
        return {key: _shorten(item) for key, item in value.items()}
    return value


def _last_items(values: list[Any]) -> str:
    kept: list[str] = []
    left = VALUE_CHARS
    for item in reversed(values):
        text = _json(item)
        left -= len(text)
        if left < 0:
            break
        kept.append(text)
    return f"[{', '.join(reversed(kept))}]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
"""URL of the semantic conventions that spans follow; later versions of this schema do not contain generative AI."""

_WORK = {
    "invoke_agent": "AGENT",
    "chat": "LLM",
    "embeddings": "EMBEDDING",
    "execute_tool": "TOOL",
    "evaluate": "EVALUATOR",
    "judge": "EVALUATOR",
}
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class RunTracing(Struct, frozen=True):
    """The objects that all spans of a run share.

    Attributes:
        tracer: the tracer that starts spans.
        redactor: masks secrets in names and attributes.
        content: converts inputs and outputs; None if they are omitted.
        graded: converts inputs and outputs of evaluations and the spans below them; None if they are omitted.
        sample_next: returns whether the next trial is sampled.
    """

    tracer: trace.Tracer
    redactor: Redactor
    content: Content | None
    graded: Content | None
    sample_next: Callable[[], bool]


class OtelSpan(Span):
    """A span of the SDK whose attributes contain no secrets."""

    __slots__ = ("_content", "_graded", "_shared", "_span")

    def __init__(self, span: trace.Span, trace_state: RunTracing, *, graded: bool) -> None:
        self._span = span
        self._shared = trace_state
        self._graded = graded
        self._content = trace_state.graded if graded else trace_state.content

    @property
    def content(self) -> bool:
        """Whether the span records inputs and outputs."""
        return self._content is not None

    def child(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        sampled: bool,
        started_ns: int | None,
        graded: bool = False,
    ) -> Span:
        """Start a child span. If the child is a trial that is not sampled, it and its descendants are not recorded."""
        if sampled and not self._shared.sample_next():
            return NO_SPAN
        return start_span(self._shared, name, kind, attributes, self._span, started_ns, graded=graded or self._graded)

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        self._span.set_attributes(_without_secrets(attributes, self._shared.redactor))

    def set_content(self, name: str, value: Any) -> None:
        """Add an input or output as an attribute, if the span records them."""
        if self._content is not None:
            self._span.set_attribute(name, self._content.text(value))

    def fail(self, code: str) -> None:
        """Mark the span as failed."""
        self._span.set_attribute("error.type", self._shared.redactor.text(code))
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self, ended_ns: int | None = None) -> None:
        """End the span."""
        self._span.end(ended_ns)


class _SpanCounter(SpanProcessor):
    """Counts finished spans."""

    def __init__(self) -> None:
        self.ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span."""
        self.ended += 1


class OtelTraces:
    """The traces of one run: starts the root span, sends all spans, and reports on the sending."""

    def __init__(
        self,
        plan: TracePlan,
        *,
        redactor: Redactor,
        resource_redactor: Redactor,
        stderr: TextIO,
        uniform: Callable[[], float],
    ) -> None:
        """Start the tracer provider, which sends spans in the background.

        Args:
            resource_redactor: masks secrets in the resource's attributes; keeps other values of variables.
            uniform: returns a random number in [0, 1).

        Raises:
            Exception: the SDK rejects its environment variables.
        """
        self._plan = plan
        self._redactor = redactor
        self._monitor = SendingMonitor()
        self._counter = _SpanCounter()
        traces, rate = plan.traces, plan.traces.sample_rate
        graded = traces.capture_content or traces.capture_evaluation_content
        self._content = Content(redactor, traces.redaction_patterns) if graded else None
        self._listener = LogListener(self._monitor)
        try:
            resource = Resource.create({name: resource_redactor.text(value) for name, value in plan.resource.items()})
            self._provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
            self._provider.add_span_processor(self._counter)
            if plan.console is not None:
                self._provider.add_span_processor(ConsoleSpans(plan.console, stderr))
            if plan.otlp is not None:
                queue, batch = plan.sizes
                self._provider.add_span_processor(
                    BatchSpanProcessor(
                        otlp_exporter(plan.otlp, self._monitor),
                        max_queue_size=queue,
                        schedule_delay_millis=traces.schedule_delay_millis,
                        max_export_batch_size=batch,
                    )
                )
        except BaseException:
            self._listener.close()
            raise
        tracer = self._provider.get_tracer("holodeck_action", __version__, schema_url=SCHEMA_URL)
        content = self._content if traces.capture_content else None
        self._shared = RunTracing(tracer, redactor, content, self._content, lambda: rate >= 1.0 or uniform() < rate)

    def root(self, name: str, attributes: Attributes) -> Span:
        """Start the root span of a run."""
        return start_span(self._shared, name, "internal", attributes, None, None)

    def close(self, seconds: float) -> tuple[str, ...]:
        """Send the remaining spans within `seconds`; spans that are still unsent are lost.

        Returns:
            Notices for the user, one sentence each.
        """
        closed = threading.Event()

        def finish() -> None:
            self._provider.shutdown()
            closed.set()

        self._monitor.note_closing()
        # A daemon thread ends with the program, even if it hangs.
        threading.Thread(target=finish, name="traces", daemon=True).start()
        late = not closed.wait(seconds)
        if late:
            self._monitor.give_up()
        self._listener.close()
        return tuple(self._notices(late))

    def _notices(self, after_run: bool) -> list[str]:
        notices: list[str] = []
        if self._content is not None and self._content.slow_pattern is not None:
            notices.append(
                "observability.traces.redaction_patterns: a pattern took too long on an input or an output, so all "
                "later texts are masked; make the pattern simpler, for instance without nested repetitions"
            )
        lost = self._counter.ended - self._monitor.arrived
        if self._plan.otlp is not None and lost > 0:
            why = self._monitor.loss_reason or (
                "the collector did not accept them in time"
                if after_run
                else "more spans waited than max_queue_size allows"
            )
            notices.append(
                f"traces: {lost} of {self._counter.ended} spans did not reach {self._plan.otlp.address}: {why}; "
                "the verdict does not depend on them"
            )
        return [self._redactor.text(sentence) for sentence in notices]


def start_span(
    trace_state: RunTracing,
    name: str,
    kind: Kind,
    attributes: Attributes,
    parent: trace.Span | None,
    started_ns: int | None,
    *,
    graded: bool = False,
) -> OtelSpan:
    """Start a span; see `Span.child`. If `parent` is None, the span is the root of a trace."""
    context = trace.set_span_in_context(trace.INVALID_SPAN if parent is None else parent)
    span = trace_state.tracer.start_span(
        trace_state.redactor.text(name),
        context,
        kind=_KINDS[kind],
        attributes=_without_secrets({**attributes, "openinference.span.kind": _work(name)}, trace_state.redactor),
        start_time=started_ns,
    )
    return OtelSpan(span, trace_state, graded=graded)


def _work(name: str) -> str:
    """Return the kind of a span's work by the first word of its name, as Phoenix and Langfuse show it."""
    return _WORK.get(name.partition(" ")[0], "CHAIN")


def _without_secrets(attributes: Attributes, redactor: Redactor) -> dict[str, Any]:
    return {name: redactor.value(value) for name, value in attributes.items() if value is not None}


def program_span(name: str, attributes: Attributes, *, rate: float, content: bool, patterns: Sequence[str]) -> Span:
    """Start a child of the calling program's current span, with that program's tracer provider.

    Args:
        name: name of the span by OpenTelemetry's semantic conventions.
        attributes: attributes other than inputs and outputs, without None values; secrets in them are masked.
        rate: probability of recording the span, 0 to 1. Below a span that is not recorded, no span is recorded.
        content: whether inputs and outputs are recorded.
        patterns: regular expressions, whose matches in inputs and outputs are replaced by `***`.
    """
    if random.random() >= rate:
        return NO_SPAN
    redactor = Redactor(environment_secrets(os.environ))
    kept = Content(redactor, patterns) if content else None
    tracer = trace.get_tracer("holodeck_action", __version__, schema_url=SCHEMA_URL)
    shared = RunTracing(tracer, redactor, kept, kept, lambda: True)
    return start_span(shared, name, "internal", attributes, trace.get_current_span(), None)
