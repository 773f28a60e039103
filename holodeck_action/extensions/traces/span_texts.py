"""Finds the user's message and the answer in the attributes of a span, for several attribute conventions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from holodeck_action.extensions.frameworks.spans.conventions import HIDDEN, is_embedding, parse_text, work_kind
from holodeck_action.extensions.frameworks.spans.span import Span
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import replace_surrogates

Role = Literal["user", "assistant"]

_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "humanmessage": "user",
    "humanmessagechunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
}
_MESSAGES: dict[Role, tuple[str, ...]] = {
    "user": ("gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events"),
    "assistant": ("gen_ai.output.messages",),
}
_FLAT: dict[Role, re.Pattern[str]] = {
    "user": lazy_pattern(
        r"(llm\.input_messages\.(\d+)\.message|gen_ai\.prompt\.(\d+))\."
        r"(role|content|contents\.(\d+)\.message_content\.text)"
    ),
    "assistant": lazy_pattern(
        r"(llm\.output_messages\.(\d+)\.message|gen_ai\.completion\.(\d+))\."
        r"(role|content|contents\.(\d+)\.message_content\.text)"
    ),
}
_FLAT_PREFIXES = ("llm.input_m", "llm.output_m", "gen_ai.prompt.", "gen_ai.completion.")
_EVENTS: dict[Role, tuple[tuple[str, str], ...]] = {
    "user": (("gen_ai.user.message", "content"), ("gen_ai.content.prompt", "gen_ai.prompt")),
    "assistant": (("gen_ai.choice", "message"), ("gen_ai.content.completion", "gen_ai.completion")),
}
_DETAILS = "gen_ai.client.inference.operation.details"
_VALUES: dict[Role, tuple[str, ...]] = {
    "user": ("langfuse.trace.input", "input.value", "langfuse.observation.input", "traceloop.entity.input"),
    "assistant": (
        "langfuse.trace.output", "final_result", "output.value", "langfuse.observation.output",
        "traceloop.entity.output",
    ),
}  # fmt: skip
_KEYS: dict[Role, tuple[str, ...]] = {
    "user": ("messages", "input", "inputs", "question", "query", "prompt", "user_prompt", "task", "content"),
    "assistant": (
        "messages", "output", "outputs", "answer", "response", "result", "completion", "content", "text", "raw",
    ),
}  # fmt: skip
"""Keys of JSON values under which frameworks store messages or a text."""
_DEEPEST = 4


def message_text(span: Span, role: Role) -> str | None:
    """Return the text of the last message of a role in the input (`user`) or output (`assistant`) of a span.

    Returns:
        The text; None if the span has no such message in a known form.
    """
    return _first_text(_candidates(span, role))


def raw_text(span: Span, role: Role) -> str | None:
    """Return the input or output of a span as text, even if its form is unknown; None if the span has none."""
    return _first_text(span.attributes.get(name) for name in _VALUES[role])


def is_about_conversation(span: Span) -> bool:
    """Return whether messages of a span can be the user's or the answer; those of tools and embeddings are not."""
    return work_kind(span) in ("model", "other") and not is_embedding(span)


def _first_text(values: Iterable[Any]) -> str | None:
    texts = (each for each in values if isinstance(each, str) and each.strip() and each != HIDDEN)
    return next(map(replace_surrogates, texts), None)


def _candidates(span: Span, role: Role) -> Iterator[str]:
    whole = span.attributes.get(_VALUES[role][0])
    # What Langfuse shows as input and output of the trace comes before the messages of its root.
    yield from _value_text(parse_text(whole), role, 0)
    details = next((values for name, values in span.events if name == _DETAILS), {})
    for name in _MESSAGES[role]:
        for source in (span.attributes, details):
            yield from _last_message(parse_text(source.get(name)), role)
    yield from _flat_message(span, role)
    for event, attribute in _EVENTS[role]:
        found = [values for name, values in span.events if name == event]
        for values in reversed(found):
            content = parse_text(values.get("gen_ai.event.content"))
            source = content if isinstance(content, Mapping) else values
            yield from _value_text(parse_text(source.get(attribute, source.get("content"))), role, 0)
    for name in _VALUES[role]:
        value = parse_text(span.attributes.get(name))
        if not isinstance(value, str) or work_kind(span) == "model":
            # A plain text of another span may be a step's decision, such as `__end__` of a router.
            yield from _value_text(value, role, 0)
    if role == "user" and isinstance(span.attributes.get("crew_inputs"), str):
        yield span.attributes["crew_inputs"]


def _last_message(value: Any, role: Role) -> Iterator[str]:
    """Yield the text of a role's last message in a list of messages; yield nothing if that message has no text."""
    for message in reversed(value) if isinstance(value, list) else ():
        found = _message(message)
        if found is not None and found[0] == role and found[1].strip():
            yield found[1]
            return


def _message(value: Any) -> tuple[Role, str] | None:
    """Return the role and the text of a message; None for other values, and for messages of other roles."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value):
        # LangChain accepts pairs of role and text.
        value = {"role": value[0], "content": value[1]}
    if isinstance(value, Mapping) and isinstance(value.get("kwargs"), Mapping):
        # A message of LangChain in its own serialization.
        names = value.get("id")
        kind = names[-1] if isinstance(names, list) and names else None
        value = {"role": kind, **value["kwargs"]}
    for key in ("message", "data"):
        # LangChain's dictionaries of messages have their fields in `data`.
        if isinstance(value, Mapping) and isinstance(value.get(key), Mapping):
            value = value[key]
    if not isinstance(value, Mapping):
        return None
    role = next((_ROLES.get(str(value.get(key)).lower()) for key in ("role", "type") if value.get(key)), None)
    return None if role is None else (role, _content_text(value.get("content", value.get("parts"))))


def _content_text(content: Any) -> str:
    """Return the text of a message's content: a text, or the texts of a list of parts."""
    if isinstance(content, str):
        return content
    found: list[str] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, Mapping) and str(part.get("type", "text")) in ("text", "output_text", "input_text"):
            text = part.get("text", part.get("content"))
            found += [text] if isinstance(text, str) else []
    return "\n".join(found)


def _flat_message(span: Span, role: Role) -> Iterator[str]:
    """Yield the text of the last message of a role that a span stores field by field in separate attributes."""
    messages: dict[int, dict[str, str]] = {}
    for name, value in span.attributes.items():
        match = _FLAT[role].fullmatch(name) if name.startswith(_FLAT_PREFIXES) else None
        if match is not None and isinstance(value, str):
            number = next(group for group in match.groups()[1:3] if group is not None)
            if len(number) < 10:
                messages.setdefault(int(number), {})[match[4]] = value
    for _, message in sorted(messages.items(), reverse=True):
        if _ROLES.get(message.get("role", "").lower()) != role:
            continue
        parts = sorted((len(key), key) for key in message if key.startswith("contents."))
        text = message.get("content") or "\n".join(message[key] for _, key in parts)
        if text.strip():
            yield text
            return


def _value_text(value: Any, role: Role, depth: int) -> Iterator[str]:
    """Yield the texts in a framework-specific value: a text, messages, or an object that contains one of these."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from _last_message(value, role)
        if len(value) == 1 and depth < _DEEPEST:
            yield from _value_text(value[0], role, depth + 1)
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        found = _message(value)
        if found is not None:
            yield from (found[1],) if found[0] == role else ()
            return
        for key in _KEYS[role]:
            if key in value:
                yield from _value_text(parse_text(value[key]), role, depth + 1)
        if role == "user" and len(value) == 1:
            # The only input of a program.
            yield from (each for each in value.values() if isinstance(each, str))
