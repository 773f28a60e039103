"""What goes wrong with a model call, in plain words and with a stable code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.llm.calls import wire_error
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.text.plain import excerpt
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

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


def call_error(error: Exception, plan: ModelPlan) -> ModelCallError:
    """Describe what a provider's client raised.

    Args:
        error: the exception; the wire's own, wrapped by a client or not, keeps its sentence and its code.
        plan: the model that was asked; its key is taken out of every text.
    """
    if (wire := wire_error(error)) is not None:
        return _error(plan, wire.message, wire.code, wire.status)
    status = getattr(error, "status_code", None)
    code, sentence = _classify(error, plan)
    detail = _detail(error)
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


def malformed(plan: ModelPlan, reason: str) -> ModelCallError:
    """Describe an answer that is none."""
    return _error(plan, f"{plan.title} gave a broken answer: {excerpt(reason, _DETAIL)}", "bad_reply", None)


def _classify(error: Exception, plan: ModelPlan) -> tuple[str, str]:
    """Return code and sentence of an exception of pydantic-ai, or of the HTTP client where it comes through."""
    import httpx2
    from pydantic_ai import exceptions

    name, status = plan.title, getattr(error, "status_code", None)
    with_status = "" if status is None else f" (status {status})"
    words = _detail(error).lower() if status == 400 else ""
    if _FILTERED_WORDS in words or _FILTERED & set(_codes(getattr(error, "body", None))):
        return "content_filter", f"the content filter of {name} refused the request"
    if _TOO_LONG.search(words):
        return "context_length", f"the conversation is longer than {name} can read{with_status}"
    match error:
        case exceptions.ModelQuotaExceededError():
            return "quota", f"the account of {name} has no quota or credit left{with_status}"
        case exceptions.ModelRateLimitError():
            waits = "`limits.rate_limit_wait_s` says how long calls wait"
            return "rate_limited", f"{name} refused the call because of its rate limit{with_status}; {waits}"
        case exceptions.ModelContextWindowExceededError():
            return "context_length", f"the conversation is longer than {name} can read{with_status}"
        case exceptions.ModelAuthenticationError():
            return "authentication", f"{name} refused the key{with_status}; check {plan.key_source}"
        case exceptions.ModelNotFoundError():
            return "model_not_found", f"{name} is not known or not open at {plan.account.base_url}{with_status}"
        case exceptions.ModelUnavailableError():
            return "overloaded", f"{name} is overloaded or not available{with_status}"
        case exceptions.ModelServerError():
            return "server_error", f"{name} failed{with_status}"
        case exceptions.ModelTimeoutError() | exceptions.ModelRequestTimeout():
            return "timeout", f"{name} did not answer in time"
        case exceptions.ModelConnectionError(phase="connect" | "pool") | httpx2.ConnectError():
            return "connect", f"{name} cannot be reached at {plan.account.base_url}"
        case exceptions.ModelConnectionError() | httpx2.TransportError():
            return "disconnected", f"{name} broke off the exchange"
        case exceptions.ModelRequestRejectedError():
            return "bad_request", f"{name} refused the request{with_status}{_hint(error, plan)}"
        case exceptions.ModelHTTPError() if status == 413:
            return "bad_request", f"{name} refused the request as too large{with_status}"
        case exceptions.ModelHTTPError():
            code = "timeout" if status == 408 else "http_status"
            return code, f"{name} answered with status {status}"
        case exceptions.ContentFilterError():
            return "content_filter", f"the content filter of {name} let no answer through"
    return "bad_reply", f"{name} gave a broken answer"


def _hint(error: Exception, plan: ModelPlan) -> str:
    """Name the setting to omit when the refusal is about one that is sent."""
    text = _detail(error).lower()
    for field in ("temperature", "top_p"):
        if field in plan.settings and field in text:
            return f"; write `{field}: null` below `model:` to leave it out"
    return ""


def _detail(error: Exception) -> str:
    """Return the provider's own words, or those of the HTTP client; empty when there are none worth showing."""
    from pydantic import ValidationError
    from pydantic_ai.exceptions import AgentRunError, ModelConnectionError

    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if status == 401:
        # Providers repeat parts of the key there, and nothing else of use.
        return ""
    if body is None:
        if status is not None:
            return ""
        causes = list(_causes(error))
        wrong = next((cause for cause in causes if isinstance(cause, ValidationError)), None)
        if wrong is not None:
            fields = dict.fromkeys(".".join(map(str, item["loc"])) for item in wrong.errors())
            return excerpt(f"missing or wrong: {', '.join(fields)}", _DETAIL)
        if isinstance(error, ModelConnectionError):
            return excerpt(next((str(cause) for cause in reversed(causes) if str(cause)), ""), _DETAIL)
        return (
            excerpt(str(error), _DETAIL)
            if isinstance(error, AgentRunError)
            else f"unexpected shape ({type(error).__name__})"
        )
    for source in (body.get("error") if isinstance(body, Mapping) else None, body):
        if isinstance(source, Mapping) and isinstance(source.get("message"), str):
            return excerpt(source["message"], _DETAIL)
        if isinstance(source, str):
            return "an HTML page" if source.lstrip()[:1] == "<" else excerpt(source, _DETAIL)
    return excerpt(str(body), _DETAIL)


def _codes(body: object) -> Iterator[str]:
    """Yield the codes in an error body and the errors inside it."""
    while isinstance(body, Mapping):
        if isinstance(code := body.get("code"), str):
            yield code
        body = body.get("error") or body.get("innererror")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _error(plan: ModelPlan, message: str, code: str, status: int | None) -> ModelCallError:
    context: dict[str, object] = {"provider": plan.provider, "model": plan.name}
    if status is not None:
        context["status"] = status
    return ModelCallError(Redactor((plan.account.key,)).text(message), code, context)


def refusal_of(response: ModelResponse, plan: ModelPlan) -> str | None:
    """Return what a model said that declined to answer, perhaps nothing; None where it did not decline.

    Args:
        response: the answer, of pydantic-ai.
        plan: the model that was asked.

    Raises:
        ModelCallError: the provider's filter took the answer away (`content_filter`), or it is not whole (`bad_reply`).
    """
    details = response.provider_details or {}
    refusal = details.get("refusal")
    refused = bool(refusal) or details.get("finish_reason") == "refusal"
    if response.finish_reason == "content_filter" and not refused:
        raise filtered(plan, details)
    if plan.provider == "anthropic" and response.finish_reason is None and not details.get("finish_reason"):
        # Its streams are joined here, and one that ends too early would pass for a whole answer.
        raise malformed(plan, "it breaks off before its end")
    if response.finish_reason == "error":
        raise malformed(plan, "it ended with an error")
    if not refused:
        return None
    return refusal if isinstance(refusal, str) else response.text or ""
