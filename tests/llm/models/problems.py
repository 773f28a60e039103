"""Why a request is refused, and what the rules of OpenAI's two APIs share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.llm.models import errors
from tests.llm.models.values import Request

_REASONING: dict[str, bool | None] = {
    "gpt-5-chat": None,
    **{f"gpt-5.{minor}-{kind}": True for minor in range(1, 7) for kind in ("chat", "pro")},
    **{f"gpt-5.{minor}": False for minor in range(1, 5)},
    **dict.fromkeys(("gpt-5", "gpt-6", "o1", "o3", "o4"), True),
}
"""Whether models of a name (the first that fits) reason when not asked: True; when asked: False; never: None."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is refused; `own` is the answer if not status 400, and clients learn from what is `expected`."""

    text: str
    param: str | None = None
    code: str | None = None
    own: errors.Refusal | None = None
    expected: bool = False

    def refusal(self, request: Request) -> errors.Refusal:
        """Return the answer that tells the problem."""
        return self.own or errors.invalid(request, self.text, self.param, self.code)


def reasons(model: str) -> bool | None:
    """Return whether a model of OpenAI reasons when not asked to; None if it is no reasoning model."""
    return next((kind for prefix, kind in _REASONING.items() if model.startswith(prefix)), None)


def not_strict(schema: Mapping[str, Any]) -> str | None:
    """Return what strict schemas forbid: objects that are open, or whose properties are not all required."""
    if schema.get("type") == "object" or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            return "'additionalProperties' is required to be supplied and to be false."
        if set(schema.get("required", ())) != set(schema.get("properties", {})):
            return "'required' is required to be supplied and to be an array including every key in properties."
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    if isinstance(schema.get("items"), Mapping):
        inner.append(schema["items"])
    return next((wrong for one in inner if (wrong := not_strict(one))), None)
