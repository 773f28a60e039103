"""Equality and numeric comparison, 1.0 or 0.0."""

from __future__ import annotations

import asyncio
import math
import string
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from holodeck_action.metrics.base import (
    DeterministicEvaluator,
    EvalParam,
    EvaluationError,
    EvaluationResult,
    ParamSpec,
    compared_texts,
)
from holodeck_action.metrics.result import check_threshold, excerpt
from holodeck_action.workers.threads import in_daemon_thread

THOUSANDS_SEPARATORS = (",", "_", "\u00a0", "\u202f")
"""Comma, underscore, no-break space and narrow no-break space; a plain space is none."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_SEPARATORS = str.maketrans("", "", "".join(THOUSANDS_SEPARATORS))
_SHORT = 60
"""Characters quoted of an answer that is right."""
_CONTEXT = 20


class _Comparison(DeterministicEvaluator):
    """A yes or no about response and reference; without a threshold yes passes."""

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.GROUND_TRUTH}))
    QUICK_ON_SHORT_TEXTS = True

    def __init__(self, threshold: float | None, timeout: float | None, **kwargs: Any) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.threshold = check_threshold(threshold)

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Compare `response` with `ground_truth`, both texts.

        Raises:
            EvaluationError: one of them is not a text (code `invalid_input`).
        """
        return self._graded(kwargs)[0]

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        """Compare as `compute` does; `result["error"]` says why a text could not be read, else it is None."""
        result, error = await asyncio.wrap_future(in_daemon_thread(lambda: self._graded(kwargs)))
        return replace(result, metadata={"error": error})

    def _graded(self, inputs: Mapping[str, Any]) -> tuple[EvaluationResult, str | None]:
        response, expected = compared_texts(self.name, inputs, EvaluationError)
        try:
            holds, reasoning = self._compare(response, expected)
            error = None
        except ValueError as unreadable:
            holds, reasoning = False, str(unreadable)
            error = reasoning
        result = EvaluationResult(
            score=1.0 if holds else 0.0,
            passed=holds if self.threshold is None else None,
            reasoning=reasoning,
            metric_name=self.metric_name,
            threshold=self.threshold,
        )
        return result, error

    @abstractmethod
    def _compare(self, response: str, expected: str) -> tuple[bool, str]:
        """Return whether they compare equal, and a sentence about it.

        Raises:
            ValueError: one of them cannot be compared; the message says which and why.
        """


class EqualityEvaluator(_Comparison):
    """Exact equality of two texts after the chosen normalisations, applied in this order.

    Args:
        case_insensitive: compare case-folded.
        strip_punctuation: delete ASCII punctuation.
        strip_whitespace: turn every run of white space into one space and trim the ends.
        threshold: lowest passing score, 0..1.
        timeout: seconds; None for no limit.
        **kwargs: see `BaseEvaluator`.
    """

    def __init__(
        self,
        case_insensitive: bool = False,
        strip_whitespace: bool = False,
        strip_punctuation: bool = False,
        threshold: float | None = None,
        timeout: float | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, timeout, **kwargs)
        self.case_insensitive = case_insensitive
        self.strip_whitespace = strip_whitespace
        self.strip_punctuation = strip_punctuation

    @property
    def metric_name(self) -> str:
        """The metric's name in a suite."""
        return "equality"

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


class NumericEvaluator(_Comparison):
    """Equality of two numbers within a tolerance: `|a − e| ≤ absolute` or `|a − e| ≤ relative · |e|`.

    Each side is the whole text, trimmed, as Python's `float` reads it; no number is looked for inside prose. NaN and
    infinity equal nothing, themselves included.

    Args:
        absolute_tolerance: largest difference, inclusive.
        relative_tolerance: largest difference as a share of the expected number, inclusive; 0 for none.
        accept_percent: a number with a trailing `%` is a hundredth of what is written, on each side by itself.
        accept_thousands_separators: `THOUSANDS_SEPARATORS` are deleted wherever they stand.
        threshold: lowest passing score, 0..1.
        timeout: seconds; None for no limit.
        **kwargs: see `BaseEvaluator`.

    Raises:
        ValueError: a tolerance is negative, NaN or infinite.
    """

    def __init__(
        self,
        absolute_tolerance: float = 1e-6,
        relative_tolerance: float = 0.0,
        accept_percent: bool = False,
        accept_thousands_separators: bool = False,
        threshold: float | None = None,
        timeout: float | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(threshold, timeout, **kwargs)
        for name, tolerance in (
            ("absolute_tolerance", absolute_tolerance),
            ("relative_tolerance", relative_tolerance),
        ):
            if not (math.isfinite(tolerance) and tolerance >= 0.0):
                raise ValueError(f"{name} must be a finite number of at least 0, not {tolerance!r}")
        self.absolute_tolerance = absolute_tolerance
        self.relative_tolerance = relative_tolerance
        self.accept_percent = accept_percent
        self.accept_thousands_separators = accept_thousands_separators

    @property
    def metric_name(self) -> str:
        """The metric's name in a suite."""
        return "numeric"

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
