"""What OpenAI refuses in a request to its Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.llm.models import errors
from tests.llm.models.problems import Problem, not_strict, reasons
from tests.llm.models.values import Request

RESPONSE_FIELDS = frozenset(
    (
        *("access_programs", "background", "context_management", "conversation", "image", "include", "input"),
        *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation"),
        *("parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "stream"),
        *("stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation"),
        "user",
    )
)
"""What a request may hold; the tests compare it with OpenAI's own client."""
_LEAST_TOKENS = 16


def problems(request: Request, body: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with a request."""
    dated = request.provider == "azure_openai" and not request.path.startswith("/openai/v1/")
    if dated and not request.query.get("api-version"):
        own = errors.Refusal(404, {"error": {"code": "404", "message": "Resource not found"}})
        yield Problem("the api-version is missing", own=own)
    for name in sorted(set(body) - RESPONSE_FIELDS):
        yield Problem(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    if not body.get("input"):
        yield Problem("Missing required parameter: 'input'.", "input", "missing_required_parameter")
    most = body.get("max_output_tokens")
    if most is not None and most < _LEAST_TOKENS:
        text = (
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {most} instead."
        )
        yield Problem(text, "max_output_tokens", "integer_below_min_value")
    if body.get("store") is not False or body.get("previous_response_id") is not None:
        # Not OpenAI's rule but ours: a recording must stand alone.
        yield Problem("the request leaves the conversation with the service", "store")
    yield from _reasoning_problems(request, body)
    yield from _input_problems(body["input"])
    yield from _shape_problems(body)


def _reasoning_problems(request: Request, body: Mapping[str, Any]) -> Iterator[Problem]:
    unasked, effort = reasons(request.model), (body.get("reasoning") or {}).get("effort")
    if unasked is None:
        if "reasoning.encrypted_content" in (body.get("include") or ()):
            yield Problem("Encrypted content is not supported with this model.", "include", expected=True)
        if effort is not None:
            text = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
            yield Problem(text, "reasoning.effort", "unsupported_parameter")
    elif effort != "none" and (effort is not None or unasked):
        for name in ("temperature", "top_p", "top_logprobs"):
            if body.get(name) is not None:
                text = f"Unsupported parameter: '{name}' is not supported with this model."
                yield Problem(text, name, "unsupported_parameter")


def _input_problems(items: Any) -> Iterator[Problem]:
    waiting: set[str] = set()
    for index, item in enumerate([] if isinstance(items, str) else items):
        at = f"input[{index}]"
        match item.get("type", "message"):
            case "message" if item.get("role") not in ("user", "assistant", "system", "developer"):
                yield Problem(f"Invalid value: '{item.get('role')}'.", f"{at}.role", "invalid_value")
            case "reasoning" if not item.get("encrypted_content") and not item.get("content"):
                text = (
                    f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
                )
                yield Problem(text, "input", own=errors.Refusal(404, errors.openai_body(text, "invalid_request_error")))
            case "function_call":
                waiting.add(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in waiting:
                    yield Problem(
                        f"No tool call found for function call output with call_id {item['call_id']}.", "input"
                    )
                waiting.discard(item["call_id"])
    if waiting:
        yield Problem(f"No tool output found for function call {min(waiting)}.", "input")


def _shape_problems(body: Mapping[str, Any]) -> Iterator[Problem]:
    for index, tool in enumerate(body.get("tools") or ()):
        if tool.get("strict", True) and (wrong := not_strict(tool["parameters"])):
            text = f"Invalid schema for function '{tool['name']}': {wrong}"
            yield Problem(text, f"tools[{index}].parameters", "invalid_function_parameters")
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        if not form.get("name"):
            text = "Missing required parameter: 'text.format.name'."
            yield Problem(text, "text.format.name", "missing_required_parameter")
        elif form.get("strict") and (wrong := not_strict(form.get("schema") or {})):
            yield Problem(f"Invalid schema for response_format '{form['name']}': {wrong}", "text.format.schema")
