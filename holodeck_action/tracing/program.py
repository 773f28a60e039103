"""Spans in a program that is not ours, with the tracer provider that it has set up. Needs the `otel` extra."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

from opentelemetry import trace

from holodeck_action import __version__
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.tracing.content import Content
from holodeck_action.tracing.otel import SCHEMA_URL, OtelSpan, Shared, start
from holodeck_action.tracing.spans import NO_SPAN, Attributes, Span


def program_span(name: str, attributes: Attributes, *, rate: float, content: bool, patterns: Sequence[str]) -> Span:
    """Start a span below the program's current one.

    Secrets of the environment are taken out of it.

    Args:
        name: as the conventions form it.
        attributes: facts without content; None is left out.
        rate: share of the spans that are kept, 0 to 1; of the others nothing below them is kept either.
        content: whether inputs and outputs are wanted.
        patterns: regular expressions; what they match in inputs and outputs becomes `***`.
    """
    if random.random() >= rate:
        return NO_SPAN
    redactor = Redactor(environment_secrets(os.environ))
    kept = Content(redactor, patterns) if content else None
    shared = Shared(
        trace.get_tracer("holodeck_action", __version__, schema_url=SCHEMA_URL),
        redactor,
        kept,
        kept,
        lambda: True,
    )
    found: OtelSpan = start(shared, name, "internal", attributes, trace.get_current_span(), None)
    return found
