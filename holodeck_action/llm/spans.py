"""The interface of trace spans. If tracing is off, all its operations do nothing.

The current span is in a context variable, which tasks inherit, so the spans of concurrent cases have separate parents.
This module does not import OpenTelemetry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Literal

Kind = Literal["internal", "client"]
Attribute = str | bool | int | float | tuple[str, ...] | None
Attributes = Mapping[str, Attribute]

UNEXPECTED = "_OTHER"
"""The `error.type` of errors without a code, as defined by the semantic conventions."""


class Span:
    """A unit of work that is recorded in a trace, from its start to `end`. This base class is the span of a run without
    traces: it records nothing, and neither do its children."""

    __slots__ = ()

    @property
    def content(self) -> bool:
        """Whether inputs and outputs are recorded; otherwise `set_content` does nothing."""
        return False

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
        """Start a child span.

        Args:
            name: name of the span according to the conventions, from a small set of values.
            kind: `client` for a call of another service.
            attributes: attributes without inputs and outputs; None values are omitted.
            sampled: whether only a sample of these spans is kept (`traces.sample_rate`).
            started_ns: start time in nanoseconds since 1970; None if the span starts now.
            graded: whether the span is an evaluation. Recording the content of an evaluation and its children is
                enabled separately.
        """
        return self

    def set(self, attributes: Attributes) -> None:
        """Add attributes without inputs and outputs; None values are omitted."""

    def set_content(self, name: str, value: Any) -> None:
        """Add an input or output, a JSON value; secrets are removed."""

    def fail(self, code: str) -> None:
        """Mark the work as failed; `code` becomes `error.type`."""

    def end(self, ended_ns: int | None = None) -> None:
        """End the span, now or at a time in nanoseconds since 1970."""


NO_SPAN = Span()

_CURRENT: ContextVar[Span] = ContextVar("SPAN", default=NO_SPAN)


def current() -> Span:
    """Return the current span; `NO_SPAN` if traces are off."""
    return _CURRENT.get()


class SpanScope:
    """Makes a span the current one within a block and ends it after the block; an exception marks the span as
    failed."""

    __slots__ = ("_ends", "_span", "_token")

    def __init__(self, span: Span, *, ends_span: bool = True) -> None:
        """Create the scope of a started span; with `ends_span` False the caller ends the span."""
        self._span = span
        self._ends = ends_span

    def __enter__(self) -> Span:
        """Make the span current."""
        self._token = _CURRENT.set(self._span)
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous span."""
        _CURRENT.reset(self._token)
        if error is not None:
            self._span.fail(code_of(error))
        if self._ends:
            self._span.end()


def span(name: str, attributes: Attributes, kind: Kind = "internal", *, sampled: bool = False) -> SpanScope:
    """Start a child of the current span: `with span("case a", {}) as found: …` (see `Span.child`)."""
    return SpanScope(_CURRENT.get().child(name, kind, attributes, sampled=sampled, started_ns=None))


def code_of(error: BaseException) -> str:
    """Return the `error.type` of an exception: `cancelled`, `timeout`, its `code`, or a default."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, TimeoutError):
        return "timeout"
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else UNEXPECTED
