"""Length of an answer, compared with a range.

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
from holodeck_action.metrics.result import EvaluationResult, format_count
from holodeck_action.suite.model.base import Integer, UnitInterval, with_values
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.text.lazy_patterns import lazy_pattern

_UNITS = ("words", "characters", "sentences")
_BOUNDS = tuple(f"{end}_{unit}" for unit in _UNITS for end in ("min", "max"))

# The look-behind matches a run of marks only from its beginning, so that the time is linear on any text.
_SENTENCE_END = lazy_pattern(
    r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s|\Z)  # marks, closing quotes and brackets, then white space
      | [。！？]                                   # no white space follows these
      | \n\s*\n                                    # a blank line
    """,
    re.VERBOSE,
)


Judgement = Literal["too_short", "appropriate", "too_long"]
_BLANK: tuple[float, Judgement, str] = (0.0, "too_short", "the answer is empty; min_words: 0 would allow that")


class LengthMetric(ComputedMetric):
    """`type: length`: characters, words and sentences of the answer against a range. At least one bound is required."""

    PLACE = 9
    GRADES_FORM = True
    SCHEMA_RULES = ({"anyOf": [with_values(name) for name in _BOUNDS]},)
    PARAM_SPEC = ParamSpec(required=frozenset({EvalParam.RESPONSE}))

    type: Annotated[Literal["length"], Role.KIND] = "length"
    threshold: Annotated[UnitInterval | None, Role.PASS_MARK] = None
    """Lowest passing score. Passes inside all bounds when absent. Example: `0.8`."""
    min_words: Annotated[Integer, Field(ge=0)] | None = None
    """Minimum number of words. Example: `10`."""
    max_words: Annotated[Integer, Field(ge=1)] | None = None
    """Maximum number of words. Example: `200`."""
    min_characters: Annotated[Integer, Field(ge=0)] | None = None
    """Minimum number of characters. Example: `50`."""
    max_characters: Annotated[Integer, Field(ge=1)] | None = None
    """Maximum number of characters. Example: `1000`."""
    min_sentences: Annotated[Integer, Field(ge=0)] | None = None
    """Minimum number of sentences. Example: `1`."""
    max_sentences: Annotated[Integer, Field(ge=1)] | None = None
    """Maximum number of sentences. Example: `5`."""
    optimal_words: Annotated[Integer, Field(ge=1)] | None = None
    """The best number of words. Inside the bounds, another number scores the ratio of the smaller to the larger one,
    and passes when there is no threshold.
    Example: `60`."""

    @model_validator(mode="after")
    def _check_range(self) -> LengthMetric:
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
        """The threshold. The default is 1, a score that only lengths inside all bounds reach."""
        return 1.0 if self.threshold is None else self.threshold

    def compute(self, **given: Any) -> EvaluationResult:
        """Score how well the length of `response` fits the range.

        Inside all bounds the score is 1 or, if `optimal_words` is set, the smaller of optimum/words and words/optimum.
        Outside, each unit (words, characters, sentences) gets the ratio value/minimum if it is below its minimum, or
        maximum/value if it is above its maximum, and the smallest ratio is the score. Without a threshold only lengths
        inside all bounds pass. If no minimum is set, a blank answer scores 0, because it answers nothing; a minimum of
        0 allows blank answers.

        Characters are Unicode code points, including white space; `count_words` and `count_sentences` define the other
        units. All bounds are inclusive.

        Raises:
            EvaluationError: the response is not a string (code `invalid_input`).
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
        if not response.strip() and all(self._bounds(unit)[0] is None for unit in _UNITS):
            score, judgement, reasoning = _BLANK
        else:
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
        """Return the score, the judgement on the unit that is furthest outside its bounds (the smallest ratio, see
        `compute`), and the reason.
        """
        worst: float = 1.0
        judgement: Judgement = "appropriate"
        inside, outside = [], []
        for unit, length in lengths.items():
            low, high = self._bounds(unit)
            if low is not None and length < low:
                outside.append(f"{format_count(length, unit)}, fewer than the minimum of {low}")
                if length / low < worst:
                    worst, judgement = length / low, "too_short"
            elif high is not None and length > high:
                outside.append(f"{format_count(length, unit)}, more than the maximum of {high}")
                if high / length < worst:
                    worst, judgement = high / length, "too_long"
            elif low is not None or high is not None or (unit == "words" and self.optimal_words is not None):
                inside.append(format_count(length, unit))
        if outside:
            return worst, judgement, f"the answer has {'; '.join(outside)}"
        words = lengths["words"]
        if self.optimal_words is None or words == self.optimal_words:
            return 1.0, "appropriate", f"the answer has {', '.join(inside)}, within bounds"
        fit = min(words, self.optimal_words) / max(words, self.optimal_words)
        return (
            fit,
            "appropriate",
            f"the answer has {', '.join(inside)}, within bounds; {self.optimal_words} words are optimal",
        )


def count_words(text: str) -> int:
    """Count words: sequences without white space that contain a letter or digit.

    `don't` and `well-known` are one word each, a single dash is not a word. In text without spaces (Chinese, Japanese)
    each sequence is one word.
    """
    return sum(1 for piece in text.split() if _has_word(piece))


def count_sentences(text: str) -> int:
    """Count sentences: parts of a text that contain a letter or digit.

    A part ends after `.`, `!`, `?` or `…` (any number of them, with closing quotes and brackets) before white space or
    the end, after `。`, `！` or `？` anywhere, and at a blank line. So `3.14` does not end a sentence, but `e.g. ` ends
    one.
    """
    return sum(1 for part in _SENTENCE_END.split(text) if _has_word(part))


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))
