"""Checks of the answer without a model: strings that it contains, begins with or ends with, and patterns."""

from __future__ import annotations

from abc import abstractmethod
from difflib import SequenceMatcher
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, excerpt
from holodeck_action.metrics.tools.matchers import TimedPatterns, format_pattern, format_text
from holodeck_action.suite.model.base import Flag, NonBlank, UnitInterval
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.suite.model.patterns import pattern_problem

LONGEST_NAME = 40
"""Maximum characters of a value that the name of a check shows."""
EMPTY = "the answer is empty"

_CONTEXT = 20
"""Number of characters that a reason quotes before and after a part of the answer."""
_MOST_SEARCHED = 4_000
"""Maximum characters of the answer that are searched for the part most similar to a missing string."""
_MOST_COMPARED = 200
"""Maximum characters of a missing string that are compared with the answer, and of strings that a reason quotes."""
_LEAST_COMMON = 3
"""Minimum length of the substring that the most similar part shares with the missing string."""


class AnswerCheck(ComputedMetric):
    """Base class of checks of the answer alone; they have a verdict even without a threshold."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}))

    @property
    def pass_mark(self) -> float | None:
        """The threshold; 1 if no threshold is given."""
        return 1.0 if self.written_threshold is None else self.written_threshold

    def compute(self, **given: Any) -> EvaluationResult:
        """Check `response`, a string.

        Raises:
            EvaluationError: the response is not a string (code `invalid_input`), or it cannot be checked.
        """
        response = given["response"]
        if not isinstance(response, str):
            found = f"response is of type {type(response).__name__}"
            raise EvaluationError(f"{self.evaluator_name} checks a text, but {found}", code="invalid_input")
        score, reason, facts = self.check(response)
        return self.result(score, reason, facts, passed=score == 1.0)

    @abstractmethod
    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score of an answer, a sentence with the reason, and details for the record."""


class TextCheck(AnswerCheck):
    """A check for strings; answer and strings are normalised in the same way."""

    QUICK_ON_SHORT_TEXTS = True

    case_insensitive: Flag = False
    """Compare case-folded text."""
    strip_whitespace: Flag = False
    """Replace runs of white space by one space, and trim."""

    def normalize(self, text: str) -> str:
        """Return the normalised text, which is compared."""
        if self.case_insensitive:
            text = text.casefold()
        if self.strip_whitespace:
            text = " ".join(text.split())
        return text


class _OneText(TextCheck):
    """A check for one string."""

    SHORT: ClassVar[str | None] = "value"

    value: NonBlank
    """The text. Example: `Thursday`."""

    def base_name(self, k: int | None) -> str:
        """Return the check's type with the string."""
        return _format_name(self.type, self.value)


class ContainsMetric(_OneText):
    """`type: contains`: the answer contains a text."""

    PLACE = 20

    type: Annotated[Literal["contains"], Role.KIND] = "contains"

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the answer
        contains the string, else 0.0.
        """
        answer, value = self.normalize(response), self.normalize(self.value)
        if value in answer:
            return 1.0, f"the answer contains {_quote(self.value)}", {}
        return 0.0, f"the answer does not contain {_quote(self.value)}{_describe_nearest(answer, value)}", {}


class NotContainsMetric(_OneText):
    """`type: not_contains`: the answer does not contain a text; an empty answer fails."""

    PLACE = 21
    ONLY_FORBIDS = True

    type: Annotated[Literal["not_contains"], Role.KIND] = "not_contains"

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the answer is
        not empty and does not contain the string, else 0.0.
        """
        answer, value = self.normalize(response), self.normalize(self.value)
        if not answer.strip():
            return 0.0, EMPTY, {}
        at = answer.find(value)
        if at < 0:
            return 1.0, f"the answer does not contain {_quote(self.value)}", {}
        return 0.0, f"the answer contains {_quote(self.value)}: {_quote_part(answer, at, at + len(value))}", {}


class _SeveralTexts(TextCheck):
    """A check for several strings."""

    SHORT: ClassVar[str | None] = "values"

    values: Annotated[list[NonBlank], Field(min_length=1)]
    """The texts. Example: `[Thursday, Friday]`."""

    def base_name(self, k: int | None) -> str:
        """Return the check's type with the strings."""
        return _format_name(self.type, *self.values)

    def _find_missing(self, response: str) -> tuple[str, list[str], dict[str, Any]]:
        """Return three values: the normalised answer, the strings that it lacks, and the details for the record.

        The details are `{"found": [...], "missing": [...]}`.
        """
        answer = self.normalize(response)
        missing = [value for value in self.values if self.normalize(value) not in answer]
        present = [value for value in self.values if value not in missing]
        return answer, missing, {"found": present, "missing": missing}


class ContainsAnyMetric(_SeveralTexts):
    """`type: contains_any`: the answer contains at least one of several texts."""

    PLACE = 22

    type: Annotated[Literal["contains_any"], Role.KIND] = "contains_any"

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the answer
        contains one of the strings, else 0.0.
        """
        answer, missing, facts = self._find_missing(response)
        if facts["found"]:
            return 1.0, f"the answer contains {_quote_all(facts['found'])}", facts
        near = _describe_nearest(answer, self.normalize(missing[0])) if len(missing) == 1 else ""
        return 0.0, f"the answer contains none of {_quote_all(missing)}{near}", facts


class ContainsAllMetric(_SeveralTexts):
    """`type: contains_all`: the answer contains all of several texts. The score is the share that it contains."""

    PLACE = 23

    type: Annotated[Literal["contains_all"], Role.KIND] = "contains_all"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing share of the texts; all of them when absent. Example: `0.5`."""

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is the proportion of the
        strings that the answer contains.
        """
        answer, missing, facts = self._find_missing(response)
        share = (len(self.values) - len(missing)) / len(self.values)
        if not missing:
            return 1.0, f"the answer contains {_quote_all(self.values)}", facts
        near = _describe_nearest(answer, self.normalize(missing[0])) if len(missing) == 1 else ""
        return share, f"the answer does not contain {_quote_all(missing)}{near}", facts


class StartsWithMetric(_OneText):
    """`type: starts_with`: the answer begins with a text."""

    PLACE = 24

    type: Annotated[Literal["starts_with"], Role.KIND] = "starts_with"

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the answer
        begins with the string, else 0.0.
        """
        answer, value = self.normalize(response), self.normalize(self.value)
        if answer.startswith(value):
            return 1.0, f"the answer starts with {_quote(self.value)}", {}
        found = f"it starts with {excerpt(answer[: len(value) + _CONTEXT])}" if answer.strip() else EMPTY
        return 0.0, f"the answer does not start with {_quote(self.value)}: {found}", {}


class EndsWithMetric(_OneText):
    """`type: ends_with`: the answer ends with a text."""

    PLACE = 25

    type: Annotated[Literal["ends_with"], Role.KIND] = "ends_with"

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the answer ends
        with the string, else 0.0.
        """
        answer, value = self.normalize(response), self.normalize(self.value)
        if answer.endswith(value):
            return 1.0, f"the answer ends with {_quote(self.value)}", {}
        found = f"it ends with {excerpt(answer[-len(value) - _CONTEXT :])}" if answer.strip() else EMPTY
        return 0.0, f"the answer does not end with {_quote(self.value)}: {found}", {}


def check_pattern(pattern: str) -> str:
    """Return a regular expression after checking that it compiles.

    Raises:
        PydanticCustomError: it does not compile.
    """
    problem = pattern_problem(pattern)
    if problem is not None:
        raise PydanticCustomError("pattern", "the pattern does not compile: {reason}", {"reason": problem})
    return pattern


class _PatternCheck(AnswerCheck):
    """A check for a regular expression, which may match anywhere in the answer. It is matched as Unicode; flags are set
    inside the pattern.
    """

    SHORT: ClassVar[str | None] = "pattern"

    pattern: Annotated[NonBlank, AfterValidator(check_pattern)]
    """The regular expression, in the syntax of the package regex. It may match anywhere in the answer. Example:
    `(?i)order [A-Z]-[0-9]+`."""

    def base_name(self, k: int | None) -> str:
        """Return the check's type with the pattern."""
        return f"{self.type} /{format_text(self.pattern, LONGEST_NAME)}/"

    def _find_match(self, response: str) -> tuple[int, int] | None:
        return TimedPatterns().search(self.pattern, response)


class RegexMetric(_PatternCheck):
    """`type: regex`: a regular expression matches somewhere in the answer."""

    PLACE = 26

    type: Annotated[Literal["regex"], Role.KIND] = "regex"

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the pattern
        matches somewhere, else 0.0.

        Raises:
            PatternError: the pattern takes too long on this answer (code `pattern_timeout`).
        """
        span = self._find_match(response)
        if span is None:
            found = EMPTY if not response.strip() else f"it is {excerpt(response, _MOST_COMPARED)}"
            return 0.0, f"{format_pattern(self.pattern)} matches nothing in the answer: {found}", {}
        return 1.0, f"{format_pattern(self.pattern)} matches {_quote_part(response, *span)}", {}


class NotRegexMetric(_PatternCheck):
    """`type: not_regex`: a regular expression matches nothing in the answer; an empty answer fails."""

    PLACE = 27
    ONLY_FORBIDS = True

    type: Annotated[Literal["not_regex"], Role.KIND] = "not_regex"

    def check(self, response: str) -> tuple[float, str, dict[str, Any]]:
        """Return the score, a sentence with the reason, and details for the record. The score is 1.0 if the answer is
        not empty and the pattern matches nothing in it, else 0.0.

        Raises:
            PatternError: the pattern takes too long on this answer (code `pattern_timeout`).
        """
        if not response.strip():
            return 0.0, EMPTY, {}
        span = self._find_match(response)
        if span is None:
            return 1.0, f"{format_pattern(self.pattern)} matches nothing in the answer", {}
        return 0.0, f"{format_pattern(self.pattern)} matches {_quote_part(response, *span)}", {}


def _format_name(kind: str, *values: str) -> str:
    quoted = ", ".join(f'"{value}"' for value in values)
    return f"{kind} {format_text(quoted, LONGEST_NAME)}"


def _quote(text: str) -> str:
    return excerpt(text, _MOST_COMPARED)


def _quote_all(values: list[str]) -> str:
    return ", ".join(_quote(value) for value in values)


def _quote_part(text: str, start: int, end: int) -> str:
    """Quote a part of a text with some characters before and after it."""
    first, last = max(0, start - _CONTEXT), end + _CONTEXT
    return ("..." if first else "") + excerpt(text[first:last]) + ("..." if last < len(text) else "")


def _describe_nearest(answer: str, expected: str) -> str:
    """Return the end of a sentence about a missing string: the most similar part of the answer, or the answer's
    beginning if no part is similar.
    """
    if not answer.strip():
        return f": {EMPTY}"
    searched = answer[:_MOST_SEARCHED]
    # Lower case can be longer, and then places differ.
    low = searched.lower()
    low, expected = (low, expected.lower()) if len(low) == len(searched) else (searched, expected)
    match = SequenceMatcher(None, low, expected[:_MOST_COMPARED], autojunk=False).find_longest_match()
    if match.size < _LEAST_COMMON:
        return f": it is {excerpt(answer, 2 * _CONTEXT)}"
    start = max(0, match.a - match.b)
    return f"; the nearest part is {_quote_part(searched, start, start + min(len(expected), _MOST_COMPARED))}"
