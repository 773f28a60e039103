"""What goes wrong with a model call, in plain words and with a stable code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from holodeck_action.llm.calls import WireError
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.redaction import Redactor

_DETAIL = 300
"""Most characters of a provider's own words in a message."""

_FILTERED = frozenset(("content_filter", "content_policy_violation", "invalid_prompt", "ResponsibleAIPolicyViolation"))
"""Codes with which OpenAI and Azure OpenAI refuse a prompt that their filter does not let through."""

_FILTERED_WORDS = "content filtering policy"
"""How Anthropic says the same, without a code."""

_TOO_LONG = re.compile(r"context (?:length|window)")
"""How Ollama and other compatible servers say that a conversation is too long, without a code."""


class ModelCallError(Exception):
    """A model call brought no answer.

    Attributes:
        message: one sentence a person can act on; it holds no key.
        code: `authentication`, `quota`, `rate_limited`, `context_length`, `content_filter`, `model_not_found`,
            `bad_request`, `overloaded`, `server_error`, `http_status`, `timeout`, `connect`, `disconnected`,
            `bad_reply`, or a code of the wire.
        context: further facts as JSON values: `provider`, `model`, and `status` when there was one.
    """

    def __init__(self, message: str, code: str, context: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context = dict(context or {})


def call_error(error: WireError, plan: ModelPlan) -> ModelCallError:
    """Describe a call without an answer; the key of the model's plan is taken out of the wire's sentence."""
    return _error(plan, error.message, error.code, error.status)


def status_error(status: int, body: Any, plan: ModelPlan, redact: Redact) -> ModelCallError:
    """Describe a status that is no success.

    Args:
        status: from 300.
        body: of the answer, a JSON value, or a text where it is none.
        plan: the model that was asked; its key is taken out of every text.
        redact: removes the run's secrets from the provider's words.
    """
    told = _told(body)
    if plan.provider == "azure_openai" and status == 400 and told.get("code") == "content_filter":
        # Its filter takes the answer away so as well, and says what it found.
        inner = told.get("innererror")
        return filtered(plan, inner if isinstance(inner, Mapping) else None)
    detail = _detail(status, body, redact)
    code, sentence = _classify(status, body, detail, plan)
    return _error(plan, f"{sentence}: {detail}" if detail else sentence, code, status)


def filtered(plan: ModelPlan, details: Mapping[str, Any] | None) -> ModelCallError:
    """Describe an answer that the provider's content filter took away."""
    results = (details or {}).get("content_filter_result")
    named = sorted(
        name
        for name, result in (results.items() if isinstance(results, Mapping) else ())
        if isinstance(result, Mapping) and result.get("filtered")
    )
    reason = f" ({', '.join(named)})" if named else ""
    return _error(plan, f"the content filter of {plan.title} let no answer through{reason}", "content_filter", None)


def malformed(plan: ModelPlan, reason: str, redact: Redact) -> ModelCallError:
    """Describe an answer that is none; `redact` removes the run's secrets from the reason, which may repeat it."""
    words = Foreign.of_text(reason).words(redact, _DETAIL)
    return _error(plan, f"{plan.title} gave a broken answer: {words}", "bad_reply", None)


def unwritable(plan: ModelPlan, reason: str) -> ModelCallError:
    """Describe a schema that a model cannot be asked for."""
    return _error(plan, f"{plan.title} cannot be asked for an answer of this schema: {reason}", "bad_request", None)


def _classify(status: int, body: Any, detail: str, plan: ModelPlan) -> tuple[str, str]:
    """Return code and sentence of a status that is no success."""
    name, with_status = plan.title, f" (status {status})"
    words = detail.lower() if status == 400 else ""
    if _FILTERED_WORDS in words or _FILTERED & set(_codes(body)):
        return "content_filter", f"the content filter of {name} refused the request"
    if _TOO_LONG.search(words):
        return "context_length", f"the conversation is longer than {name} can read{with_status}"
    match (_anthropic_code if plan.provider == "anthropic" else _openai_code)(status, _told(body)):
        case "quota":
            return "quota", f"the account of {name} has no quota or credit left{with_status}"
        case "rate_limited":
            waits = "`limits.rate_limit_wait_s` says how long calls wait"
            return "rate_limited", f"{name} refused the call because of its rate limit{with_status}; {waits}"
        case "context_length":
            return "context_length", f"the conversation is longer than {name} can read{with_status}"
        case "authentication":
            return "authentication", f"{name} refused the key{with_status}; check {plan.key_source}"
        case "model_not_found":
            return "model_not_found", f"{name} is not known or not open at {plan.account.base_url}{with_status}"
        case "overloaded":
            return "overloaded", f"{name} is overloaded or not available{with_status}"
        case "server_error":
            return "server_error", f"{name} failed{with_status}"
        case "bad_request":
            large = " as too large" if status == 413 else ""
            hint = "" if large else _hint(detail, plan)
            return "bad_request", f"{name} refused the request{large}{with_status}{hint}"
    return "timeout" if status == 408 else "http_status", f"{name} answered with status {status}"


_STATUSES: Mapping[int, str] = {
    **dict.fromkeys((400, 413, 422), "bad_request"),
    **dict.fromkeys((401, 403), "authentication"),
    402: "quota",
    404: "model_not_found",
    429: "rate_limited",
    **dict.fromkeys((503, 529), "overloaded"),
}
"""What a status says by itself; every other one from 500 is a failure of the server."""

_UNPAID = frozenset(
    (
        *("insufficient_quota", "billing_hard_limit_reached", "credit_balance_exhausted"),
        *("organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded"),
    )
)
"""Codes of OpenAI's that come with 429, like a rate limit, though waiting does not help."""
_NAMED: Mapping[object, str] = {
    "context_length_exceeded": "context_length",
    "model_not_found": "model_not_found",
    "invalid_api_key": "authentication",
}
_OVERLOADED = re.compile("overloaded|over capacity", re.IGNORECASE)


def _by_status(status: int) -> str | None:
    return _STATUSES.get(status) or ("server_error" if status >= 500 else None)


def _openai_code(status: int, told: Mapping[str, Any]) -> str | None:
    code, kind, metadata = told.get("code"), told.get("type"), told.get("metadata")
    if status == 403 and isinstance(metadata, Mapping) and {"flagged_input", "reasons"} & metadata.keys():
        # OpenRouter's moderation; the key is as good as any.
        return "bad_request"
    names = [each for each in (code, kind) if isinstance(each, str)]
    if _UNPAID.intersection(names):
        return "quota"
    if code == "context_length_exceeded":
        return "context_length"
    if any(map(_OVERLOADED.search, names)):
        return "overloaded"
    return (_NAMED.get(code) if isinstance(code, str) else None) or _by_status(status)


def _anthropic_code(status: int, told: Mapping[str, Any]) -> str | None:
    kind, message = told.get("type"), str(told.get("message")).lower()
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
    return _by_status(status)


def _told(body: Any) -> Mapping[str, Any]:
    """Return what a body says of the error, perhaps nothing."""
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def _hint(detail: str, plan: ModelPlan) -> str:
    """Name the setting to omit when the refusal is about one that is sent."""
    text = detail.lower()
    for field in ("temperature", "top_p"):
        if field in plan.settings and field in text:
            return f"; write `{field}: null` below `model:` to leave it out"
    return ""


def _detail(status: int, body: Any, redact: Redact) -> str:
    """Return the provider's own words; empty when there are none worth showing."""
    if status == 401:
        # Providers repeat parts of the key there, and nothing else of use.
        return ""
    for source in (body.get("error") if isinstance(body, Mapping) else None, body):
        if isinstance(source, Mapping) and isinstance(source.get("message"), str):
            return Foreign.of_text(source["message"]).words(redact, _DETAIL)
        if isinstance(source, str):
            page = source.lstrip()[:1] == "<"
            return "an HTML page" if page else Foreign.of_text(source).words(redact, _DETAIL)
    return Foreign.of_text(str(body)).words(redact, _DETAIL)


def _codes(body: object) -> Iterator[str]:
    """Yield the codes in an error body and the errors inside it."""
    while isinstance(body, Mapping):
        if isinstance(code := body.get("code"), str):
            yield code
        body = body.get("error") or body.get("innererror")


def _error(plan: ModelPlan, message: str, code: str, status: int | None) -> ModelCallError:
    context: dict[str, object] = {"provider": plan.provider, "model": plan.name}
    if status is not None:
        context["status"] = status
    return ModelCallError(Redactor((plan.account.key,)).text(message), code, context)
