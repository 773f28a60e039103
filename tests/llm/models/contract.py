"""What the providers refuse in a request: checked in every request, told as the provider tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.llm.models import errors, responses_contract
from tests.llm.models.problems import Problem, not_strict, reasons
from tests.llm.models.values import Request

CHAT_FIELDS = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
"""What a chat completion may hold; the tests compare it with OpenAI's own client."""

MESSAGE_FIELDS = frozenset(
    {
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
        "workspace_id",
    }
)
"""What a message of Anthropic may hold; the tests compare it with Anthropic's own client."""

BETA_FIELDS = frozenset(
    {
        "billing_policy",
        "compaction",
        "context_management",
        "fallback_credit_token",
        "fallbacks",
        "mcp_servers",
        "thread",
    }
)
"""What a message may hold besides when it is asked for with `?beta=true`."""

_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_TOOLS_ELSEWHERE = ("gpt-5.5", "gpt-5.6", "gpt-6")
"""Models that take tools in chat completions only while they do not reason."""
_SYSTEM_INLINE = ("claude-opus-4-8", "claude-opus-5", "claude-haiku-5-5")
_SAMPLING_GONE = ("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5")
_SAMPLING_EITHER = (
    "claude-opus-4-1",
    "claude-opus-4-5",
    "claude-opus-4-6",
    "claude-sonnet-4-5",
    "claude-sonnet-4-6",
    "claude-haiku-4-5",
)
_MOST_TOP_LOGPROBS = 20
_MOST_INPUTS = 2048


def problem(request: Request) -> Problem | None:
    """Return the first thing that is wrong with a request."""
    if not isinstance(request.body, dict):
        return Problem("We could not parse the JSON body of your request.")
    if request.operation == "embeddings":
        return next(_embedding_problems(request), None)
    if request.provider == "anthropic":
        return next(_anthropic_problems(request, request.body), None)
    if request.provider == "ollama":
        return next(_ollama_problems(request, request.body), None)
    if request.path.endswith("/responses"):
        return next(responses_contract.problems(request, request.body), None)
    return next(_openai_problems(request, request.body), None)


def without_key(request: Request) -> errors.Refusal:
    """Return the answer to a request without a key."""
    if request.provider == "openai":
        text = (
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer "
            "auth (i.e. Authorization: Bearer YOUR_KEY)."
        )
        return errors.Refusal(401, errors.openai_body(text, "invalid_request_error"))
    if request.provider == "azure_openai":
        text = "Access denied due to missing subscription key. Make sure to include it when making requests"
        return errors.Refusal(401, {"statusCode": 401, "message": text})
    refused = errors.refusal("bad_key", request)
    body = dict(refused.body) if isinstance(refused.body, Mapping) else {}
    return errors.Refusal(
        401, body | {"error": {"type": "authentication_error", "message": "x-api-key header is required"}}
    )


def most_tokens(request: Request) -> int | None:
    """Return how many tokens an answer may have."""
    body = request.body if isinstance(request.body, dict) else {}
    options = body.get("options") or {}
    most = next(filter(None, map(body.get, _LIMITS)), options.get("num_predict"))
    return most if isinstance(most, int) and most > 0 else None


def _openai_problems(request: Request, body: Mapping[str, Any]) -> Iterator[Problem]:
    if request.provider == "azure_openai":
        yield from _azure_problems(request)
    for name in sorted(set(body) - CHAT_FIELDS):
        yield Problem(f"Unrecognized request argument supplied: {name}", name)
    if not body.get("model") and not request.model:
        yield Problem("you must provide a model parameter")
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield Problem("Invalid 'messages': empty array. Expected an array with minimum length 1.", "messages")
    yield from _openai_ranges(body)
    if reasons(request.model) is not None:
        yield from _reasoning_problems(request.model, body)
    yield from _openai_messages(body["messages"])
    yield from _openai_shapes(body)


def _azure_problems(request: Request) -> Iterator[Problem]:
    versionless = request.path.startswith("/openai/v1/")
    if not versionless and not request.query.get("api-version"):
        # Azure knows no such address without a version.
        own = errors.Refusal(404, {"error": {"code": "404", "message": "Resource not found"}})
        yield Problem("the api-version is missing", own=own)


def _openai_ranges(body: Mapping[str, Any]) -> Iterator[Problem]:
    for name, low, high in (
        ("temperature", 0, 2),
        ("top_p", 0, 1),
        ("presence_penalty", -2, 2),
        ("frequency_penalty", -2, 2),
        ("top_logprobs", 0, _MOST_TOP_LOGPROBS),
    ):
        value = body.get(name)
        if value is not None and not low <= value <= high:
            yield Problem(f"Invalid '{name}': {value} is not from {low} to {high}.", name, "invalid_value")
    for name in ("max_tokens", "max_completion_tokens"):
        value = body.get(name)
        if value is not None and (not isinstance(value, int) or value < 1):
            text = f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got {value} instead."
            yield Problem(text, name, "integer_below_min_value")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        yield Problem("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        yield Problem("'top_logprobs' is only allowed when 'logprobs' is true.", "top_logprobs")
    if body.get("stream_options") is not None and not body.get("stream"):
        yield Problem("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")


def _reasoning_problems(model: str, body: Mapping[str, Any]) -> Iterator[Problem]:
    effort = body.get("reasoning_effort")
    if body.get("tools") and effort != "none" and model.startswith(_TOOLS_ELSEWHERE):
        text = (
            f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        )
        yield Problem(text, "reasoning_effort", expected=True)
    if body.get("max_tokens") is not None:
        text = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        yield Problem(text, "max_tokens", "unsupported_parameter")
    if effort == "none" or (effort is None and not reasons(model)):
        # Without reasoning the sampling settings are allowed.
        return
    temperature = body.get("temperature")
    if temperature not in (None, 1):
        text = (
            f"Unsupported value: 'temperature' does not support {temperature} with this model. "
            "Only the default (1) value is supported."
        )
        yield Problem(text, "temperature", "unsupported_value")
    for name in ("top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs"):
        if body.get(name) is not None:
            text = f"Unsupported parameter: '{name}' is not supported with this model."
            yield Problem(text, name, "unsupported_parameter")


def _openai_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        role = message.get("role")
        at = f"messages.[{index}].role"
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                text = (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'."
                )
                yield Problem(text, at)
            waiting.discard(message.get("tool_call_id", ""))
            continue
        if waiting:
            yield _unanswered(waiting)
        if role not in ("system", "developer", "user", "assistant"):
            yield Problem(f"Invalid value: '{role}'.", f"messages[{index}].role", "invalid_value")
        calls = message.get("tool_calls")
        waiting = {call["id"] for call in calls or ()}
        if message.get("content") is None and not (role == "assistant" and (calls or message.get("refusal"))):
            yield Problem("Invalid value for 'content': expected a string, got null.", f"messages.[{index}].content")
    if waiting:
        yield _unanswered(waiting)


def _unanswered(waiting: set[str]) -> Problem:
    text = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(sorted(waiting))}"
    )
    return Problem(text, "messages")


def _openai_shapes(body: Mapping[str, Any]) -> Iterator[Problem]:
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    if body.get("tools") == []:
        yield Problem("Invalid 'tools': empty array. Expected an array with minimum length 1.", "tools", "empty_array")
    for name in names:
        if not name.replace("_", "").replace("-", "").isalnum() or len(name) > 64:
            yield Problem(f"Invalid 'tools[0].function.name': {name!r} does not match '^[a-zA-Z0-9_-]+$'.", "tools")
    if body.get("tool_choice") is not None and not names:
        yield Problem("Invalid value for 'tool_choice': only allowed when 'tools' are specified.", "tool_choice")
    form = body.get("response_format") or {}
    if form.get("type") == "json_object" and "json" not in str(body["messages"]).lower():
        text = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        yield Problem(text, "messages")
    if form.get("type") == "json_schema":
        given = form.get("json_schema") or {}
        if not given.get("name"):
            text = "Missing required parameter: 'response_format.json_schema.name'."
            yield Problem(text, "response_format.json_schema.name", "missing_required_parameter")
        elif given.get("strict") and (wrong := not_strict(given.get("schema") or {})):
            text = f"Invalid schema for response_format '{given['name']}': {wrong}"
            yield Problem(text, "response_format", "invalid_json_schema")


def _anthropic_problems(request: Request, body: Mapping[str, Any]) -> Iterator[Problem]:
    if not request.headers.get("anthropic-version"):
        yield Problem("anthropic-version: header is required")
    for name in ("model", "messages", "max_tokens"):
        if body.get(name) is None:
            yield Problem(f"{name}: Field required")
    known = MESSAGE_FIELDS | BETA_FIELDS if request.query.get("beta") == "true" else MESSAGE_FIELDS
    for name in sorted(set(body) - known):
        yield Problem(f"{name}: Extra inputs are not permitted")
    if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
        yield Problem("max_tokens: must be greater than or equal to 1")
    for name in ("temperature", "top_p"):
        value = body.get(name)
        if value is not None and not 0 <= value <= 1:
            yield Problem(f"{name}: range: 0..1")
    given = [name for name in ("temperature", "top_p", "top_k") if body.get(name) is not None]
    if given and request.model.startswith(_SAMPLING_GONE):
        yield Problem(f"`{given[0]}` is deprecated for this model.")
    if {"temperature", "top_p"} <= set(given) and request.model.startswith(_SAMPLING_EITHER):
        yield Problem("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    if not body["messages"]:
        yield Problem("messages: at least one message is required")
    yield from _anthropic_messages(request.model, body["messages"])


def _anthropic_messages(model: str, messages: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant") and not (role == "system" and model.startswith(_SYSTEM_INLINE)):
            yield Problem(f'messages: Unexpected role "{role}". The allowed roles are "user" or "assistant".')
        if not content and index < len(messages) - 1:
            text = "all messages must have non-empty content except for the optional final assistant message"
            yield Problem(f"messages.{index}: {text}")
        blocks: list[Mapping[str, Any]] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if any(block.get("type") == "text" and not (block.get("text") or "").strip() for block in blocks):
            yield Problem("messages: text content blocks must contain non-whitespace text")
        answered = {block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"}
        if missing := waiting - answered:
            text = f"`tool_use` ids were found without `tool_result` blocks after: {', '.join(sorted(missing))}"
            yield Problem(f"messages.{index - 1}: {text}")
        if unknown := answered - waiting:
            text = f"unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(sorted(map(str, unknown)))}"
            yield Problem(f"messages.{index}: {text}")
        waiting = {block["id"] for block in blocks if block.get("type") == "tool_use"}
    if waiting:
        text = f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(sorted(waiting))}"
        yield Problem(f"messages.{len(messages) - 1}: {text}")


def _ollama_problems(request: Request, body: Mapping[str, Any]) -> Iterator[Problem]:
    # Ollama passes over fields that it does not know.
    if not body.get("model"):
        yield Problem("model is required")
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield Problem("[] is too short - 'messages'")
    for message in body["messages"]:
        if message.get("role") not in ("system", "developer", "user", "assistant", "tool"):
            yield Problem(f"invalid role: {message.get('role')}")


def _embedding_problems(request: Request) -> Iterator[Problem]:
    if request.provider == "azure_openai":
        yield from _azure_problems(request)
    if not request.model:
        yield Problem("you must provide a model parameter")
    if request.provider == "ollama":
        return
    if not request.inputs or any(not text for text in request.inputs):
        yield Problem("'$.input' is invalid. Please check the API reference.", "input")
    if len(request.inputs) > _MOST_INPUTS:
        text = f"Invalid 'input': array too long. Expected an array with maximum length {_MOST_INPUTS}."
        yield Problem(text, "input", "array_above_max_length")
