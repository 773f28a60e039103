"""What tests see of the fake model server: the request that came, the answer to give, the fault to meet."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Provider = Literal["openai", "azure_openai", "anthropic", "ollama"]
Operation = Literal["chat", "embeddings"]
Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tool_calls", "content_filter", "refusal"]

ErrorKind = Literal[
    "bad_key",  # 401
    "forbidden",  # 403
    "unknown_model",  # 404
    "context_length",  # 400
    "content_filter",  # 400
    "bad_request",  # 400
    "too_large",  # 413
    "rate_limit",  # 429
    "quota",  # 429 insufficient_quota; Anthropic answers 400
    "server_error",  # 500
    "bad_gateway",  # 502, an HTML page of the proxy in front
    "unavailable",  # 503
    "overloaded",  # 529 of Anthropic; 503 elsewhere
]

WireFault = Literal[
    "reset",  # the connection is reset, nothing is answered
    "close",  # the connection is closed in order, nothing is answered
    "truncate",  # half of the answer comes, then the connection is closed: HTTP is incomplete
    "malformed",  # half of the body comes as a complete HTTP answer: HTTP is right, JSON or SSE breaks off
    "stall",  # half of the answer comes, then nothing until the client gives up
]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model; arguments that are a text are sent as they are, even if they are not JSON."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    def arguments_json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a request, the same for all providers; `call_id` says whose result a tool's message is."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    images: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came (`path`, `query`, `headers` in lower case, `body`), and what it means (the rest).

    `number` counts from 0 in the order of arrival; `time` is the server's monotonic clock in seconds. `key` is the
    credential, `model` the model or the Azure deployment. `tools` and `schema` hold the JSON schemas of the tools and
    of the structured output that is asked for; `forced` is the tool that must be called ("" for any). `inputs` are
    the texts to embed.
    """

    number: int
    time: float
    provider: Provider
    operation: Operation
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    key: str | None
    model: str
    messages: tuple[Message, ...] = ()
    tools: Mapping[str, Any] = field(default_factory=dict)
    forced: str | None = None
    schema: Mapping[str, Any] | None = None
    stream: bool = False
    inputs: tuple[str, ...] = ()

    @property
    def system(self) -> str:
        """The instructions."""
        return "\n\n".join(message.text for message in self.messages if message.role == "system")

    @property
    def text(self) -> str:
        """What the user said last."""
        return next((message.text for message in reversed(self.messages) if message.role == "user"), "")

    @property
    def results(self) -> tuple[str, ...]:
        """Results of the tools that the model has called last, when it is asked to go on with them."""
        last: list[str] = []
        for message in reversed(self.messages):
            if message.role != "tool":
                break
            last.insert(0, message.text)
        return tuple(last)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, told in each provider's own shape.

    `tools` may hold several calls (parallel). `refusal` is what the model says instead of an answer. Token counts are
    those of `tokens.split` unless given; `usage=False` leaves usage out. `alternatives` says with which probabilities
    (0 to 1) which tokens could have stood in place of a token, for log probabilities: `{"8": {"8": 0.7, "9": 0.3}}`.
    `vectors` answers embeddings. `pause` are seconds to wait between the pieces of a streamed answer.
    """

    text: str = ""
    tools: tuple[ToolCall, ...] = ()
    refusal: str | None = None
    thinking: str | None = None
    finish: Finish | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int = 0
    usage: bool = True
    alternatives: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    vectors: tuple[tuple[float, ...], ...] | None = None
    model: str | None = None
    phase: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Trouble instead of an answer; one of `error`, `wire`, `status` with `body`, or `delay` alone (answers late).

    `error` is told as the provider tells it. With `streamed` the answer begins well and the error comes as an event
    of its stream (for requests without streaming: as a status). `retry_after` is the header's value as it stands
    (seconds or an HTTP date), `retry_after_ms` that of `retry-after-ms`. `times` is how often the fault is met, None
    for always; `about` says which requests meet it.
    """

    error: ErrorKind | None = None
    wire: WireFault | None = None
    status: int | None = None
    body: bytes | str | Mapping[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: str | None = None
    retry_after_ms: str | None = None
    streamed: bool = False
    delay: float = 0.0
    times: int | None = 1
    about: Callable[[Request], bool] = lambda _: True


Reply = str | Mapping[str, Any] | list[Any] | Answer | Fault
"""What a rule or a script gives: a text, a value that is told as JSON text, an answer, or trouble."""

Rule = Callable[[Request], Reply]
