"""Errors of model calls, each with a readable message and a stable code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holodeck_action.llm.calls import WireError
from holodeck_action.llm.outcomes import NAMES_RESPONSES, error_message, error_object, meaning_of
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.redaction import Redactor

_DETAIL = 300
"""Maximum characters of the provider's message that an error message quotes."""

_FILTERED = frozenset(("content_filter", "content_policy_violation", "invalid_prompt", "ResponsibleAIPolicyViolation"))
"""Codes with which OpenAI and Azure OpenAI report that their filter blocked a prompt."""

_FILTERED_WORDS = "content filtering policy"
"""Words by which a blocked prompt is recognised at Anthropic, which sends no code for it."""

_TOO_LONG = lazy_pattern(r"context[ _]?(?:length|window|size)")
"""Words by which a too long conversation is recognised at Ollama, llama.cpp, LiteLLM and other servers, which
send no code for it, or their own.
"""

_NO_MODEL = "invalid model name"
"""Words by which an unknown model is recognised at LiteLLM, whose code is the status 400."""


class ModelCallError(Exception):
    """A model call got no usable answer.

    Attributes:
        message: one sentence with the problem and a remedy; it contains no key.
        code: `authentication`, `quota`, `rate_limited`, `context_length`, `content_filter`, `model_not_found`,
            `bad_request`, `overloaded`, `server_error`, `http_status`, `timeout`, `connect`, `disconnected`,
            `bad_reply`, or a code of the wire.
        context: JSON values under `provider`, `model` and, if there was a response, `status`.
    """

    def __init__(self, message: str, code: str, context: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context = dict(context or {})


def call_error(error: WireError, plan: ModelPlan) -> ModelCallError:
    """Return the error for a call that got no answer; the model's API key is removed from the message."""
    return _make_error(plan, error.message, error.code, error.status)


def status_error(status: int, body: Any, plan: ModelPlan, redact: Redact) -> ModelCallError:
    """Return the error for an unsuccessful HTTP status.

    Args:
        status: the status, at least 300.
        body: the body of the answer as a JSON value, or as text if it is not JSON.
        plan: the model that was called; its API key is removed from messages.
        redact: removes the run's secrets from the provider's message.
    """
    error = error_object(body)
    if plan.provider == "azure_openai" and status == 400 and error.get("code") == "content_filter":
        # Azure reports a filtered answer this way too, with the categories that it found.
        inner = error.get("innererror")
        return filtered_error(plan, inner if isinstance(inner, Mapping) else None)
    detail = _detail(status, body, redact)
    code, sentence = _classify(status, body, detail, plan)
    return _make_error(plan, f"{sentence}: {detail}" if detail else sentence, code, status)


def filtered_error(plan: ModelPlan, details: Mapping[str, Any] | None) -> ModelCallError:
    """Return the error for an answer that the provider's content filter removed."""
    results = (details or {}).get("content_filter_result")
    named = sorted(
        name
        for name, result in (results.items() if isinstance(results, Mapping) else ())
        if isinstance(result, Mapping) and result.get("filtered")
    )
    reason = f" ({', '.join(named)})" if named else ""
    return _make_error(plan, f"the content filter of {plan.title} let no answer pass{reason}", "content_filter", None)


def malformed_error(plan: ModelPlan, reason: str, redact: Redact) -> ModelCallError:
    """Return the error for a malformed answer; `redact` removes the run's secrets from the reason."""
    words = Foreign.of_text(reason).short_line(redact, _DETAIL)
    return _make_error(plan, f"{plan.title} gave a broken answer: {words}", "bad_reply", None)


def schema_error(plan: ModelPlan, reason: str) -> ModelCallError:
    """Return the error for an answer schema that the model does not support."""
    return _make_error(plan, f"{plan.title} cannot answer in this schema: {reason}", "bad_request", None)


def _classify(status: int, body: Any, detail: str, plan: ModelPlan) -> tuple[str, str]:
    """Return the error code and the message for an unsuccessful HTTP status."""
    name, with_status = plan.title, f" (status {status})"
    words = detail.lower() if status == 400 else ""
    if _FILTERED_WORDS in words or _FILTERED & set(_codes(body)):
        return "content_filter", f"the content filter of {name} refused the request"
    own = "context_length" if _TOO_LONG.search(words) else "model_not_found" if _NO_MODEL in words else None
    code = own or (_anthropic_code if plan.provider == "anthropic" else _openai_code)(status, error_object(body))
    match code:
        case "quota":
            return "quota", f"the account of {name} has no quota or credit left{with_status}"
        case "rate_limited":
            waits = "`limits.rate_limit_wait_s` sets how long calls wait"
            return "rate_limited", f"{name} refused the call because of its rate limit{with_status}; {waits}"
        case "context_length":
            return "context_length", f"the conversation is longer than {name} accepts{with_status}"
        case "authentication":
            return "authentication", f"{name} refused the key{with_status}; check {plan.key_source}"
        case "model_not_found":
            return "model_not_found", f"{name} is unknown or not accessible at {plan.account.base_url}{with_status}"
        case "overloaded":
            return "overloaded", f"{name} is overloaded or not available{with_status}"
        case "server_error":
            return "server_error", f"{name} failed{with_status}"
        case "bad_request":
            large = " as too large" if status == 413 else ""
            hint = "" if large else _hint(detail, plan)
            return "bad_request", f"{name} refused the request{large}{with_status}{hint}"
    return code, f"{name} answered with status {status}"


_UNPAID = frozenset(
    (
        *("insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted"),
        *("organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded"),
    )
)
"""OpenAI's error codes with status 429 that are not rate limits, so that waiting does not help."""
_NAMED: Mapping[object, str] = {
    "context_length_exceeded": "context_length",
    "model_not_found": "model_not_found",
    "invalid_api_key": "authentication",
}
_TOO_LONG_TYPE = "exceed_context_size_error"
"""The type by which llama.cpp tells a too long conversation; its code is the HTTP status."""
_OVERLOADED = lazy_pattern("overloaded|over capacity", re.IGNORECASE)


def _openai_code(status: int, error: Mapping[str, Any]) -> str:
    code, kind, metadata = error.get("code"), error.get("type"), error.get("metadata")
    if status == 403 and isinstance(metadata, Mapping) and {"flagged_input", "reasons"} & metadata.keys():
        # OpenRouter's moderation rejected the input; the key is valid.
        return "bad_request"
    names = [each for each in (code, kind) if isinstance(each, str)]
    if _UNPAID.intersection(names):
        return "quota"
    if any(map(_OVERLOADED.search, names)):
        return "overloaded"
    named = "context_length" if kind == _TOO_LONG_TYPE else _NAMED.get(code) if isinstance(code, str) else None
    return named or meaning_of(status).code


def _anthropic_code(status: int, error: Mapping[str, Any]) -> str:
    kind, message = error.get("type"), str(error.get("message")).lower()
    match kind:
        case "invalid_request_error" if "prompt is too long" in message:
            return "context_length"
        case "invalid_request_error" if "credit balance is too low" in message:
            return "quota"
        case "rate_limit_error":
            return "rate_limited"
        case "billing_error":
            return "quota"
        case "overloaded_error":
            return "overloaded"
    return meaning_of(status).code


def _hint(detail: str, plan: ModelPlan) -> str:
    """Return a hint to omit the setting that the provider's message names; empty if it names no known setting."""
    text = detail.lower()
    if plan.api_written and plan.api == "chat" and NAMES_RESPONSES.search(detail):
        return "; `openai: {api: chat}` keeps the model from the Responses API"
    for field in ("temperature", "top_p"):
        if field in plan.settings and field in text:
            return f"; write `{field}: null` below `model:` to leave it out"
    return ""


def _detail(status: int, body: Any, redact: Redact) -> str:
    """Return the provider's message without secrets; empty for status 401, since the message may repeat parts of the
    key.
    """
    if status == 401:
        # Providers repeat parts of the key here and add nothing useful.
        return ""
    message = error_message(body)
    text = str(body) if message is None else message
    return "an HTML page" if text.lstrip()[:1] == "<" else Foreign.of_text(text).short_line(redact, _DETAIL)


def _codes(body: object) -> Iterator[str]:
    """Yield the codes of an error body and of the errors nested in it."""
    while isinstance(body, Mapping):
        if isinstance(code := body.get("code"), str):
            yield code
        body = body.get("error") or body.get("innererror")


def _make_error(plan: ModelPlan, message: str, code: str, status: int | None) -> ModelCallError:
    context: dict[str, object] = {"provider": plan.provider, "model": plan.name}
    if status is not None:
        context["status"] = status
    return ModelCallError(Redactor((plan.account.key,)).text(message), code, context)
