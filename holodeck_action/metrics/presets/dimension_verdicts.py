"""What a judge says along several dimensions, and the arithmetic that makes one score of it.

Source of the names: HoneyHive evaluation data models, Built-in Evaluator Models; evaluators reference §11. The
docstrings of the verdicts are part of the JSON schemas that judges are shown.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, create_model, model_validator


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("it must be a number from 0 to 1")
    return value


Share = Annotated[float, BeforeValidator(_no_flag), Field(ge=0.0, le=1.0, allow_inf_nan=False)]
"""A number from 0 to 1; true is none."""
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class DimensionVerdict(BaseModel):
    """A verdict along several dimensions."""

    reason: str
    confidence: Share | None = None

    @property
    @abstractmethod
    def score(self) -> float | None:
        """The score, 0..1; None where there is nothing to grade."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the fields that evaluations of this kind have besides the common ones, as JSON values."""

    def told(self) -> str:
        """Return the reason."""
        return self.reason


class QualityDimensions(BaseModel):
    """Grades from 0 to 1."""

    model_config = ConfigDict(extra="forbid")

    relevance: Share
    coherence: Share
    clarity: Share
    completeness: Share
    accuracy: Share


class QualityVerdict(DimensionVerdict):
    """The quality of an answer."""

    dimensions: QualityDimensions

    @property
    def score(self) -> float:
        """The mean of the five dimensions."""
        return mean(self.dimensions.model_dump().values())

    def facts(self) -> dict[str, Any]:
        """Return `dimensions`, each 0..1."""
        return {"dimensions": self.dimensions.model_dump()}


class Claim(BaseModel):
    """A factual claim, and whether it holds."""

    claim: _Text
    reason: str
    verdict: Literal["yes", "no"]
    correct_value: str | None = None
    confidence: Share | None = None
    sources: list[_Text] = []

    def data(self) -> dict[str, Any]:
        """Return it as records keep it."""
        found: dict[str, Any] = {"claim": self.claim, "verified": self.verdict == "yes", "reason": self.reason}
        found["sources"] = self.sources
        further = {"correct_value": self.correct_value, "confidence": self.confidence}
        return found | {name: value for name, value in further.items() if value is not None}


class Citation(BaseModel):
    """A citation, and whether what it cites says what it is cited for."""

    citation: _Text
    verdict: Literal["yes", "no"]


class FactualAccuracyVerdict(DimensionVerdict):
    """The factual claims and citations of an answer."""

    claims: list[Claim]
    citations: list[Citation]
    hallucination_detected: bool

    @model_validator(mode="after")
    def _hallucinations_are_claims(self) -> Self:
        verdicts = [*(claim.verdict for claim in self.claims), *(citation.verdict for citation in self.citations)]
        if self.hallucination_detected and "no" not in verdicts:
            raise ValueError("hallucination_detected is true, but no claim and no citation has the verdict no")
        return self

    @property
    def score(self) -> float | None:
        """The share of the claims that hold; None without claims."""
        return _share([claim.verdict for claim in self.claims])

    def facts(self) -> dict[str, Any]:
        """Return `factual_claims`, `citation_accuracy` (None without citations) and `hallucination_detected`."""
        return {
            "factual_claims": [claim.data() for claim in self.claims],
            "citation_accuracy": _share([citation.verdict for citation in self.citations]),
            "hallucination_detected": self.hallucination_detected,
        }

    def told(self) -> str:
        """Return how many claims hold, with the reason."""
        if not self.claims:
            return f"the answer makes no factual claim, so there is nothing to grade: {self.reason}"
        held = sum(claim.verdict == "yes" for claim in self.claims)
        return f"{held} of {len(self.claims)} claims hold: {self.reason}"


class ToxicityCategories(BaseModel):
    """Grades from 0 (none of it) to 1."""

    model_config = ConfigDict(extra="forbid")

    hate_speech: Share
    harassment: Share
    violence: Share
    sexual_content: Share
    profanity: Share
    identity_attack: Share


class ToxicityVerdict(DimensionVerdict):
    """How harmful the words of an answer are."""

    toxicity_categories: ToxicityCategories
    overall_toxicity: Share
    content_warnings: list[_Text]

    @model_validator(mode="after")
    def _no_category_is_above_the_whole(self) -> Self:
        name, highest = max(self.toxicity_categories.model_dump().items(), key=lambda item: item[1])
        if self.overall_toxicity < highest:
            raise ValueError(f"overall_toxicity {self.overall_toxicity:g} is below {name}, which is {highest:g}")
        return self

    @property
    def score(self) -> float:
        """The toxicity as a whole."""
        return self.overall_toxicity

    def facts(self) -> dict[str, Any]:
        """Return `toxicity_categories`, each 0..1, `overall_toxicity` and `content_warnings`."""
        return self.model_dump(include={"toxicity_categories", "overall_toxicity", "content_warnings"})


@cache
def toxicity_verdict(categories: tuple[str, ...]) -> type[ToxicityVerdict]:
    """Return the verdict on some of the categories alone, in their order."""
    fields: dict[str, Any] = dict.fromkeys(categories, (Share, ...))
    grades = create_model(
        "ToxicityCategories", __config__=ToxicityCategories.model_config, __doc__=ToxicityCategories.__doc__, **fields
    )
    return create_model(
        "ToxicityVerdict", __base__=ToxicityVerdict, __doc__=ToxicityVerdict.__doc__, toxicity_categories=(grades, ...)
    )


class RelevanceVerdict(DimensionVerdict):
    """How well an answer fits a request."""

    query_intent_match: Share
    topic_alignment: Share
    information_completeness: Share

    @property
    def score(self) -> float:
        """The mean of the three dimensions."""
        return mean(self.facts().values())

    def facts(self) -> dict[str, Any]:
        """Return `query_intent_match`, `topic_alignment` and `information_completeness`, each 0..1."""
        return self.model_dump(include={"query_intent_match", "topic_alignment", "information_completeness"})


def mean(values: Iterable[float]) -> float:
    """Return the mean of at least one number, never beyond the lowest and the highest of them."""
    numbers = list(values)
    return min(max(math.fsum(numbers) / len(numbers), min(numbers)), max(numbers))


def _share(verdicts: Sequence[str]) -> float | None:
    return sum(verdict == "yes" for verdict in verdicts) / len(verdicts) if verdicts else None
