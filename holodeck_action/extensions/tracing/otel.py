"""Spans of OpenTelemetry's SDK. Needs the packages of the `otel` extra.

A provider of our own, which nobody else sees: clients of models and tools find no tracer to use and send no headers.
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
from holodeck_action.extensions.tracing.exporters import ConsoleSpans, Listener, Watch, otlp_exporter
from holodeck_action.extensions.tracing.traces import TracePlan
from holodeck_action.llm.spans import NO_SPAN, Attributes, Kind, Span
from holodeck_action.text.redaction import MASK, Redactor
from holodeck_action.text.secrets import environment_secrets

if TYPE_CHECKING:
    import regex

PATTERN_SECONDS = 0.25
"""Longest time that the patterns may work on one value. It is spent at most once in a run: see `Content`."""
TEXT_CHARS = 8_000
"""Characters of one text that are kept."""
VALUE_CHARS = 32_000
"""Characters of one value, as JSON, that are kept."""


class Content:
    """Makes attributes of inputs and outputs.

    A pattern that runs out of time is not tried again: from then on nothing of inputs and outputs is kept, since
    nobody knows what the pattern would have found.
    """

    def __init__(self, redactor: Redactor, patterns: Sequence[str]) -> None:
        """Compile the patterns.

        Args:
            patterns: regular expressions that compile; what they match becomes `***`.
        """
        self._redactor = redactor
        self._patterns = _compiled(patterns)
        self.slow: str | None = None
        """The pattern that ran out of time; None when none did."""

    def text(self, value: Any) -> str:
        """Return a JSON value as the text of an attribute: a text as it is, anything else as JSON.

        Of a list that is too long the last entries are kept: in a conversation, what was said last.
        """
        cleaned = self._clean(value)
        if isinstance(cleaned, str):
            return cleaned
        if isinstance(cleaned, list):
            return _last_of(cleaned)
        return _json(cleaned)[:VALUE_CHARS]

    def _clean(self, value: Any) -> Any:
        value = self._redactor.value(value)
        if self._patterns:
            # One budget for the whole value, however many texts it holds.
            value = self._without(value, perf_counter() + PATTERN_SECONDS)
            if self.slow is not None:
                return MASK
        return _cut(value)

    def _without(self, value: Any, until: float) -> Any:
        if isinstance(value, str):
            return self._replaced(value, until)
        if isinstance(value, list | tuple):
            return [self._without(item, until) for item in value]
        if isinstance(value, dict):
            return {self._replaced(str(key), until): self._without(item, until) for key, item in value.items()}
        return value

    def _replaced(self, text: str, until: float) -> str:
        for pattern in self._patterns:
            left = until - perf_counter()
            if self.slow is not None or left <= 0:
                self.slow = self.slow or pattern.pattern
                return MASK
            try:
                text = pattern.sub(MASK, text, timeout=left)
            except TimeoutError:
                self.slow = pattern.pattern
                return MASK
        return text


def _compiled(patterns: Sequence[str]) -> list[regex.Pattern[str]]:
    if not patterns:
        return []
    # Only suites with patterns pay for the import.
    import regex

    return [regex.compile(pattern) for pattern in patterns]


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARS else f"{value[:TEXT_CHARS]}… ({len(value):,} characters)"
    if isinstance(value, list | tuple):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return value


def _last_of(items: list[Any]) -> str:
    kept: list[str] = []
    left = VALUE_CHARS
    for item in reversed(items):
        text = _json(item)
        left -= len(text)
        if left < 0:
            break
        kept.append(text)
    return f"[{', '.join(reversed(kept))}]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
"""The semantic conventions that the spans follow; later ones hold those for generative AI in a place of their own."""

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class Shared(Struct, frozen=True):
    """What all spans of a run share: who makes them, what is taken out of them, and which share of trials is kept.

    `content` makes inputs and outputs, `graded` those of evaluations and of what is below them; None where they are not
    wanted.
    """

    tracer: trace.Tracer
    redactor: Redactor
    content: Content | None
    graded: Content | None
    keeps: Callable[[], bool]


class OtelSpan(Span):
    """A span of the SDK, without secrets."""

    __slots__ = ("_content", "_graded", "_shared", "_span")

    def __init__(self, span: trace.Span, shared: Shared, *, graded: bool) -> None:
        self._span = span
        self._shared = shared
        self._graded = graded
        self._content = shared.graded if graded else shared.content

    @property
    def content(self) -> bool:
        """Whether inputs and outputs are wanted."""
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
        """Start a piece of this work; one that is not kept keeps nothing below it either."""
        if sampled and not self._shared.keeps():
            return NO_SPAN
        return start(self._shared, name, kind, attributes, self._span, started_ns, graded=graded or self._graded)

    def set(self, attributes: Attributes) -> None:
        """Add facts."""
        self._span.set_attributes(_without_secrets(attributes, self._shared.redactor))

    def set_content(self, name: str, value: Any) -> None:
        """Add an input or an output, where they are wanted."""
        if self._content is not None:
            self._span.set_attribute(name, self._content.text(value))

    def fail(self, code: str) -> None:
        """Say that the work failed."""
        self._span.set_attribute("error.type", self._shared.redactor.text(code))
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self, ended_ns: int | None = None) -> None:
        """End the work."""
        self._span.end(ended_ns)


class _Counter(SpanProcessor):
    """Counts the spans that ended."""

    def __init__(self) -> None:
        self.ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Count one."""
        self.ended += 1


class OtelTraces:
    """The traces of a run, from its first span to what is to be said about them."""

    def __init__(
        self,
        plan: TracePlan,
        *,
        redactor: Redactor,
        named: Redactor,
        stderr: TextIO,
        uniform: Callable[[], float],
    ) -> None:
        """Start sending in the background.

        Args:
            named: masks secrets in what the suite says of its resource, where values of variables are meant to stand.
            uniform: a random number from 0 to below 1.

        Raises:
            Exception: whatever the SDK says of its own variables.
        """
        self._plan = plan
        self._redactor = redactor
        self._watch = Watch()
        self._counter = _Counter()
        traces, rate = plan.traces, plan.traces.sample_rate
        graded = traces.capture_content or traces.capture_evaluation_content
        self._content = Content(redactor, traces.redaction_patterns) if graded else None
        self._listener = Listener(self._watch)
        try:
            resource = Resource.create({name: named.text(value) for name, value in plan.resource.items()})
            self._provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
            self._provider.add_span_processor(self._counter)
            if plan.console is not None:
                self._provider.add_span_processor(ConsoleSpans(plan.console, stderr))
            if plan.otlp is not None:
                queue, batch = plan.sizes
                self._provider.add_span_processor(
                    BatchSpanProcessor(
                        otlp_exporter(plan.otlp, self._watch),
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
        self._shared = Shared(tracer, redactor, content, self._content, lambda: rate >= 1.0 or uniform() < rate)

    def root(self, name: str, attributes: Attributes) -> Span:
        """Start the span of a run."""
        return start(self._shared, name, "internal", attributes, None, None)

    def close(self, seconds: float) -> tuple[str, ...]:
        """Send what waits, for at most some seconds.

        Returns:
            What the reader should know, one sentence each.
        """
        closed = threading.Event()

        def finish() -> None:
            self._provider.shutdown()
            closed.set()

        self._watch.closing()
        # A daemon: what still hangs then ends with the program.
        threading.Thread(target=finish, name="traces", daemon=True).start()
        late = not closed.wait(seconds)
        if late:
            self._watch.give_up()
        self._listener.close()
        return tuple(self._notices(late))

    def _notices(self, late: bool) -> list[str]:
        notices: list[str] = []
        if self._content is not None and self._content.slow is not None:
            notices.append(
                "observability.traces.redaction_patterns: one took too long on an input or an output, so the spans "
                "after it hold none; make it simpler, for instance without one repetition inside another"
            )
        lost = self._counter.ended - self._watch.arrived
        if self._plan.otlp is not None and lost > 0:
            why = self._watch.lost or (
                "it did not take them in time" if late else "more of them came than max_queue_size lets wait"
            )
            notices.append(
                f"traces: {lost} of {self._counter.ended} spans did not reach {self._plan.otlp.address}: {why}; "
                "the verdict does not depend on them"
            )
        return [self._redactor.text(sentence) for sentence in notices]


def start(
    shared: Shared,
    name: str,
    kind: Kind,
    attributes: Attributes,
    parent: trace.Span | None,
    started_ns: int | None,
    *,
    graded: bool = False,
) -> OtelSpan:
    """Start a span; see `Span.child`. Without a parent it is the first of a trace."""
    context = trace.set_span_in_context(trace.INVALID_SPAN if parent is None else parent)
    span = shared.tracer.start_span(
        shared.redactor.text(name),
        context,
        kind=_KINDS[kind],
        attributes=_without_secrets(attributes, shared.redactor),
        start_time=started_ns,
    )
    return OtelSpan(span, shared, graded=graded)


def _without_secrets(attributes: Attributes, redactor: Redactor) -> dict[str, Any]:
    return {name: redactor.value(value) for name, value in attributes.items() if value is not None}


def program_span(name: str, attributes: Attributes, *, rate: float, content: bool, patterns: Sequence[str]) -> Span:
    """Start a span below the current one of a program that is not ours, with the tracer provider that it has set up.

    Args:
        name: as the conventions form it.
        attributes: facts without content; None is left out. Secrets of the environment are taken out.
        rate: share of the spans that are kept, 0 to 1; of the others nothing below them is kept either.
        patterns: regular expressions; what they match in inputs and outputs becomes `***`.
    """
    if random.random() >= rate:
        return NO_SPAN
    redactor = Redactor(environment_secrets(os.environ))
    kept = Content(redactor, patterns) if content else None
    tracer = trace.get_tracer("holodeck_action", __version__, schema_url=SCHEMA_URL)
    shared = Shared(tracer, redactor, kept, kept, lambda: True)
    return start(shared, name, "internal", attributes, trace.get_current_span(), None)
