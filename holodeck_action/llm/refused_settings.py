"""Adapts requests to what a model refuses by name: a setting, a value of effort, the name of the token limit.

The rules about models (`model_rules`) can be wrong for a new model or a server in between. A service that names the
setting it refuses shows how to go on: the setting is left out, or sent as the service requires, in this call and in all
later calls of the run to the same model. The key of the call does not change, so that a recording stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from holodeck_action.llm.calls import Account, Answer, Call, Link
from holodeck_action.llm.model_facts import EFFORTS
from holodeck_action.llm.outcomes import NAMES_RESPONSES, error_message, error_object, error_payload
from holodeck_action.llm.reasoning import closest_effort
from holodeck_action.llm.request_bodies import encode_body
from holodeck_action.text.lazy_patterns import lazy_pattern

_REFUSALS = (400, 422)
_CODES = ("unsupported_parameter", "unsupported_value")
_EFFORT_FIELDS = ("reasoning_effort", "reasoning.effort", "output_config.effort")
_OPTIONAL = ("temperature", "top_p", "presence_penalty", "frequency_penalty", *_EFFORT_FIELDS)
"""Fields of a body without which the request means the same."""
_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Names of the token limit in chat completions, and the other name of each."""
_INSTEAD = lazy_pattern(r"use ['\"`]?(max_completion_tokens|max_tokens)['\"`]? instead", re.IGNORECASE)
_NAMED = lazy_pattern(
    r"unsupported (?:parameter|value): ['\"`]([\w.]+)"
    r"|unrecognized request argument supplied: ([\w.]+)"
    r"|does not support parameters: \[['\"]([\w.]+)"
    r"|[`'\"]?\b(\w+)[`'\"]? is deprecated for this model",
    re.IGNORECASE,
)
"""Matches the sentences with which OpenAI, LiteLLM and Anthropic refuse a setting."""
_SUPPORTED = lazy_pattern(r"supported values are:?(.*)", re.IGNORECASE | re.DOTALL)


class Change(NamedTuple):
    """A change of a request.

    Attributes:
        field: path of the field in the body, with a dot between names.
        name: the name under which the value is sent instead; None to leave the field out.
        value: the value to send instead; None to keep it.
    """

    field: str
    name: str | None = None
    value: str | None = None

    def describe(self, model: str, refused: Any) -> str:
        """Return a notice; `refused` is the value that the service refused."""
        shown = "effort" if self.field in _EFFORT_FIELDS else self.field
        if self.value is not None:
            return f"{shown} {refused} is sent to {model} as {self.value}, the closest value it accepts"
        if self.name is not None:
            return f"{shown} is sent to {model} as {self.name}, the name it requires"
        return f"{shown} is not sent to {model}, which does not accept it"


class RefusedSettings:
    """The link of the wire that repeats a refused call without what the service refused by name."""

    def __init__(self, next_link: Link) -> None:
        self._next = next_link
        self._changes: dict[tuple[Account, str, str], dict[str, Change]] = {}

    async def __call__(self, call: Call) -> Answer:
        """Return the answer to the call, with notices about the changes that it needed.

        Raises:
            WireError: the call got no answer.
        """
        body = call.request.document
        if not isinstance(body, dict):
            return await self._next(call)
        model = str(body.get("model", ""))
        known = self._changes.setdefault((call.account, call.request.url, model), {})
        original = call.request
        tried: set[str] = set()
        while True:
            sent, notices = _apply(known, body, model)
            if notices:
                content, document = encode_body(sent)
                call.request = replace(original, content=content, document=document)
            answer = await self._next(call)
            change = _required_change(sent, answer) if answer.status in _REFUSALS else None
            if change is None or change.field in tried:
                return replace(answer, changes=notices) if notices and answer.status < 300 else answer
            tried.add(change.field)
            known[change.field] = change


def _apply(changes: Mapping[str, Change], body: dict[str, Any], model: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the changed body, and a notice for each change that applies to it."""
    notices = []
    for field, change in changes.items():
        value = _value(body, field)
        if value is None or value == change.value:
            continue
        notices.append(change.describe(model, value))
        body = _with_value(body, field, change.value)
        if change.name is not None:
            body = {**body, change.name: value}
    return body, tuple(notices)


def _required_change(body: Mapping[str, Any], answer: Answer) -> Change | None:
    """Return the change with which the service would take the request; None if it names no such change."""
    payload = error_payload(answer)
    message = error_message(payload) or ""
    if NAMES_RESPONSES.search(message):
        return None
    if instead := _INSTEAD.search(message):
        field = _LIMITS[instead[1].lower()]
        return Change(field, instead[1].lower()) if field in body else None
    refused = _refused_field(error_object(payload), message)
    value = None if refused is None else _value(body, refused)
    if refused is None or value is None:
        return None
    if refused in _LIMITS:
        return Change(refused, _LIMITS[refused])
    if refused in _EFFORT_FIELDS and (listed := _SUPPORTED.search(message)):
        accepted = [level for level in EFFORTS if re.search(rf"\b{level}\b", listed[1])]
        if accepted and (effort := closest_effort(str(value), accepted)) != value:
            return Change(refused, value=effort)
    return Change(refused) if refused in _OPTIONAL else None


def _refused_field(details: Mapping[str, Any], message: str) -> str | None:
    param = details.get("param")
    if details.get("code") in _CODES and isinstance(param, str):
        return param
    named = _NAMED.search(message)
    return None if named is None else next(name for name in named.groups() if name)


def _value(body: Mapping[str, Any], field: str) -> Any:
    value: Any = body
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _with_value(body: Mapping[str, Any], field: str, value: Any) -> dict[str, Any]:
    """Return a body with another value of a field, without the field if the value is None, and without what is empty
    then.
    """
    name, _, inner = field.partition(".")
    new = _with_value(body[name], inner, value) if inner else value
    if new in (None, {}):
        return {key: item for key, item in body.items() if key != name}
    return {**body, name: new}
