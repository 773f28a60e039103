"""Metrics that compare texts or numbers for equality; the score is 1.0 or 0.0."""

import asyncio
import math
import string
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from holodeck_action.metrics.computed import ComputedMetric, PythonEvaluator, require_texts
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, excerpt
from holodeck_action.metrics.standard import StandardMetric
from holodeck_action.workers.threads import in_daemon_thread

THOUSANDS_SEPARATORS = (",", "_", "\u00a0", "\u202f")
"""Separators in numbers: comma, underscore, no-break space and narrow no-break space, but not a plain space."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_SEPARATORS = str.maketrans("", "", "".join(THOUSANDS_SEPARATORS))
_SHORT = 60
"""Maximum characters of a correct answer that a reason quotes."""
_CONTEXT = 20


class ComparisonMetric(StandardMetric, ComputedMetric):
    """Base class of comparisons of response and reference; if there is no threshold, equality passes."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))
    QUICK_ON_SHORT_TEXTS = True

    @property
    def pass_mark(self) -> float | None:
        """The threshold; 1 if no threshold is given."""
        return 1.0 if self.threshold is None else super().pass_mark

    def compute(self, **given: Any) -> EvaluationResult:
        """Compare `response` with `ground_truth`, both strings.

        Raises:
            EvaluationError: one of them is not a string (code `invalid_input`).
        """
        return self.compare_texts(given)[0]

    def compare_texts(self, inputs: Mapping[str, Any]) -> tuple[EvaluationResult, str | None]:
        """Return the result of `compute`, and a clause why a text is invalid (None if both texts are valid)."""
        response, expected = require_texts(self.evaluator_name, inputs, EvaluationError)
        error = None
        try:
            holds, reasoning = self._compare(response, expected)
        except ValueError as unreadable:
            holds, reasoning = False, str(unreadable)
            error = reasoning
        return self.result(1.0 if holds else 0.0, reasoning, passed=holds), error

    @abstractmethod
    def _compare(self, response: str, expected: str) -> tuple[bool, str]:
        """Return whether both texts are equal, and a sentence with the reason.

        Raises:
            ValueError: a text cannot be parsed; the message names the text and the reason.
        """


class EqualityMetric(ComparisonMetric):
    """Equality of two texts after the selected normalisations."""

    if TYPE_CHECKING:
        metric: Literal["equality"] = "equality"

    def normalize(self, text: str) -> str:
        """Return the normalised text."""
        if self.case_insensitive:
            text = text.casefold()
        if self.strip_punctuation:
            text = text.translate(_NO_PUNCTUATION)
        if self.strip_whitespace:
            text = " ".join(text.split())
        return text

    def _compare(self, response: str, expected: str) -> tuple[bool, str]:
        actual, wanted = self.normalize(response), self.normalize(expected)
        after = " after normalisation" if (actual, wanted) != (response, expected) else ""
        if actual == wanted:
            return True, f"{excerpt(response, _SHORT)} equals the expected text{after}"
        return False, f"{_describe_difference(actual, wanted)}{after}"


def _describe_difference(actual: str, expected: str) -> str:
    """Return a description that quotes both texts from shortly before their first difference."""
    position = _first_difference(actual, expected)
    start = max(0, position - _CONTEXT)
    where = f" from character {position + 1} on" if start else ""
    return f"{_quote(actual, start)} differs from {_quote(expected, start)}{where}"


def _first_difference(actual: str, expected: str) -> int:
    # Binary search, because comparing slices is much faster than comparing characters.
    same, end = 0, min(len(actual), len(expected))
    while same < end:
        middle = (same + end) // 2 + 1
        if actual[same:middle] == expected[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def _quote(text: str, start: int) -> str:
    return ("..." if start else "") + excerpt(text[start:])


class NumericMetric(ComparisonMetric):
    """Equality of two numbers within a tolerance: `|a − e| ≤ absolute` or `|a − e| ≤ relative · |e|`.

    Each text as a whole is trimmed and parsed by Python's `float`; numbers inside prose are not found. NaN and infinity
    equal no number, not even themselves.
    """

    if TYPE_CHECKING:
        metric: Literal["numeric"] = "numeric"

    def expected_value_problem(self, ground_truth: str) -> str | None:
        """Return the reason why an expected value is not a number; None if it is a number."""
        try:
            self.parse(ground_truth)
        except ValueError as error:
            return str(error)
        return None

    def parse(self, text: str) -> float:
        """Return the finite number in a text.

        Raises:
            ValueError: the text is not a finite number; the message is the end of a sentence about the text.
        """
        stripped = text.strip()
        if not stripped:
            raise ValueError("is empty")
        percent = stripped.endswith("%")
        if percent and not self.accept_percent:
            raise ValueError("has a percent sign, which needs accept_percent: true")
        digits = stripped.removesuffix("%")
        if self.accept_thousands_separators:
            digits = digits.translate(_NO_SEPARATORS)
        elif any(separator in digits for separator in THOUSANDS_SEPARATORS):
            raise ValueError("has thousands separators, which need accept_thousands_separators: true")
        try:
            number = float(digits)
        except ValueError:
            raise ValueError("is not a number") from None
        if not math.isfinite(number):
            raise ValueError("is not a finite number, and equals no number")
        return number / 100 if percent else number

    def _compare(self, response: str, expected: str) -> tuple[bool, str]:
        try:
            actual = self.parse(response)
        except ValueError as error:
            raise ValueError(f"the answer {excerpt(response)} {error}") from None
        try:
            wanted = self.parse(expected)
        except ValueError as error:
            raise ValueError(f"the expected value {excerpt(expected)} {error}") from None
        texts = _format_number(response), _format_number(expected)
        difference = abs(actual - wanted)
        if difference == 0.0:
            return True, " equals ".join(texts)
        holds, why = self._check_tolerance(difference, self.relative_tolerance * abs(wanted))
        return (
            holds,
            f"{' differs from '.join(texts)} by {_format_difference(difference, self.absolute_tolerance)}, {why}",
        )

    def _check_tolerance(self, difference: float, allowance: float) -> tuple[bool, str]:
        absolute = f"the absolute tolerance {self.absolute_tolerance:g}"
        relative = f"the relative tolerance {self.relative_tolerance:g} ({allowance:g})"
        if difference <= self.absolute_tolerance:
            return True, f"within {absolute}"
        if self.relative_tolerance == 0.0:
            return False, f"more than {absolute}"
        # If both overflow to infinity, the comparison would be true.
        if math.isfinite(difference) and difference <= allowance:
            return True, f"within {relative}"
        return False, f"more than {absolute} and {relative}"


def _format_number(text: str) -> str:
    """Return a number's text for a message, without quotes if it is plain and short."""
    stripped = text.strip()
    return stripped if len(stripped) <= 40 and stripped.isascii() else excerpt(stripped, 40)


def _format_difference(difference: float, tolerance: float) -> str:
    """Return a difference with enough digits to distinguish it from the tolerance."""
    short = f"{difference:.6g}"
    return short if (float(short) <= tolerance) == (difference <= tolerance) else repr(difference)


class _ComparingEvaluator(PythonEvaluator):
    """Base class of evaluators whose results contain `error`: the reason why a text could not be parsed, or None."""

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        assert isinstance(self.config, ComparisonMetric)
        result, error = await asyncio.wrap_future(in_daemon_thread(partial(self.config.compare_texts, kwargs)))
        return replace(result, metadata={"error": error})


class EqualityEvaluator(
    _ComparingEvaluator,
    of=EqualityMetric,
    metric="equality",
    takes="case_insensitive strip_whitespace strip_punctuation threshold",
):
    """The evaluator of `EqualityMetric`, for use from Python."""


class NumericEvaluator(
    _ComparingEvaluator,
    of=NumericMetric,
    metric="numeric",
    takes="absolute_tolerance relative_tolerance accept_percent accept_thousands_separators threshold",
):
    """The evaluator of `NumericMetric`, for use from Python."""
