"""A model call as a span, by the conventions for generative AI (docs/observability.md); headers are no part of it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from holodeck_action.llm.calls import Answer, Call, CallRecord
from holodeck_action.llm.messages import finish_reasons, input_messages, output_messages
from holodeck_action.tracing.spans import NO_SPAN, Attributes, Scope, Span, current, span

_PROVIDERS = {"azure_openai": "azure.ai.openai"}
"""Names of providers in the conventions where they differ from ours."""
_PORTS = {"http": 80, "https": 443}


def call_span(call: Call) -> Scope:
    """Start the span of a call, from before it is looked up until it is answered."""
    if current() is NO_SPAN:
        return Scope(NO_SPAN)
    document = call.document if isinstance(call.document, Mapping) else {}
    operation = "embeddings" if call.request.url.path.endswith(("/embeddings", "/embed")) else "chat"
    model = document.get("model")
    if not isinstance(model, str):
        return span(operation, _asked(call, document, operation, None), "client")
    return span(f"{operation} {model}", _asked(call, document, operation, model), "client")


def call_ended(found: Span, call: Call, record: CallRecord, answer: Answer | None) -> None:
    """Add how a call went to its span.

    Args:
        found: the span.
        call: the call.
        record: what is noted about it.
        answer: None when there was none.
    """
    if found is NO_SPAN:
        return
    found.set(
        {
            "gen_ai.response.model": record.model or None,
            "gen_ai.usage.input_tokens": record.tokens.prompt,
            "gen_ai.usage.output_tokens": record.tokens.completion,
            "gen_ai.usage.cache_read.input_tokens": record.tokens.cached,
            "http.response.status_code": record.status,
            "holodeck_action.call.cached": record.cached,
            "holodeck_action.call.attempts": record.attempts,
            "holodeck_action.call.cost_usd": record.cost_usd,
        }
    )
    if record.error is not None:
        found.fail(record.error)
    elif record.status is not None and record.status >= 400:
        found.fail(str(record.status))
    if answer is not None and answer.status < 400:
        found.set({"gen_ai.response.finish_reasons": finish_reasons(answer.payload) or None})
    if found.content:
        if messages := input_messages(call.document):
            found.set_content("gen_ai.input.messages", messages)
        if answer is not None and (messages := output_messages(answer.payload)):
            found.set_content("gen_ai.output.messages", messages)


def _asked(call: Call, document: Mapping[str, object], operation: str, model: str | None) -> Attributes:
    provider = call.account.provider
    parts = urlsplit(call.account.base_url)
    try:
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        port = None
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
        "gen_ai.request.temperature": _number(document, "temperature"),
        "gen_ai.request.top_p": _number(document, "top_p"),
        "gen_ai.request.max_tokens": _whole(document, "max_completion_tokens", "max_tokens"),
        "server.address": parts.hostname,
        "server.port": port,
        "holodeck_action.call.kind": call.context.kind,
    }


def _whole(document: Mapping[str, object], *names: str) -> int | None:
    values = (document.get(name) for name in names)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def _number(document: Mapping[str, object], name: str) -> float | None:
    value = document.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
