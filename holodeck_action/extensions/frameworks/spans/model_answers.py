"""The answers of models in the spans of their calls: whether they ask for tools, and for which.

No tool was called is known only if every answer can be read, or ends for a reason that is not about tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from holodeck_action.extensions.frameworks.spans.conventions import HIDDEN, model_of, parsed
from holodeck_action.extensions.frameworks.spans.span import Span

Answer = Literal["text", "tools", "unreadable", "missing"]
"""A text alone, a request for tools, an answer that cannot be read, or none because the call failed."""

_ANSWERED = (
    "gen_ai.response.",
    "gen_ai.output.messages",
    "llm.output_messages.",
    "llm.finish_reason",
    "gen_ai.completion.",
)
_REQUESTED = re.compile(
    r"llm\.output_messages\.(\d+)\.message\.tool_calls\.(\d+)\.tool_call\.(?:function\.)?(id|name|arguments)"
    r"|gen_ai\.completion\.(\d+)\.tool_calls\.(\d+)\.(id|name|arguments)"
)
_TOLD_RESULT = re.compile(r"(llm\.input_messages\.\d+\.message|gen_ai\.prompt\.\d+)\.tool_call_id")
_FLAT_ANSWER = re.compile(r"(?:llm\.output_messages|gen_ai\.completion)\.\d+\.(?:message\.)?(.*)")
_ASKING = re.compile(r"tool_?calls?|tool_?use|function_?call", re.IGNORECASE)
_ENDINGS = frozenset((
    "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "end", "length", "max_tokens", "token_limit",
    "content_filter", "content_filtered", "guardrail_intervened", "safety", "recitation", "refusal",
))  # fmt: skip
"""Reasons for which an answer ends that are not about tools. `completed` is about neither."""
_BEFORE_ENDING = re.compile(r"^(?:finish_?reason[._])", re.IGNORECASE)


def is_answered(span: Span) -> bool:
    """Tell whether a span of a model call shows that the model answered."""
    return any(name.startswith(_ANSWERED) for name in span.attributes)


def answer_of(span: Span) -> Answer:
    """Return what kind of answer the span of a model call shows, in the words of any convention."""
    found = {*_by_reasons(span), *_by_messages(span), *_by_attributes(span), *_by_choices(span)}
    for kind in ("tools", "text", "unreadable"):
        if kind in found:
            return kind
    return "missing" if span.error is not None and not is_answered(span) else "unreadable"


def requested_calls(span: Span) -> Iterator[tuple[str, str, Any]]:
    """Yield id, name and arguments of the tool calls that a model asks for in its answer."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for name, value in span.attributes.items():
        match = _REQUESTED.fullmatch(name)
        if match is not None:
            message, call, key = (group for group in match.groups() if group is not None)
            found.setdefault((int(message), int(call)), {})[key] = value
    for _, call in sorted(found.items()):
        yield str(call.get("id", "")), str(call.get("name", "")), call.get("arguments")
    for part in _parts_of(span, "gen_ai.output.messages"):
        if part.get("type") == "tool_call":
            yield str(part.get("id") or ""), str(part.get("name") or ""), part.get("arguments")
    for choice in _choices(span):
        yield from _calls_of_message(parsed(choice.get("message")))


def results_of_calls(span: Span) -> Iterator[tuple[str, Any]]:
    """Yield id and result of the tool calls that a model is told of."""
    for name, value in span.attributes.items():
        match = _TOLD_RESULT.fullmatch(name)
        if match is not None:
            yield str(value), span.attributes.get(f"{match[1]}.content")
    for part in _parts_of(span, "gen_ai.input.messages"):
        if part.get("type") == "tool_call_response":
            yield str(part.get("id") or ""), part.get("response", part.get("result"))
    for name, values in span.events:
        if name == "gen_ai.tool.message" and values.get("id"):
            yield str(values["id"]), values.get("content")


def _by_reasons(span: Span) -> Iterator[Answer]:
    reasons = [
        *_listed(span.attributes.get("gen_ai.response.finish_reasons")),
        span.attributes.get("llm.finish_reason"),
        *(value for name, value in span.attributes.items() if name.endswith(".finish_reason")),
        *(choice.get("finish_reason") for choice in _choices(span)),
        *(message.get("finish_reason") for message in _messages(span, "gen_ai.output.messages") or ()),
    ]
    for reason in reasons:
        if isinstance(reason, str) and _ASKING.search(reason):
            yield "tools"
        elif isinstance(reason, str) and _is_ending(reason) and not _is_of_google(span):
            yield "text"


def _is_ending(reason: str) -> bool:
    return _BEFORE_ENDING.sub("", reason.strip()).lower() in _ENDINGS


def _is_of_google(span: Span) -> bool:
    """Tell whether a model of Google answered, which ends with STOP when it calls functions, too."""
    said = [
        span.attributes.get(name) for name in ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
    ]
    return bool(re.search(r"google|gemini|vertex|gcp", f"{said} {model_of(span)}", re.IGNORECASE))


def _by_messages(span: Span) -> Iterator[Answer]:
    if "gen_ai.output.messages" not in span.attributes:
        return
    messages = _messages(span, "gen_ai.output.messages")
    parts = [part for message in messages or () for part in _parts(message)]
    if messages is None or not parts:
        yield "unreadable"
    else:
        yield "tools" if any(map(_mentions_calls, parts)) else "text"


def _by_attributes(span: Span) -> Iterator[Answer]:
    """Judge the answers that are spread over attributes, one for each field."""
    for name, value in span.attributes.items():
        match = _FLAT_ANSWER.fullmatch(name)
        if match is None:
            continue
        if _ASKING.search(match[1]):
            yield "tools"
        elif match[1].startswith("content") and isinstance(value, str):
            yield "unreadable" if value == HIDDEN else "text"
        else:
            yield "unreadable"


def _by_choices(span: Span) -> Iterator[Answer]:
    for choice in _choices(span):
        message = parsed(choice.get("message", choice.get("content")))
        if _mentions_calls(message):
            yield "tools"
        elif isinstance(message, str):
            # Broken JSON is no text that a model wrote.
            yield "unreadable" if message.lstrip().startswith(("{", "[")) or message in ("", HIDDEN) else "text"
        else:
            yield "text" if message else "unreadable"


def _choices(span: Span) -> Iterator[Mapping[str, Any]]:
    for name, values in span.events:
        if name == "gen_ai.choice":
            content = parsed(values.get("gen_ai.event.content"))
            yield {**values, **content} if isinstance(content, Mapping) else values


def _calls_of_message(message: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield id, name and arguments of the calls in a message of OpenAI's or Amazon's form."""
    if isinstance(message, Mapping):
        for call in _mappings(message.get("tool_calls")):
            function = call.get("function")
            told = function if isinstance(function, Mapping) else call
            yield str(call.get("id") or ""), str(told.get("name") or ""), told.get("arguments")
    for block in _mappings(message):
        used = block.get("toolUse")
        if isinstance(used, Mapping):
            yield str(used.get("toolUseId") or ""), str(used.get("name") or ""), used.get("input")


def _mentions_calls(value: Any) -> bool:
    """Tell whether a message has a part that is about a call of a tool or function."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            if _ASKING.search(str(each.get("type", ""))):
                return True
            if any(held and isinstance(key, str) and _ASKING.fullmatch(key) for key, held in each.items()):
                return True
            waiting += (each[key] for key in ("message", "content", "parts", "delta") if key in each)
        elif isinstance(each, list):
            waiting += each
    return False


def _messages(span: Span, name: str) -> list[Mapping[str, Any]] | None:
    found = parsed(span.attributes.get(name))
    readable = isinstance(found, list) and all(isinstance(each, Mapping) for each in found)
    return found if readable else None


def _parts_of(span: Span, name: str) -> Iterator[Mapping[str, Any]]:
    return (part for message in _messages(span, name) or () for part in _parts(message))


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _mappings(message.get("parts"))


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _listed(value: Any) -> Iterable[Any]:
    found = parsed(value)
    return found if isinstance(found, list | tuple) else (found,)
