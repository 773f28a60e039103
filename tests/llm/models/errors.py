"""Errors as each provider tells them: status, headers and the body's own shape and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.llm.models.shapes import numbered
from tests.llm.models.values import ErrorKind, Request

_QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
    "read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
)
_BAD_GATEWAY = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>cloudflare</center>\r\n</body>\r\n</html>\r\n"
)
_ENVOY = "upstream connect error or disconnect/reset before headers. reset reason: connection timeout"
_AZURE_FILTER = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify "
    "your prompt and retry. To learn more about our content filtering policies please read our documentation: "
    "https://go.microsoft.com/fwlink/?linkid=2198766"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error's status, body (a text is sent as it is) and headers."""

    status: int
    body: Mapping[str, Any] | str
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(kind: ErrorKind, request: Request) -> Refusal:
    """Return an error as the request's provider tells it."""
    if kind == "bad_gateway":
        return Refusal(502, _BAD_GATEWAY, {"content-type": "text/html"})
    if request.provider == "openai":
        return _openai(kind, request)
    if request.provider == "azure_openai":
        return _azure(kind, request)
    if request.provider == "anthropic":
        return _anthropic(kind, request)
    return _ollama(kind, request)


def invalid(request: Request, text: str, param: str | None = None, code: str | None = None) -> Refusal:
    """Return the answer to a request that breaks the API's description."""
    if request.provider == "anthropic":
        return _typed(request, 400, "invalid_request_error", text)
    if request.provider == "ollama":
        return _ollama_says(request, 400, text, "invalid_request_error")
    return Refusal(400, openai_body(text, "invalid_request_error", param, code))


def openai_body(text: str, kind: str | None, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error's body in OpenAI's shape."""
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


def _openai(kind: ErrorKind, request: Request) -> Refusal:
    model = request.model
    wrong = "invalid_request_error"
    table: dict[str, tuple[int, str, str, str | None, str | None]] = {
        "bad_key": (401, _incorrect(request.key), wrong, None, "invalid_api_key"),
        "forbidden": (
            403,
            f"Project `proj_fake` does not have access to model `{model}`",
            wrong,
            None,
            "model_not_found",
        ),
        "unknown_model": (
            404,
            f"The model `{model}` does not exist or you do not have access to it.",
            wrong,
            None,
            "model_not_found",
        ),
        "context_length": (
            400,
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
            "Please reduce the length of the messages.",
            wrong,
            "messages",
            "context_length_exceeded",
        ),
        "content_filter": (
            400,
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with "
            "a different prompt: https://platform.openai.com/docs/guides/reasoning#advice-on-prompting",
            wrong,
            None,
            "invalid_prompt",
        ),
        "bad_request": (400, "Invalid value for 'messages'.", wrong, "messages", "invalid_value"),
        "too_large": (413, "Request entity too large.", wrong, None, None),
        "rate_limit": (
            429,
            f"Rate limit reached for {model} in organization org-fake on tokens per min (TPM): Limit 30000, "
            "Used 29500, Requested 1500. Please try again in 2s. Visit "
            "https://platform.openai.com/account/rate-limits to learn more.",
            "tokens",
            None,
            "rate_limit_exceeded",
        ),
        "quota": (429, _QUOTA, "insufficient_quota", None, "insufficient_quota"),
        "server_error": (
            500,
            "The server had an error while processing your request. Sorry about that! You can retry your request, or "
            "contact us through our help center at help.openai.com if the error persists.",
            "server_error",
            None,
            None,
        ),
    }
    busy = (
        503,
        "The server is currently overloaded with other requests. Sorry about that! You can retry your request.",
        "server_error",
        None,
        None,
    )
    status, text, type_, param, code = table.get(kind, busy)
    return Refusal(status, openai_body(text, type_, param, code))


def _incorrect(key: str | None) -> str:
    # OpenAI shows the ends of the key that it refuses.
    shown = (key or "")[:8] + "*" * max(len(key or "") - 12, 0) + (key or "")[-4:]
    return (
        f"Incorrect API key provided: {shown}. You can find your API key at "
        "https://platform.openai.com/account/api-keys."
    )


def _azure(kind: ErrorKind, request: Request) -> Refusal:
    version = request.query.get("api-version", "v1")
    table: dict[str, tuple[int, str, str]] = {
        "bad_key": (
            401,
            "401",
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key "
            "for an active subscription and use a correct regional API endpoint for your resource.",
        ),
        "forbidden": (403, "AccessDenied", "Access denied due to Virtual Network/Firewall rules."),
        "unknown_model": (
            404,
            "DeploymentNotFound",
            "The API deployment for this resource does not exist. If you created the deployment within the last 5 "
            "minutes, please wait a moment and try again.",
        ),
        "rate_limit": (
            429,
            "429",
            f"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version {version} have exceeded "
            "token rate limit of your current OpenAI S0 pricing tier. Please retry after 2 seconds. Please go here: "
            "https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit.",
        ),
        "server_error": (500, "InternalServerError", "Internal server error"),
        "unavailable": (503, "ServiceUnavailable", "The service is temporarily unable to process your request."),
        "overloaded": (503, "ServiceUnavailable", "The service is temporarily unable to process your request."),
    }
    if kind == "content_filter":
        return Refusal(400, _azure_filtered())
    if kind not in table:
        return _openai(kind, request)
    status, code, text = table[kind]
    return Refusal(status, {"error": {"code": code, "message": text}})


def _azure_filtered() -> dict[str, Any]:
    result: dict[str, Any] = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual")}
    result |= {
        "violence": {"filtered": True, "severity": "high"},
        "jailbreak": {"filtered": False, "detected": False},
    }
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": result}
    return {
        "error": {
            "message": _AZURE_FILTER,
            "type": None,
            "param": "prompt",
            "code": "content_filter",
            "status": 400,
            "innererror": inner,
        }
    }


def _anthropic(kind: ErrorKind, request: Request) -> Refusal:
    wrong = "invalid_request_error"
    table: dict[str, tuple[int, str, str]] = {
        "bad_key": (401, "authentication_error", "invalid x-api-key"),
        "forbidden": (
            403,
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
        ),
        "unknown_model": (404, "not_found_error", f"model: {request.model}"),
        "context_length": (400, wrong, "prompt is too long: 209871 tokens > 200000 maximum"),
        "content_filter": (400, wrong, "Output blocked by content filtering policy"),
        "bad_request": (400, wrong, "messages: at least one message is required"),
        "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
        "rate_limit": (
            429,
            "rate_limit_error",
            "This request would exceed the rate limit for your organization of 50,000 input tokens per minute. For "
            "details, refer to: https://docs.claude.com/en/api/rate-limits.",
        ),
        "quota": (
            400,
            wrong,
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or "
            "purchase credits.",
        ),
        "server_error": (500, "api_error", "Internal server error"),
        "overloaded": (529, "overloaded_error", "Overloaded"),
    }
    if kind not in table:
        return Refusal(503, _ENVOY, {"content-type": "text/plain"})
    return _typed(request, *table[kind])


def _typed(request: Request, status: int, kind: str, text: str) -> Refusal:
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": numbered("req_", request)}
    return Refusal(status, body)


def _ollama(kind: ErrorKind, request: Request) -> Refusal:
    table: dict[str, tuple[int, str, str]] = {
        "bad_key": (401, "unauthorized", "authentication_error"),
        "quota": (
            429,
            "you've reached your usage limit, please wait or upgrade to continue",
            "rate_limit_error",
        ),
        "forbidden": (403, "this model requires a subscription, upgrade for access", "api_error"),
        "unknown_model": (404, f"model '{request.model}' not found", "not_found_error"),
        "context_length": (400, "the input length exceeds the context length", "invalid_request_error"),
        "content_filter": (400, "the request was refused", "invalid_request_error"),
        "bad_request": (400, "invalid message format", "invalid_request_error"),
        "too_large": (413, "request entity too large", "invalid_request_error"),
        "rate_limit": (429, "too many requests", "rate_limit_error"),
        "server_error": (
            500,
            "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error, "
            "check ollama server logs for details",
            "api_error",
        ),
    }
    busy = (503, "server busy, please try again.  maximum pending requests exceeded", "api_error")
    return _ollama_says(request, *table.get(kind, busy))


def _ollama_says(request: Request, status: int, text: str, kind: str) -> Refusal:
    if request.path.startswith("/api/"):
        return Refusal(status, {"error": text})
    return Refusal(status, openai_body(text, kind))
