"""Length of an answer against a range.

Source: HoneyHive evaluation data models, LengthEvaluation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.computed import ComputedMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult, count
from holodeck_action.suite.model.base import Integer, UnitInterval, given
from holodeck_action.suite.model.metric_base import Role

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


Judgement = Literal["too_short", "appropriate", "too_long"]


class LengthMetric(ComputedMetric):
    """`type: length`: characters, words and sentences of the answer against a range. At least one bound."""

    PLACE = 9
    SCHEMA_RULES = ({"anyOf": [given(name) for name in _BOUNDS]},)
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}))

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
        bounds = [(*self._bounds(unit), unit) for unit in _UNITS]
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

    def compute(self, **given: Any) -> EvaluationResult:
        """Score how well the length of `response` fits the range.

        Inside all bounds the score is 1; with `optimal_words` it is optimum/words there, or words/optimum, whichever is
        below 1. A unit below its minimum counts value/minimum, one above its maximum maximum/value; the score is the
        smallest of these. Without a threshold only a length inside all bounds passes.

        Characters are Unicode code points, white space included; for words and sentences see `count_words` and
        `count_sentences`. All bounds are inclusive.

        Raises:
            EvaluationError: the response is not a text (code `invalid_input`).
        """
        response = given["response"]
        if not isinstance(response, str):
            found = f"response is of type {type(response).__name__}"
            raise EvaluationError(f"{self.evaluator_name} measures a text, but {found}", code="invalid_input")
        lengths = {
            "characters": len(response),
            "words": count_words(response),
            "sentences": count_sentences(response),
        }
        score, judgement, reasoning = self._assess(lengths)
        names = [f"{end}_{unit}" for unit in lengths for end in ("min", "max")]
        limits = {name: getattr(self, name) for name in (*names, "optimal_words")}
        facts = {
            "character_count": lengths["characters"],
            "word_count": lengths["words"],
            "sentence_count": lengths["sentences"],
            "expected_length_range": {name: limit for name, limit in limits.items() if limit is not None},
            "length_appropriateness": judgement,
        }
        return self.result(score, reasoning, facts, passed=judgement == "appropriate")

    def _bounds(self, unit: str) -> tuple[int | None, int | None]:
        return getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")

    def _assess(self, lengths: Mapping[str, int]) -> tuple[float, Judgement, str]:
        """Return the score, the judgement of the unit that fits worst, and what was found."""
        worst: float = 1.0
        judgement: Judgement = "appropriate"
        inside, outside = [], []
        for unit, length in lengths.items():
            low, high = self._bounds(unit)
            if low is not None and length < low:
                outside.append(f"{count(length, unit)}, fewer than the {low} wanted")
                if length / low < worst:
                    worst, judgement = length / low, "too_short"
            elif high is not None and length > high:
                outside.append(f"{count(length, unit)}, more than the {high} allowed")
                if high / length < worst:
                    worst, judgement = high / length, "too_long"
            elif low is not None or high is not None or (unit == "words" and self.optimal_words is not None):
                inside.append(count(length, unit))
        if outside:
            return worst, judgement, f"the answer has {'; '.join(outside)}"
        words = lengths["words"]
        if self.optimal_words is None or words == self.optimal_words:
            return 1.0, "appropriate", f"the answer has {', '.join(inside)}, as wanted"
        fit = min(words, self.optimal_words) / max(words, self.optimal_words)
        return (
            fit,
            "appropriate",
            f"the answer has {', '.join(inside)}, as wanted; {self.optimal_words} words are the optimum",
        )


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
