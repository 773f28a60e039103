"""Which provider and which call an address is, and what its answers carry in their headers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.llm.models import anthropic, errors, ollama, openai, responses
from tests.llm.models.connection import Incoming
from tests.llm.models.shapes import numbered
from tests.llm.models.values import Answer, Operation, Provider, Request

_AZURE = re.compile(
    r"/openai/(?:v1|deployments/(?P<deployment>[^/]+))/(?P<call>chat/completions|embeddings)|/openai/(?:v1/)?(?P<other>responses)"
)
_EVENTS = "text/event-stream; charset=utf-8"
_JSON = "application/json"

Stream = Callable[[Request, Answer, Mapping[str, Any] | None], list[bytes]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one call of one provider is read and answered."""

    provider: Provider
    operation: Operation
    meaning: Callable[[Mapping[str, Any]], dict[str, Any]]
    whole: Callable[[Request, Answer], dict[str, Any]]
    stream: Stream
    stream_type: str = _EVENTS
    deployment: str | None = None

    def read(self, incoming: Incoming, number: int) -> Request:
        """Return a request with its meaning; a body that cannot be understood has none and is refused later."""
        body: Any
        meaning: dict[str, Any]
        try:
            body = json.loads(incoming.body)
            meaning = self.meaning(body)
        except (ValueError, KeyError, TypeError, AttributeError):
            body, meaning = None, {"model": ""}
        if self.deployment is not None:
            meaning["model"] = self.deployment
        return Request(
            number=number,
            time=asyncio.get_running_loop().time(),
            provider=self.provider,
            operation=self.operation,
            path=incoming.path,
            query=incoming.query,
            headers=incoming.headers,
            body=body,
            key=_key(self.provider, incoming.headers),
            **meaning,
        )


def find(incoming: Incoming, ollama_port: bool) -> Dialect | errors.Refusal:
    """Return whose call a request is, or the answer to an address that does not exist."""
    path = incoming.path
    if incoming.method == "POST":
        if ollama_port:
            if path in _OLLAMA:
                return _OLLAMA[path]
        elif path in _MAIN:
            return _MAIN[path]
        elif match := _AZURE.fullmatch(path):
            return _openai_like("azure_openai", match["call"] or match["other"], match["deployment"])
    if ollama_port:
        return errors.Refusal(404, "404 page not found", {"content-type": "text/plain"})
    if path.startswith("/openai/"):
        return errors.Refusal(404, {"error": {"code": "404", "message": "Resource not found"}})
    text = f"Invalid URL ({incoming.method} {path})"
    return errors.Refusal(404, errors.openai_body(text, "invalid_request_error"))


def headers_of(request: Request, kind: str = _JSON) -> dict[str, str]:
    """Return the headers that a provider's answers carry."""
    headers = {"content-type": kind}
    if request.provider == "openai":
        return headers | {
            "x-request-id": numbered("req_", request),
            "openai-organization": "org-fake",
            "openai-processing-ms": "12",
            "openai-version": "2020-10-01",
            "x-ratelimit-limit-requests": "10000",
            "x-ratelimit-remaining-requests": "9999",
            "x-ratelimit-reset-requests": "6ms",
        }
    if request.provider == "azure_openai":
        return headers | {
            "apim-request-id": numbered("", request, 32),
            "x-ms-region": "Sweden Central",
            "x-ratelimit-remaining-requests": "249",
            "x-ratelimit-remaining-tokens": "249000",
        }
    if request.provider == "anthropic":
        return headers | {
            "request-id": numbered("req_", request),
            "anthropic-ratelimit-requests-limit": "4000",
            "anthropic-ratelimit-requests-remaining": "3999",
            "anthropic-ratelimit-requests-reset": "2026-11-02T12:00:00Z",
        }
    return headers


def _key(provider: Provider, headers: Mapping[str, str]) -> str | None:
    own = {"azure_openai": "api-key", "anthropic": "x-api-key"}.get(provider)
    if own is not None and headers.get(own):
        return headers[own]
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    return credential.strip() if scheme.lower() == "bearer" and credential.strip() else None


def _no_stream(request: Request, answer: Answer, error: Mapping[str, Any] | None) -> list[bytes]:
    raise TypeError("embeddings are not streamed")


def _openai_like(provider: Provider, call: str, deployment: str | None = None) -> Dialect:
    if call == "embeddings":
        return Dialect(
            provider, "embeddings", openai.read_embeddings, openai.embeddings, _no_stream, deployment=deployment
        )
    if call == "responses":
        return Dialect(provider, "chat", responses.read, responses.response, responses.events)
    return Dialect(provider, "chat", openai.read_chat, openai.chat, openai.chat_events, deployment=deployment)


_MAIN = {
    "/v1/chat/completions": _openai_like("openai", "chat/completions"),
    "/v1/responses": _openai_like("openai", "responses"),
    "/v1/embeddings": _openai_like("openai", "embeddings"),
    "/v1/messages": Dialect("anthropic", "chat", anthropic.read, anthropic.message, anthropic.events),
}
_OLLAMA = {
    "/v1/chat/completions": _openai_like("ollama", "chat/completions"),
    "/v1/embeddings": _openai_like("ollama", "embeddings"),
    "/api/chat": Dialect("ollama", "chat", ollama.read_chat, ollama.chat, ollama.chat_lines, "application/x-ndjson"),
    "/api/embed": Dialect("ollama", "embeddings", ollama.read_embeddings, ollama.embeddings, _no_stream),
}
