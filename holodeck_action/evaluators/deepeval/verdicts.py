"""What a judge wrote, read permissively and then held to what it was offered (evaluators reference §12)."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)

_TRAILING_COMMA = re.compile(r",\s*([\]}])")
_WORD = re.compile(r"[a-z]+")
_ALIASES = {"idk": "borderline"}
"""What judges that know older prompts say for an undecided item."""
_LONGEST = 200


class VerdictError(ValueError):
    """An answer is no verdict; the message is one clause that tells the judge why."""


def read_verdict(text: str, schema: type[T]) -> T:
    """Read an answer as an instance of a schema.

    Args:
        text: what the judge wrote: JSON, alone, between other words or in a code fence, with trailing commas at worst.
        schema: what was asked for. Values of `verdict` may be written as `Yes.` or `no, because …`.

    Raises:
        VerdictError: no JSON object, or not what the schema offers.
    """
    value = _lower_verdicts(json_object(text))
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "the answer"
        raise VerdictError(f"{place}: {wrong['msg']}"[:_LONGEST]) from None


def json_object(text: str) -> Any:
    """Return the JSON object in a text, as it is written.

    Raises:
        VerdictError: there is none.
    """
    start, end = text.find("{"), text.rfind("}") + 1
    if start < 0 or end <= start:
        raise VerdictError("it holds no JSON object")
    part = text[start:end]
    for candidate in (part, _TRAILING_COMMA.sub(r"\1", part)):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    raise VerdictError("it is not JSON")


def _lower_verdicts(value: Any) -> Any:
    """Reduce every `verdict` to its leading word in lower case."""
    if isinstance(value, list):
        return [_lower_verdicts(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _lower_verdicts(item) for key, item in value.items()}
    verdict = found.get("verdict")
    if isinstance(verdict, str) and (word := _WORD.match(verdict.strip().lower())):
        found["verdict"] = _ALIASES.get(word[0], word[0])
    return found
