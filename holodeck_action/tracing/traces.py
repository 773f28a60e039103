"""Traces of one suite's run, opened before its first case and closed behind its last."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TextIO

from holodeck_action.suite.values import Suite
from holodeck_action.text.plain import cut
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.tracing.plan import header_secrets, plan_traces
from holodeck_action.tracing.spans import NO_SPAN, Attributes, Scope, Span

FLUSH_S = 2.0
"""Longest time for which a run waits for its collectors at its end, in seconds."""

_INSTALL = "install it with: pip install 'holodeck-action[otel]'"


class _Opened(Protocol):
    """`holodeck_action.tracing.otel.OtelTraces`."""

    def root(self, name: str, attributes: Attributes) -> Span: ...

    def close(self, seconds: float) -> tuple[str, ...]: ...


class Traces:
    """The traces of one run; those of a suite that asks for none do nothing.

    Attributes:
        notices: what the reader should know before the run, one sentence each.
    """

    def __init__(self, opened: _Opened | None = None, notices: tuple[str, ...] = ()) -> None:
        self.notices = notices
        self._opened = opened

    def run(self, name: str, attributes: Attributes) -> Scope:
        """Return the scope of the run: `with traces.run("run shop", {}): …`."""
        return Scope(NO_SPAN if self._opened is None else self._opened.root(name, attributes))

    def close(self, seconds: float) -> tuple[str, ...]:
        """Send what waits, for at most some seconds, and return what the reader should know, one sentence each."""
        opened, self._opened = self._opened, None
        return () if opened is None else opened.close(seconds)


class FlushTime:
    """The seconds that all suites of a program may together wait for their collectors."""

    def __init__(self, seconds: float = FLUSH_S, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._left = seconds
        self._monotonic = monotonic

    def close(self, traces: Traces) -> tuple[str, ...]:
        """Close traces in the time that is left."""
        began = self._monotonic()
        notices = traces.close(max(0.0, self._left))
        self._left -= self._monotonic() - began
        return notices


def secrets_of(suite: Suite, environ: Mapping[str, str]) -> frozenset[str]:
    """Return what the headers of collectors keep secret."""
    return header_secrets(suite.agent.observability, environ)


@contextmanager
def traced_run(
    suite: Suite,
    environ: Mapping[str, str],
    redactor: Redactor,
    stderr: TextIO,
    flush: FlushTime,
    tell: Callable[[str], None],
) -> Iterator[None]:
    """Trace what runs inside; `tell` gets what the reader should know, one sentence each (see `open_traces`)."""
    traces = open_traces(suite, environ, redactor, stderr)
    for notice in traces.notices:
        tell(notice)
    try:
        with traces.run(f"run {suite.name}", {"holodeck_action.suite.name": suite.name}):
            yield
    finally:
        for notice in flush.close(traces):
            tell(notice)


def open_traces(
    suite: Suite,
    environ: Mapping[str, str],
    redactor: Redactor,
    stderr: TextIO,
    uniform: Callable[[], float] = random.random,
) -> Traces:
    """Open the traces that a suite asks for; nothing is imported when it asks for none.

    Args:
        suite: the suite.
        environ: the job's environment.
        redactor: masks secrets in spans.
        stderr: where the console exporter writes.
        uniform: a random number from 0 to below 1, for `sample_rate`.
    """
    asked = plan_traces(suite.agent.observability, suite.name, environ)
    notices = tuple(redactor.text(notice) for notice in asked.notices)
    if asked.plan is None:
        return Traces(notices=notices)
    # Variables are meant to stand in these attributes; what is a secret by its name or by the policy file is not.
    named = Redactor({*environment_secrets(environ), *suite.policy.secrets, *secrets_of(suite, environ)})
    try:
        from holodeck_action.tracing.otel import OtelTraces

        opened = OtelTraces(asked.plan, redactor=redactor, named=named, stderr=stderr, uniform=uniform)
    except ImportError as error:
        missing = (
            f"observability: traces need a package that is not installed ({error.name or error}), so none are sent"
        )
        return Traces(notices=(*notices, f"{missing}; {_INSTALL}"))
    except Exception as error:  # noqa: BLE001 - no suite fails because of its traces
        sentence = cut(redactor.text(f"observability: traces cannot be sent: {type(error).__name__}: {error}"), 500)
        return Traces(notices=(*notices, sentence))
    return Traces(opened, notices)
