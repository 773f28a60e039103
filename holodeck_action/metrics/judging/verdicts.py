"""Verdicts of judges: read permissively, held to what was offered, asked for once more."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from holodeck_action.llm.judge import JudgeAnswer
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.text.json_values import DuplicateKeyError, parse_json
from holodeck_action.text.plain import cut

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

_TRAILING_COMMA = re.compile(r",\s*([\]}])")
_WORD = re.compile(r"[a-z]+")
_LEADING = re.compile(r"\W*([a-z]+)\W*(?:$|[.,:;!(—–-])")
"""A word that stands alone, or before what explains it: `Yes.`, `**no**`, `no, because …`."""
_OPTIONS = frozenset(("yes", "no", "borderline", "idk"))
"""`idk` is what older prompts of DeepEval offered: its schemas, which say what is offered, refuse it."""
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_LONGEST = 200
_ALONE = "Answer with the JSON object alone."


class VerdictError(ValueError):
    """An answer is no verdict; the message is one clause that tells the judge why."""


async def asked_for_verdict(
    judge: str, prompt: str, ask: Callable[[str], Awaitable[JudgeAnswer]], read: Callable[[str], R]
) -> tuple[JudgeAnswer, R]:
    """Ask for a verdict, and once more, with the reason, where the answer is none.

    Args:
        judge: the judge's name, for the message.
        prompt: what is asked.
        ask: asks it.
        read: reads an answer's text; it raises VerdictError where that is no verdict.

    Returns:
        The answer and what was read from it.

    Raises:
        EvaluationError: two answers were no verdicts (code `bad_verdict`).
        ModelCallError: no answer came.
    """
    wrong: VerdictError | None = None
    for _ in range(2):
        if wrong is not None:
            prompt = f"{prompt}\n\nAn earlier answer to this could not be used: {wrong}. {_ALONE}"
        answer = await ask(prompt)
        try:
            if answer.truncated:
                raise VerdictError("it stops at the token limit; be brief")
            return answer, read(answer.text)
        except VerdictError as error:
            wrong = error
    raise EvaluationError(
        f"the judge {judge} gave no usable verdict twice: {wrong}", code="bad_verdict", context={"judge": judge}
    )


@cache
def schema_of(verdict: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON schema of a verdict."""
    return verdict.model_json_schema()


def read_verdict(text: str, schema: type[T]) -> T:
    """Read an answer as an instance of a schema.

    Args:
        text: what the judge wrote; see `verdict_object`.
        schema: what was asked for.

    Raises:
        VerdictError: no JSON object, or not what the schema offers.
    """
    value = verdict_object(text)
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "the answer"
        raise VerdictError(cut(f"{place}: {wrong['msg']}", _LONGEST)) from None


def verdict_object(text: str) -> dict[str, Any]:
    """Return the JSON object in an answer, in the words of the question.

    Args:
        text: JSON, alone, between other words or in a code fence, with trailing commas at worst. A `verdict` may be
            written as `Yes.` or `no, because …`, a `score` as `"8"`; one that names several options, and a score that
            is true or false, stay what they are or are refused.

    Raises:
        VerdictError: there is no such object, or it holds a key twice: which one counts, nobody knows.
    """
    found: dict[str, Any] = _in_words_offered(_json_object(text))
    score = found.get("score")
    if isinstance(score, bool):
        raise VerdictError("score: it must be a number")
    if isinstance(score, str) and _NUMBER.fullmatch(score.strip()):
        try:
            found["score"] = parse_json(score.strip().lstrip("+"))
        except ValueError:
            raise VerdictError("score: it must be a number") from None
    return found


def _json_object(text: str) -> Any:
    start, end = text.find("{"), text.rfind("}") + 1
    if start < 0 or end <= start:
        raise VerdictError("it holds no JSON object")
    part = text[start:end]
    for candidate in (part, _TRAILING_COMMA.sub(r"\1", part)):
        try:
            return parse_json(candidate, constants=True, unique=True)
        except DuplicateKeyError:
            raise VerdictError("it holds a key twice") from None
        except ValueError:
            continue
    raise VerdictError("it is not JSON")


def _in_words_offered(value: Any) -> Any:
    """Reduce every `verdict` to the option it names, in lower case."""
    if isinstance(value, list):
        return [_in_words_offered(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _in_words_offered(item) for key, item in value.items()}
    verdict = found.get("verdict")
    if isinstance(verdict, str):
        said = verdict.lower()
        leading = _LEADING.match(said)
        named = _OPTIONS.intersection(_WORD.findall(said))
        if leading is not None and named == {leading[1]}:
            found["verdict"] = leading[1]
    return found
