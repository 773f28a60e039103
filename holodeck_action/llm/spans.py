"""Spans as those who work see them: a few words about the work under way, which cost nothing when traces are off.

The current span is a context variable: tasks inherit it, so that what is done for one case stays below that case
however many run at once. Free of OpenTelemetry, and of everything else of weight.
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
"""`error.type` where no code of ours says what happened (semantic conventions, `error.type`)."""


class Span:
    """A piece of work, from its start to its `end`; as such, one that nobody looks at, and so is all work below it."""

    __slots__ = ()

    @property
    def content(self) -> bool:
        """Whether inputs and outputs are wanted; `set_content` does nothing otherwise."""
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
        """Start a piece of this work.

        Args:
            name: as the conventions form it; from few values.
            kind: `client` for a call of another service.
            attributes: facts without content; None is omitted.
            sampled: whether this piece is one of those of which only a share is kept (`traces.sample_rate`).
            started_ns: when it began, in nanoseconds since 1970; None for now.
            graded: whether it is an evaluation: what it and all below it read and write is asked for by itself.
        """
        return self

    def set(self, attributes: Attributes) -> None:
        """Add facts without content; None is omitted."""

    def set_content(self, name: str, value: Any) -> None:
        """Add an input or an output, a JSON value; secrets are taken out of it."""

    def fail(self, code: str) -> None:
        """Say that the work failed; `code` becomes `error.type`."""

    def end(self, ended_ns: int | None = None) -> None:
        """End the work, now or at a time in nanoseconds since 1970."""


NO_SPAN = Span()

_CURRENT: ContextVar[Span] = ContextVar("SPAN", default=NO_SPAN)


def current() -> Span:
    """Return the span of the work under way; `NO_SPAN` when traces are off."""
    return _CURRENT.get()


class Scope:
    """Makes a span the current one, and ends it; an exception that passes makes it a failed one."""

    __slots__ = ("_ends", "_span", "_token")

    def __init__(self, span: Span, *, ends: bool = True) -> None:
        """Take a started span; `ends` is false when whoever started it ends it."""
        self._span = span
        self._ends = ends

    def __enter__(self) -> Span:
        """Start the scope."""
        self._token = _CURRENT.set(self._span)
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Return to the span before."""
        _CURRENT.reset(self._token)
        if error is not None:
            self._span.fail(code_of(error))
        if self._ends:
            self._span.end()


def span(name: str, attributes: Attributes, kind: Kind = "internal", *, sampled: bool = False) -> Scope:
    """Start a piece of the work under way: `with span("case a", {}) as found: …` (see `Span.child`)."""
    return Scope(_CURRENT.get().child(name, kind, attributes, sampled=sampled, started_ns=None))


def code_of(error: BaseException) -> str:
    """Return the `error.type` of an exception: the code it carries, else what kind it is."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, TimeoutError):
        return "timeout"
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else UNEXPECTED
