"""Reads from spans which tool calls the models' answers request.

An answer is taken to request no tool only if it is readable, or if its finish reason is not about tool calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from holodeck_action.extensions.frameworks.spans.conventions import HIDDEN, model_of, parse_text
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.text.lazy_patterns import lazy_pattern

AnswerKind = Literal["text", "tools", "unreadable", "missing"]
"""Text only, a request for tools, an unreadable answer, or no answer because the call failed."""

_ANSWER_PREFIXES = (
    "gen_ai.response.",
    "gen_ai.output.messages",
    "llm.output_messages.",
    "llm.finish_reason",
    "gen_ai.completion.",
)
_REQUESTED_CALL = lazy_pattern(
    r"llm\.output_messages\.(\d+)\.message\.tool_calls\.(\d+)\.tool_call\.(?:function\.)?(id|name|arguments)"
    r"|gen_ai\.completion\.(\d+)\.tool_calls\.(\d+)\.(id|name|arguments)"
)
_RESULT_ID = lazy_pattern(r"(llm\.input_messages\.\d+\.message|gen_ai\.prompt\.\d+)\.tool_call_id")
_FLAT_ANSWER = lazy_pattern(r"(?:llm\.output_messages|gen_ai\.completion)\.\d+\.(?:message\.)?(.*)")
_TOOL_CALL_WORD = lazy_pattern(r"tool_?calls?|tool_?use|function_?call", re.IGNORECASE)
_ENDINGS = frozenset((
    "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "end", "length", "max_tokens", "token_limit",
    "content_filter", "content_filtered", "guardrail_intervened", "safety", "recitation", "refusal",
))  # fmt: skip
"""Finish reasons that are not about tools, without the ambiguous reason `completed`."""
_BEFORE_ENDING = lazy_pattern(r"^(?:finish_?reason[._])", re.IGNORECASE)


def has_answer(span: Span) -> bool:
    """Return whether a span of a model call shows that the model answered."""
    return any(name.startswith(_ANSWER_PREFIXES) for name in span.attributes)


def answer_kind(span: Span) -> AnswerKind:
    """Return the kind of answer in the span of a model call."""
    found = {*_kinds_by_reason(span), *_kinds_by_message(span), *_kinds_by_attribute(span), *_kinds_by_choice(span)}
    for kind in ("tools", "text", "unreadable"):
        if kind in found:
            return kind
    return "missing" if span.error is not None and not has_answer(span) else "unreadable"


def requested_calls(span: Span) -> Iterator[tuple[str, str, Any]]:
    """Yield id, name and arguments of each tool call that a model requests."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for name, value in span.attributes.items():
        match = _REQUESTED_CALL.fullmatch(name)
        if match is not None:
            message, call, key = (group for group in match.groups() if group is not None)
            found.setdefault((int(message), int(call)), {})[key] = value
    for _, call in sorted(found.items()):
        yield str(call.get("id", "")), str(call.get("name", "")), call.get("arguments")
    for part in _span_parts(span, "gen_ai.output.messages"):
        if part.get("type") == "tool_call":
            yield str(part.get("id") or ""), str(part.get("name") or ""), part.get("arguments")
    for choice in _choices(span):
        yield from _message_calls(parse_text(choice.get("message")))


def call_results(span: Span) -> Iterator[tuple[str, Any]]:
    """Yield id and result of each tool call in the input of a model."""
    for name, value in span.attributes.items():
        match = _RESULT_ID.fullmatch(name)
        if match is not None:
            yield str(value), span.attributes.get(f"{match[1]}.content")
    for part in _span_parts(span, "gen_ai.input.messages"):
        if part.get("type") == "tool_call_response":
            yield str(part.get("id") or ""), part.get("response", part.get("result"))
    for name, values in span.events:
        if name == "gen_ai.tool.message" and values.get("id"):
            yield str(values["id"]), values.get("content")


def _kinds_by_reason(span: Span) -> Iterator[AnswerKind]:
    reasons = [
        *_as_list(span.attributes.get("gen_ai.response.finish_reasons")),
        span.attributes.get("llm.finish_reason"),
        *(value for name, value in span.attributes.items() if name.endswith(".finish_reason")),
        *(choice.get("finish_reason") for choice in _choices(span)),
        *(message.get("finish_reason") for message in _messages(span, "gen_ai.output.messages") or ()),
    ]
    for reason in reasons:
        if isinstance(reason, str) and _TOOL_CALL_WORD.search(reason):
            yield "tools"
        elif isinstance(reason, str) and _is_ending(reason) and not _is_google(span):
            yield "text"


def _is_ending(reason: str) -> bool:
    return _BEFORE_ENDING.sub("", reason.strip()).lower() in _ENDINGS


def _is_google(span: Span) -> bool:
    """Return whether the model is from Google, whose models also finish with STOP when they call functions."""
    names = [
        span.attributes.get(name) for name in ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
    ]
    return bool(re.search(r"google|gemini|vertex|gcp", f"{names} {model_of(span)}", re.IGNORECASE))


def _kinds_by_message(span: Span) -> Iterator[AnswerKind]:
    if "gen_ai.output.messages" not in span.attributes:
        return
    messages = _messages(span, "gen_ai.output.messages")
    parts = [part for message in messages or () for part in _parts(message)]
    if messages is None or not parts:
        yield "unreadable"
    else:
        yield "tools" if any(map(_mentions_calls, parts)) else "text"


def _kinds_by_attribute(span: Span) -> Iterator[AnswerKind]:
    """Yield the kind of each answer that a span stores field by field in separate attributes."""
    for name, value in span.attributes.items():
        match = _FLAT_ANSWER.fullmatch(name)
        if match is None:
            continue
        if _TOOL_CALL_WORD.search(match[1]):
            yield "tools"
        elif match[1].startswith("content") and isinstance(value, str):
            yield "unreadable" if value == HIDDEN else "text"
        else:
            yield "unreadable"


def _kinds_by_choice(span: Span) -> Iterator[AnswerKind]:
    for choice in _choices(span):
        message = parse_text(choice.get("message", choice.get("content")))
        if _mentions_calls(message):
            yield "tools"
        elif isinstance(message, str):
            # Text in broken JSON is not a readable answer.
            yield "unreadable" if message.lstrip().startswith(("{", "[")) or message in ("", HIDDEN) else "text"
        else:
            yield "text" if message else "unreadable"


def _choices(span: Span) -> Iterator[Mapping[str, Any]]:
    for name, values in span.events:
        if name == "gen_ai.choice":
            content = parse_text(values.get("gen_ai.event.content"))
            yield {**values, **content} if isinstance(content, Mapping) else values


def _message_calls(message: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield id, name and arguments of each call in a message in OpenAI's or Amazon's format."""
    if isinstance(message, Mapping):
        for call in _mappings(message.get("tool_calls")):
            function = call.get("function")
            source = function if isinstance(function, Mapping) else call
            yield str(call.get("id") or ""), str(source.get("name") or ""), source.get("arguments")
    for block in _mappings(message):
        used = block.get("toolUse")
        if isinstance(used, Mapping):
            yield str(used.get("toolUseId") or ""), str(used.get("name") or ""), used.get("input")


def _mentions_calls(value: Any) -> bool:
    """Return whether a message has a part about a tool or function call."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            if _TOOL_CALL_WORD.search(str(each.get("type", ""))):
                return True
            if any(held and isinstance(key, str) and _TOOL_CALL_WORD.fullmatch(key) for key, held in each.items()):
                return True
            waiting += (each[key] for key in ("message", "content", "parts", "delta") if key in each)
        elif isinstance(each, list):
            waiting += each
    return False


def _messages(span: Span, name: str) -> list[Mapping[str, Any]] | None:
    found = parse_text(span.attributes.get(name))
    readable = isinstance(found, list) and all(isinstance(each, Mapping) for each in found)
    return found if readable else None


def _span_parts(span: Span, name: str) -> Iterator[Mapping[str, Any]]:
    return (part for message in _messages(span, name) or () for part in _parts(message))


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _mappings(message.get("parts"))


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _as_list(value: Any) -> Iterable[Any]:
    found = parse_text(value)
    return found if isinstance(found, list | tuple) else (found,)
