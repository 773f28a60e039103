"""Equality and numeric comparison, 1.0 or 0.0."""

from __future__ import annotations

import asyncio
import math
import string
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from holodeck_action.metrics.computed import ComputedMetric, PythonEvaluator, compared_texts
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, excerpt
from holodeck_action.metrics.standard import StandardMetric
from holodeck_action.workers.threads import in_daemon_thread

THOUSANDS_SEPARATORS = (",", "_", "\u00a0", "\u202f")
"""Comma, underscore, no-break space and narrow no-break space; a plain space is none."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_SEPARATORS = str.maketrans("", "", "".join(THOUSANDS_SEPARATORS))
_SHORT = 60
"""Characters quoted of an answer that is right."""
_CONTEXT = 20


class ComparisonMetric(StandardMetric, ComputedMetric):
    """A yes or no about response and reference; without a threshold yes passes."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))
    QUICK_ON_SHORT_TEXTS = True

    @property
    def pass_mark(self) -> float | None:
        """A comparison passes or not, where no threshold is given."""
        return 1.0 if self.threshold is None else super().pass_mark

    def compute(self, **given: Any) -> EvaluationResult:
        """Compare `response` with `ground_truth`, both texts.

        Raises:
            EvaluationError: one of them is not a text (code `invalid_input`).
        """
        return self.graded(given)[0]

    def graded(self, given: Mapping[str, Any]) -> tuple[EvaluationResult, str | None]:
        """Compare as `compute` does; return why a text could not be read, too."""
        response, expected = compared_texts(self.evaluator_name, given, EvaluationError)
        error = None
        try:
            holds, reasoning = self._compare(response, expected)
        except ValueError as unreadable:
            holds, reasoning = False, str(unreadable)
            error = reasoning
        return self.result(1.0 if holds else 0.0, reasoning, passed=holds), error

    @abstractmethod
    def _compare(self, response: str, expected: str) -> tuple[bool, str]:
        """Return whether they compare equal, and a sentence about it.

        Raises:
            ValueError: one of them cannot be compared; the message says which and why.
        """


class EqualityMetric(ComparisonMetric):
    """Exact equality of two texts after the chosen normalisations."""

    def normalize(self, text: str) -> str:
        """Return the text as it is compared."""
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
        return False, f"{_difference(actual, wanted)}{after}"


def _difference(actual: str, wanted: str) -> str:
    """Quote both texts from shortly before their first difference on."""
    position = _first_difference(actual, wanted)
    start = max(0, position - _CONTEXT)
    where = f" from character {position + 1} on" if start else ""
    return f"{_quote(actual, start)} differs from {_quote(wanted, start)}{where}"


def _first_difference(actual: str, wanted: str) -> int:
    # By halves: comparing slices is much faster than comparing characters one by one.
    same, end = 0, min(len(actual), len(wanted))
    while same < end:
        middle = (same + end) // 2 + 1
        if actual[same:middle] == wanted[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def _quote(text: str, start: int) -> str:
    return ("..." if start else "") + excerpt(text[start:])


class NumericMetric(ComparisonMetric):
    """Equality of two numbers within a tolerance: `|a − e| ≤ absolute` or `|a − e| ≤ relative · |e|`.

    Each side is the whole text, trimmed, as Python's `float` reads it; no number is looked for inside prose. NaN and
    infinity equal nothing, themselves included.
    """

    def expected_value_problem(self, ground_truth: str) -> str | None:
        """Return why an expected value is no number."""
        try:
            self.parse(ground_truth)
        except ValueError as error:
            return str(error)
        return None

    def parse(self, text: str) -> float:
        """Return the finite number that a text is.

        Raises:
            ValueError: it is none; the message says why, as the end of a sentence about the text.
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
            raise ValueError("is not a finite number, which equals nothing")
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
        texts = _shown(response), _shown(expected)
        difference = abs(actual - wanted)
        if difference == 0.0:
            return True, " equals ".join(texts)
        holds, why = self._within(difference, self.relative_tolerance * abs(wanted))
        return holds, f"{' differs from '.join(texts)} by {_distinct(difference, self.absolute_tolerance)}, {why}"

    def _within(self, difference: float, allowance: float) -> tuple[bool, str]:
        absolute = f"the absolute tolerance {self.absolute_tolerance:g}"
        relative = f"the relative tolerance {self.relative_tolerance:g} ({allowance:g})"
        if difference <= self.absolute_tolerance:
            return True, f"within {absolute}"
        if self.relative_tolerance == 0.0:
            return False, f"more than {absolute}"
        # An overflowing difference would be within an overflowing allowance.
        if math.isfinite(difference) and difference <= allowance:
            return True, f"within {relative}"
        return False, f"more than {absolute} and {relative}"


def _shown(text: str) -> str:
    """Write a text that was read as a number without quotes where it is plain and short."""
    stripped = text.strip()
    return stripped if len(stripped) <= 40 and stripped.isascii() else excerpt(stripped, 40)


def _distinct(difference: float, tolerance: float) -> str:
    """Write a difference with as many digits as it takes to tell it from the tolerance."""
    short = f"{difference:.6g}"
    return short if (float(short) <= tolerance) == (difference <= tolerance) else repr(difference)


class _ComparingEvaluator(PythonEvaluator):
    """An evaluator whose results have an `error`, None for texts that could be read."""

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        assert isinstance(self.config, ComparisonMetric)
        result, error = await asyncio.wrap_future(in_daemon_thread(partial(self.config.graded, kwargs)))
        return replace(result, metadata={"error": error})


class EqualityEvaluator(
    _ComparingEvaluator,
    of=EqualityMetric,
    metric="equality",
    takes="case_insensitive strip_whitespace strip_punctuation threshold",
):
    """Equality of two texts, in Python."""


class NumericEvaluator(
    _ComparingEvaluator,
    of=NumericMetric,
    metric="numeric",
    takes="absolute_tolerance relative_tolerance accept_percent accept_thousands_separators threshold",
):
    """Equality of two numbers, in Python."""
