"""Verdicts of judges: tolerant parsing, validation, and a second request if a verdict is invalid."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from holodeck_action.llm.judge import JudgeAnswer
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.copied import Question
from holodeck_action.text.json_values import DuplicateKeyError, parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

_TRAILING_COMMA = lazy_pattern(r",\s*([\]}])")
_WORD = lazy_pattern(r"[a-z]+")
_LEADING = lazy_pattern(r"\W*([a-z]+)\W*(?:$|[.,:;!(—–-])")
"""Matches a word that is alone or followed by an explanation: `Yes.`, `**no**`, `no, because …`."""
_OPTIONS = frozenset(("yes", "no", "borderline", "idk"))
"""The options of verdicts. Older prompts of DeepEval offered `idk`; its schemas refuse it."""
_NUMBER = lazy_pattern(r"[+-]?[0-9]+(?:\.[0-9]+)?")
TIMES_ASKED = 2
"""Maximum number of requests to a judge for one verdict."""
_LONGEST = 200
_ALONE = "Answer with the JSON object alone."


class VerdictError(ValueError):
    """An answer is not a valid verdict; the message is a clause with the reason, for the judge."""


async def request_verdict(
    judge: str, question: Question, send: Callable[[str], Awaitable[JudgeAnswer]], read: Callable[[str], R]
) -> tuple[JudgeAnswer, R]:
    """Ask for a verdict. After an invalid or copied answer, ask once more and include the reason.

    Args:
        judge: the judge's name, for the message.
        question: the question, with the texts that its template was filled with.
        send: called with a prompt; returns the judge's answer.
        read: called with an answer's text; returns the parsed verdict, or raises VerdictError if it is invalid.

    Returns:
        The answer, and the verdict that `read` returned.

    Raises:
        EvaluationError: two answers were invalid or copied from the question (code `bad_verdict`).
        ModelCallError: there is no answer.
    """
    prompt = question.prompt
    wrong: VerdictError | None = None
    for _ in range(TIMES_ASKED):
        if wrong is not None:
            prompt = f"{prompt}\n\nAn earlier answer to this could not be used: {wrong}. {_ALONE}"
        answer = await send(prompt)
        try:
            if answer.truncated:
                raise VerdictError("it stops at the token limit; be brief")
            verdict = read(answer.text)
            if (copied := question.problem_of(_content(answer.text))) is not None:
                raise VerdictError(copied)
            return answer, verdict
        except VerdictError as error:
            wrong = error
    raise EvaluationError(
        f"the judge {judge} gave no usable verdict twice: {wrong}", code="bad_verdict", context={"judge": judge}
    )


async def request_text(judge: str, question: Question, send: Callable[[str], Awaitable[JudgeAnswer]]) -> str:
    """Ask for an answer in words; see `request_verdict`. It may be cut, but not copied."""

    async def send_whole(prompt: str) -> JudgeAnswer:
        return replace(await send(prompt), truncated=False)

    return (await request_verdict(judge, question, send_whole, str))[1]


def _content(text: str) -> Any:
    """Return the JSON object in an answer, or its text if it has none."""
    try:
        return verdict_object(text)
    except VerdictError:
        return text


@cache
def schema_of(verdict: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON schema of a verdict."""
    return verdict.model_json_schema()


def read_verdict(text: str, schema: type[T]) -> T:
    """Parse an answer as an instance of a model class.

    Args:
        text: the judge's answer; see `verdict_object`.
        schema: model class of the verdict.

    Raises:
        VerdictError: the answer is not a JSON object that fits the schema.
    """
    value = verdict_object(text)
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "the answer"
        raise VerdictError(cut(f"{place}: {wrong['msg']}", _LONGEST)) from None


def verdict_object(text: str) -> dict[str, Any]:
    """Return the JSON object in an answer, with normalised values.

    Args:
        text: the judge's answer: a JSON object alone, between other words or in a code fence, possibly with trailing
            commas. A `verdict` such as `Yes.` or `no, because …` is replaced by the option that it names, and a `score`
            such as `"8"` by a number. A verdict that names several options stays unchanged.

    Raises:
        VerdictError: the answer contains no JSON object, the object contains a key twice, or a score is not a number.
    """
    found: dict[str, Any] = _normalise_verdicts(_parse_object(text))
    score = found.get("score")
    if isinstance(score, bool):
        raise VerdictError("score: it must be a number")
    if isinstance(score, str) and _NUMBER.fullmatch(score.strip()):
        try:
            found["score"] = parse_json(score.strip().lstrip("+"))
        except ValueError:
            raise VerdictError("score: it must be a number") from None
    return found


def _parse_object(text: str) -> Any:
    start, end = text.find("{"), text.rfind("}") + 1
    if start < 0 or end <= start:
        raise VerdictError("it holds no JSON object")
    part = text[start:end]
    for candidate in (part, _TRAILING_COMMA.sub(r"\1", part)):
        try:
            return parse_json(candidate, constants=True, unique_keys=True)
        except DuplicateKeyError:
            raise VerdictError("it holds a key twice") from None
        except ValueError:
            continue
    raise VerdictError("it is not JSON")


def _normalise_verdicts(value: Any) -> Any:
    """Replace every `verdict` by the option that it names, in lower case."""
    if isinstance(value, list):
        return [_normalise_verdicts(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _normalise_verdicts(item) for key, item in value.items()}
    verdict = found.get("verdict")
    if isinstance(verdict, str):
        said = verdict.lower()
        leading = _LEADING.match(said)
        named = _OPTIONS.intersection(_WORD.findall(said))
        if leading is not None and named == {leading[1]}:
            found["verdict"] = leading[1]
    return found
