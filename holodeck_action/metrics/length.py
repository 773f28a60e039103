"""Length of an answer against a range.

Source: HoneyHive evaluation data models, LengthEvaluation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.base import (
    Building,
    DeterministicEvaluator,
    EvalParam,
    EvaluationError,
    EvaluationResult,
    ParamSpec,
)
from holodeck_action.metrics.result import check_threshold, count
from holodeck_action.suite.model.base import Integer, UnitInterval, given
from holodeck_action.suite.model.metric_base import Metric, Role

_UNITS = ("words", "characters", "sentences")
_BOUNDS = tuple(f"{end}_{unit}" for unit in _UNITS for end in ("min", "max"))

# The look-behind lets a run of marks be tried once only, from its beginning: linear on any text.
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s|\Z)  # marks, closing quotes and brackets, then white space
      | [。！？]                                   # no white space follows these
      | \n\s*\n                                    # a blank line
    """,
    re.VERBOSE,
)


class LengthMetric(Metric):
    """`type: length`: characters, words and sentences of the answer against a range. At least one bound."""

    PLACE = 9
    SCHEMA_RULES = ({"anyOf": [given(name) for name in _BOUNDS]},)

    type: Annotated[Literal["length"], Role.KIND] = "length"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score. Passes inside all bounds when absent. Example: `0.8`."""
    min_words: Annotated[Integer, Field(ge=0)] | None = None
    """Fewest words. Example: `10`."""
    max_words: Annotated[Integer, Field(ge=1)] | None = None
    """Most words. Example: `200`."""
    min_characters: Annotated[Integer, Field(ge=0)] | None = None
    """Fewest characters. Example: `50`."""
    max_characters: Annotated[Integer, Field(ge=1)] | None = None
    """Most characters. Example: `1000`."""
    min_sentences: Annotated[Integer, Field(ge=0)] | None = None
    """Fewest sentences. Example: `1`."""
    max_sentences: Annotated[Integer, Field(ge=1)] | None = None
    """Most sentences. Example: `5`."""
    optimal_words: Annotated[Integer, Field(ge=1)] | None = None
    """The best number of words. Others inside the bounds score the ratio to it, and pass when there is no threshold.
    Example: `60`."""

    @model_validator(mode="after")
    def _has_a_range(self) -> LengthMetric:
        bounds = [(getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}"), unit) for unit in _UNITS]
        if all(low is None and high is None for low, high, _ in bounds):
            raise PydanticCustomError("length_range", "give at least one bound, such as max_words: 200")
        for low, high, unit in bounds:
            if low is not None and high is not None and low > high:
                raise PydanticCustomError("length_range", "min_{unit} must not be above max_{unit}", {"unit": unit})
        if self.optimal_words is not None:
            low, high, _ = bounds[0]
            if not (low or 0) <= self.optimal_words <= (high or self.optimal_words):
                raise PydanticCustomError("length_range", "optimal_words must be from min_words to max_words")
        return self

    @property
    def pass_mark(self) -> float | None:
        """Inside all bounds, where no threshold is given."""
        return 1.0 if self.threshold is None else self.threshold

    def evaluator(self, building: Building) -> LengthEvaluator:
        """Return what scores."""
        bounds = {name: getattr(self, name) for name in (*_BOUNDS, "optimal_words")}
        return LengthEvaluator(threshold=self.threshold, **bounds, **building.options)


def count_words(text: str) -> int:
    """Count words: stretches between white space that hold at least one letter or digit.

    `don't` and `well-known` are one word, a lone dash is none; text without spaces (Chinese, Japanese) is one word per
    stretch.
    """
    return sum(1 for piece in text.split() if _says_something(piece))


def count_sentences(text: str) -> int:
    """Count sentences: parts of the text that hold a letter or digit.

    A part ends after `.`, `!`, `?` or `…` (any number of them, with closing quotes and brackets) before white space or
    the end, after `。`, `！` or `？` anywhere, and at a blank line. So `3.14` is no end, but the point of `e.g. ` is.
    """
    return sum(1 for part in _SENTENCE_END.split(text) if _says_something(part))


def _says_something(text: str) -> bool:
    return any(map(str.isalnum, text))


class LengthEvaluator(DeterministicEvaluator):
    """Score how well the length of the response fits a range.

    Inside all bounds the score is 1; with `optimal_words` it is optimum/words there, or words/optimum, whichever is
    below 1. A unit below its minimum counts value/minimum, one above its maximum
    maximum/value; the score is the smallest of these. Without a threshold only a length inside all bounds passes.

    Characters are Unicode code points, white space included; for words and sentences see `count_words` and
    `count_sentences`. All bounds are inclusive.

    Args:
        min_words: least number of words, and likewise the other bounds; None for no bound.
        max_words: greatest number of words.
        min_characters: least number of characters.
        max_characters: greatest number of characters.
        min_sentences: least number of sentences.
        max_sentences: greatest number of sentences.
        optimal_words: the best number of words, at least 1; None where all numbers inside the bounds are as good.
        threshold: lowest passing score, 0..1.
        timeout: seconds; None for no limit.
        **kwargs: see `BaseEvaluator`.

    Raises:
        ValueError: no bound is given, one is negative, or a minimum is above its maximum, or the optimum is
            outside them.
    """

    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}))

    def __init__(
        self,
        min_words: int | None = None,
        max_words: int | None = None,
        min_characters: int | None = None,
        max_characters: int | None = None,
        min_sentences: int | None = None,
        max_sentences: int | None = None,
        optimal_words: int | None = None,
        threshold: float | None = None,
        timeout: float | None = 60.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(timeout=timeout, **kwargs)
        self.threshold = check_threshold(threshold)
        self._bounds = {
            "characters": (min_characters, max_characters),
            "words": (min_words, max_words),
            "sentences": (min_sentences, max_sentences),
        }
        given = [bound for bounds in self._bounds.values() for bound in bounds if bound is not None]
        if not given:
            raise ValueError("give at least one bound, such as max_words=200")
        if min(given) < 0:
            raise ValueError("bounds must not be negative")
        for unit, (low, high) in self._bounds.items():
            if low is not None and high is not None and low > high:
                raise ValueError(f"min_{unit} must not be above max_{unit}")
        if optimal_words is not None and not max(min_words or 1, 1) <= optimal_words <= (max_words or optimal_words):
            raise ValueError("optimal_words must be at least 1, and from min_words to max_words")
        self._optimal = optimal_words
        self._range = {
            f"{end}_{unit}": bound
            for unit, bounds in self._bounds.items()
            for end, bound in zip(("min", "max"), bounds, strict=True)
            if bound is not None
        }
        if optimal_words is not None:
            self._range["optimal_words"] = optimal_words

    @property
    def metric_name(self) -> str:
        """The metric's name in a suite."""
        return "length"

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Score the length of `response`, a text.

        Raises:
            EvaluationError: it is not a text (code `invalid_input`).
        """
        response = kwargs["response"]
        if not isinstance(response, str):
            raise EvaluationError(
                f"{self.name} measures a text, but response is of type {type(response).__name__}", code="invalid_input"
            )
        lengths = {
            "characters": len(response),
            "words": count_words(response),
            "sentences": count_sentences(response),
        }
        score, appropriateness, reasoning = self._assess(lengths)
        return EvaluationResult(
            score=score,
            passed=appropriateness == "appropriate" if self.threshold is None else None,
            reasoning=reasoning,
            metric_name=self.metric_name,
            threshold=self.threshold,
            metadata={
                "character_count": lengths["characters"],
                "word_count": lengths["words"],
                "sentence_count": lengths["sentences"],
                "expected_length_range": self._range,
                "length_appropriateness": appropriateness,
            },
        )

    def _assess(self, lengths: Mapping[str, int]) -> tuple[float, Literal["too_short", "appropriate", "too_long"], str]:
        """Return the score, the judgement of the unit that fits worst, and what was found."""
        worst: float = 1.0
        appropriateness: Literal["too_short", "appropriate", "too_long"] = "appropriate"
        inside, outside = [], []
        for unit, (low, high) in self._bounds.items():
            length = lengths[unit]
            if low is not None and length < low:
                outside.append(f"{count(length, unit)}, fewer than the {low} wanted")
                if length / low < worst:
                    worst, appropriateness = length / low, "too_short"
            elif high is not None and length > high:
                outside.append(f"{count(length, unit)}, more than the {high} allowed")
                if high / length < worst:
                    worst, appropriateness = high / length, "too_long"
            elif low is not None or high is not None or (unit == "words" and self._optimal is not None):
                inside.append(count(length, unit))
        if outside:
            return worst, appropriateness, f"the answer has {'; '.join(outside)}"
        words = lengths["words"]
        if self._optimal is None or words == self._optimal:
            return 1.0, "appropriate", f"the answer has {', '.join(inside)}, as wanted"
        fit = min(words, self._optimal) / max(words, self._optimal)
        return (
            fit,
            "appropriate",
            f"the answer has {', '.join(inside)}, as wanted; {self._optimal} words are the optimum",
        )
