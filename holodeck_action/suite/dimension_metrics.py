"""Metrics that one judge grades along several dimensions, as metric entries (evaluators reference §11)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from holodeck_action.suite.base import UnitInterval
from holodeck_action.suite.metric_base import JudgedMetric
from holodeck_action.suite.providers import LLMProvider

ToxicityCategory = Literal["hate_speech", "harassment", "violence", "sexual_content", "profanity", "identity_attack"]
"""What a text can be toxic by (HoneyHive evaluation data models, ToxicityEvaluation)."""


class DimensionMetric(JudgedMetric):
    """What they have in common; they assert with a threshold alone."""

    threshold: UnitInterval | None = None
    """Lowest passing score; for toxicity, where low is good, the highest one."""
    model: LLMProvider | None = None
    """Who grades; `evaluations.model` when absent."""


class QualityMetric(DimensionMetric):
    """`type: quality`: the answer by relevance, coherence, clarity, completeness and accuracy."""

    type: Literal["quality"] = "quality"


class FactualAccuracyMetric(DimensionMetric):
    """`type: factual_accuracy`: the share of the answer's factual claims that hold."""

    type: Literal["factual_accuracy"] = "factual_accuracy"


class ToxicityMetric(DimensionMetric):
    """`type: toxicity`: how harmful the answer's words are; low is good."""

    type: Literal["toxicity"] = "toxicity"
    categories: Annotated[list[ToxicityCategory], Field(min_length=1)] | None = None
    """Which of the categories are graded; all when absent."""


class RelevanceMetric(DimensionMetric):
    """`type: relevance`: how well the answer fits the request; not Azure AI's, which is a `standard` metric."""

    type: Literal["relevance"] = "relevance"
