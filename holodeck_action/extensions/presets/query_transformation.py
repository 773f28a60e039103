"""The metric `type: query_transformation`: completeness, groundedness and redundancy of a rewritten query."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.presets.parts import (
    PARAMS_WITH_EXPECTED,
    AnswerParts,
    Criterion,
    CriterionPart,
    PresetMetric,
)
from holodeck_action.metrics.base import BuildContext
from holodeck_action.metrics.judging.probe_texts import OFF_TOPIC, question_exam
from holodeck_action.metrics.metric_sets import TextEvaluator
from holodeck_action.suite.model.base import FormatModel, Integer, Number, UnitInterval
from holodeck_action.suite.model.metric_base import Role
from holodeck_action.suite.model.probing import Exam

_Weight = Annotated[Number, Field(ge=0.0)]
_Mapping = Annotated[dict[Integer, UnitInterval], Field(min_length=2)]

CRITERIA = (
    Criterion(
        "completeness",
        PARAMS_WITH_EXPECTED,
        "Does the transformed query (actual output) ask for everything that the expected query asks for?",
        (
            "List what the expected output asks for: subjects, conditions, names, numbers, places and times.",
            "For each of them look whether the actual output asks for it, in whatever words; several queries count "
            "together.",
            "Choose the level by what is missing or changed.",
        ),
        (
            "The subject, or a condition that changes what is found, is missing or changed.",
            "The subject is there, but a lesser detail is missing or changed.",
            "All of it is asked for.",
        ),
    ),
    Criterion(
        "groundedness",
        PARAMS_WITH_EXPECTED,
        "Does the transformed query (actual output) ask only for what the input, or the expected query, asks for?",
        (
            "List the subjects and conditions that the actual output asks for.",
            "For each of them look whether the input or the expected output names or implies it; synonyms and names "
            "written out are implied.",
            "Choose the level by what has been added or assumed, and whether it would change what is found.",
        ),
        (
            "Something is added or assumed that changes what is found.",
            "Something is added that hardly changes what is found.",
            "Nothing is added or assumed.",
        ),
    ),
    Criterion(
        "redundancy",
        PARAMS_WITH_EXPECTED,
        "How much does the transformed query (actual output) repeat, or carry without need?",
        (
            "Find words and queries of the actual output that ask for the same thing again.",
            "Find what no search needs: politeness, filler, remarks about the query itself.",
            "Synonyms that help a search, and those in the expected output, are not counted.",
            "Choose the level by how much could be left out: a high level is bad.",
        ),
        (
            "Nothing, or next to nothing, could be left out.",
            "Some words could be left out.",
            "Much of it repeats itself or is of no use to a search.",
        ),
        "minimize",
    ),
)


class ScoreMapping(FormatModel):
    """`score_mapping` of `query_transformation`: the score for each level of a metric."""

    completeness: _Mapping | None = None
    """Value by level; evenly spread when absent. Example: `{1: 0, 2: 0.2, 3: 1}`."""
    groundedness: _Mapping | None = None
    """Value by level; evenly spread when absent. Example: `{1: 0, 2: 0.5, 3: 1}`."""
    redundancy: _Mapping | None = None
    """Value by level; evenly spread when absent. Example: `{1: 0, 2: 0.5, 3: 1}`."""


class ScoreWeights(FormatModel):
    """`score_weights` of `query_transformation`: the weight of each metric in the score."""

    completeness: _Weight = 1.0
    """The weight of completeness. Example: `2`."""
    groundedness: _Weight = 1.0
    """The weight of groundedness. Example: `2`."""
    redundancy: _Weight = 1.0
    """The weight of redundancy. Example: `0.5`."""


class QueryTransformationMetric(PresetMetric):
    """`type: query_transformation`: completeness, groundedness and redundancy of a rewritten query."""

    PLACE = 11
    ONLY_A_TURN = "it grades the query that one question was turned into; omit scope, or use geval"

    type: Annotated[Literal["query_transformation"], Role.KIND] = "query_transformation"
    metrics: AnswerParts = Field(default_factory=AnswerParts)
    """Settings of its metrics, by name. Example: `{redundancy: {enabled: false}}`."""
    score_mapping: ScoreMapping = Field(default_factory=ScoreMapping)
    """The score of each level of a metric."""
    score_weights: ScoreWeights = Field(default_factory=ScoreWeights)
    """The weight of each metric in the score."""

    @model_validator(mode="after")
    def _check_score_mapping(self) -> QueryTransformationMetric:
        for name in self.metrics.COUNTED:
            mapping: dict[int, float] | None = getattr(self.score_mapping, name)
            part: CriterionPart = getattr(self.metrics, name)
            if mapping is None:
                continue
            if part.levels is None:
                raise PydanticCustomError(
                    "score_mapping", "maps levels of {name}, which has none: give it a rubric", {"name": name}
                )
            if sorted(mapping) != list(range(1, part.levels + 1)):
                raise PydanticCustomError(
                    "score_mapping",
                    "must give {name} a score for each of the levels 1 to {levels}, and for no other",
                    {"name": name, "levels": part.levels},
                )
        return self

    @model_validator(mode="after")
    def _check_score_weights(self) -> QueryTransformationMetric:
        if not any(getattr(self.score_weights, name) for name in self.metrics.counted_parts):
            raise PydanticCustomError("score_weights", "gives no weight to any metric that is enabled")
        return self

    def _built_in_exam(self) -> Exam:
        expected = "opening hours of the shop"
        return question_exam(f"banana {OFF_TOPIC} banana", {"ground_truth": expected}, right=expected)

    def evaluator(self, building: BuildContext) -> TextEvaluator:
        """Return an evaluator with the enabled metrics."""
        members = self.criteria_members(self.metrics, CRITERIA, building, self.score_mapping, self.score_weights)
        return TextEvaluator(self.name or self.type, members, **self.options(building))
