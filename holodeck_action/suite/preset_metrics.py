"""Preset evaluators as metric entries: named sets of metrics that are graded together (evaluators reference §8).

In `metrics` each of them may be replaced, disabled, or given its own threshold and model.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import Flag, FormatModel, Integer, NonBlank, Number, UnitInterval
from holodeck_action.suite.metric_base import EvaluationParam, JudgedMetric, ToolCallComparison
from holodeck_action.suite.providers import LLMProvider

LEVELS = 3
"""Levels of the built-in rubrics: 1, 2 and 3."""

_Weight = Annotated[Number, Field(ge=0.0)]
_Mapping = Annotated[dict[Integer, UnitInterval], Field(min_length=2)]


class PresetPart(FormatModel):
    """One metric of a preset."""

    enabled: Flag = True
    """False: the metric is left out."""
    model: LLMProvider | None = None
    """Who grades this metric, alone; the preset's `model` or `judges` when absent."""


class ScoredPart(PresetPart):
    """A metric of a preset whose score is held against a threshold."""

    threshold: UnitInterval = 0.5
    """Lowest passing score of the metric; the highest one for redundancy, where low is good."""


class CriterionPart(ScoredPart):
    """A metric of a preset that is G-Eval with criteria, steps and levels of its own; each may be replaced."""

    criteria: NonBlank | None = None
    """Criteria instead of the built-in ones, whose steps and levels then go with them."""
    evaluation_steps: Annotated[list[NonBlank], Field(min_length=1)] | None = None
    """Steps instead of the built-in ones; for criteria of one's own the judge writes them when absent."""
    evaluation_params: Annotated[list[EvaluationParam], Field(min_length=1)] | None = None
    """What the judge sees, instead of what the built-in metric shows."""
    rubric: Annotated[list[NonBlank], Field(min_length=2, max_length=10)] | None = None
    """What an answer of level 1, 2, … is like, for the lowest level first. Without one, criteria of one's own are
    graded from 0 to 10."""

    @model_validator(mode="after")
    def _answer_is_graded(self) -> CriterionPart:
        if self.evaluation_params is not None and "actual_output" not in self.evaluation_params:
            raise PydanticCustomError(
                "evaluation_params", "must contain actual_output: it is the answer that is graded"
            )
        return self

    @property
    def levels(self) -> int | None:
        """How many levels the judge chooses from; None where it grades from 0 to 10."""
        if self.rubric is not None:
            return len(self.rubric)
        return LEVELS if self.criteria is None else None


class PresetParts(FormatModel):
    """The metrics of a preset by name."""

    COUNTED: ClassVar[tuple[str, ...]] = ()
    """Those that make the score; without any of them there is nothing to grade."""

    @property
    def counted(self) -> dict[str, PresetPart]:
        """The enabled metrics that make the score, by name."""
        parts = {name: getattr(self, name) for name in self.COUNTED}
        return {name: part for name, part in parts.items() if part.enabled}


class PresetMetric(JudgedMetric):
    """What every preset has."""

    model: LLMProvider | None = None
    """Who grades; `evaluations.model` when absent."""
    threshold: UnitInterval | None = None
    """Lowest passing score of the whole, besides that all its metrics pass."""
    parallel: Flag = True
    """False: its metrics are graded one after the other."""


def _check_counted(parts: PresetParts) -> None:
    if not parts.counted:
        raise PydanticCustomError(
            "metrics", "leaves nothing to grade: enable one of {names}", {"names": ", ".join(parts.COUNTED)}
        )


class AnswerParts(PresetParts):
    """Metrics of an answer or a query that is compared with an expected one."""

    COUNTED = ("completeness", "groundedness", "redundancy")

    completeness: CriterionPart = Field(default_factory=CriterionPart)
    groundedness: CriterionPart = Field(default_factory=CriterionPart)
    redundancy: CriterionPart = Field(default_factory=CriterionPart)
    """The only one where low is good."""


class GenerationParts(AnswerParts):
    """`metrics` of `type: generation`."""

    refusal: PresetPart = Field(default_factory=PresetPart)
    """Whether the answer refuses, which is found out first. Disabled, refusals are graded like other answers."""


class GenerationMetric(PresetMetric):
    """`type: generation`: an answer by completeness, groundedness and redundancy, unless it refuses."""

    type: Literal["generation"] = "generation"
    metrics: GenerationParts = Field(default_factory=GenerationParts)

    @model_validator(mode="after")
    def _grades_something(self) -> GenerationMetric:
        _check_counted(self.metrics)
        return self


class ScoreMapping(FormatModel):
    """`score_mapping`: what each level of a metric's rubric is worth, 0..1; evenly spread when absent."""

    completeness: _Mapping | None = None
    groundedness: _Mapping | None = None
    redundancy: _Mapping | None = None


class ScoreWeights(FormatModel):
    """`score_weights`: the share of each metric in the score of the whole."""

    completeness: _Weight = 1.0
    groundedness: _Weight = 1.0
    redundancy: _Weight = 1.0


class QueryTransformationMetric(PresetMetric):
    """`type: query_transformation`: a rewritten query by completeness, groundedness and redundancy."""

    type: Literal["query_transformation"] = "query_transformation"
    metrics: AnswerParts = Field(default_factory=AnswerParts)
    score_mapping: ScoreMapping = Field(default_factory=ScoreMapping)
    score_weights: ScoreWeights = Field(default_factory=ScoreWeights)

    @model_validator(mode="after")
    def _grades_something(self) -> QueryTransformationMetric:
        _check_counted(self.metrics)
        return self

    @model_validator(mode="after")
    def _every_level_is_mapped(self) -> QueryTransformationMetric:
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
    def _something_has_weight(self) -> QueryTransformationMetric:
        if not any(getattr(self.score_weights, name) for name in self.metrics.counted):
            raise PydanticCustomError("score_weights", "gives no weight to any metric that is enabled")
        return self


class SummarizationParts(PresetParts):
    """`metrics` of `type: summarization`."""

    COUNTED = ("coherence", "consistency", "fluency", "relevance")

    coherence: CriterionPart = Field(default_factory=CriterionPart)
    consistency: CriterionPart = Field(default_factory=CriterionPart)
    fluency: CriterionPart = Field(default_factory=CriterionPart)
    relevance: CriterionPart = Field(default_factory=CriterionPart)


class SummarizationMetric(PresetMetric):
    """`type: summarization`: a summary of the input by coherence, consistency, fluency and relevance."""

    type: Literal["summarization"] = "summarization"
    metrics: SummarizationParts = Field(default_factory=SummarizationParts)

    @model_validator(mode="after")
    def _grades_something(self) -> SummarizationMetric:
        _check_counted(self.metrics)
        return self


class LmRetrievalParts(PresetParts):
    """`metrics` of `type: lm_retrieval`."""

    COUNTED = ("contextual_precision", "contextual_recall")

    contextual_precision: ScoredPart = Field(default_factory=ScoredPart)
    contextual_recall: ScoredPart = Field(default_factory=ScoredPart)


class LmRetrievalMetric(PresetMetric):
    """`type: lm_retrieval`: the retrieved texts by contextual precision and recall, and a rating."""

    type: Literal["lm_retrieval"] = "lm_retrieval"
    metrics: LmRetrievalParts = Field(default_factory=LmRetrievalParts)
    include_reason: Flag = True
    """Whether the judge explains both scores, which is a call more for each."""

    @model_validator(mode="after")
    def _grades_something(self) -> LmRetrievalMetric:
        _check_counted(self.metrics)
        return self


class ToolPart(ToolCallComparison):
    """`tool_correctness` of `type: agent`: as `type: deepeval_tool_correctness`."""

    enabled: Flag = True
    """False: tool calls are not looked at."""


class GenerationPart(FormatModel):
    """`generation` of `type: agent`: as `type: generation`."""

    enabled: Flag = True
    """False: the answer is not graded."""
    threshold: UnitInterval | None = None
    """Lowest passing score of the answer, besides that all its metrics pass."""
    metrics: GenerationParts = Field(default_factory=GenerationParts)

    @model_validator(mode="after")
    def _grades_something(self) -> GenerationPart:
        _check_counted(self.metrics)
        return self


class TrajectoryPart(PresetPart):
    """`trajectory_accuracy` of `type: agent`: shown beside the score and no part of it."""

    enabled: Flag = False
    threshold: UnitInterval = 0.5


class AgentParts(FormatModel):
    """`metrics` of `type: agent`."""

    tool_correctness: ToolPart = Field(default_factory=ToolPart)
    generation: GenerationPart = Field(default_factory=GenerationPart)
    trajectory_accuracy: TrajectoryPart = Field(default_factory=TrajectoryPart)


class AgentMetric(PresetMetric):
    """`type: agent`: tool calls and answer together."""

    type: Literal["agent"] = "agent"
    metrics: AgentParts = Field(default_factory=AgentParts)

    @model_validator(mode="after")
    def _grades_something(self) -> AgentMetric:
        if not self.metrics.tool_correctness.enabled and not self.metrics.generation.enabled:
            raise PydanticCustomError("metrics", "leaves nothing to grade: enable one of tool_correctness, generation")
        return self


class RefusalMetric(JudgedMetric):
    """`type: refusal`: whether the answer refuses exactly if it should."""

    type: Literal["refusal"] = "refusal"
    expect: Literal["answer", "refusal", "as_expected_output"] = "answer"
    """`as_expected_output`: the answer should refuse exactly if the expected output does."""
    model: LLMProvider | None = None


class TrajectoryAccuracyMetric(JudgedMetric):
    """`type: trajectory_accuracy`: a judge looks at the way to the answer; it asserts with a threshold alone."""

    type: Literal["trajectory_accuracy"] = "trajectory_accuracy"
    threshold: UnitInterval | None = None
    model: LLMProvider | None = None


class GradedPart(JudgedMetric):
    """A metric of a preset as a judge's work of its own; no entry is written like this."""

    type: Literal["part"] = "part"
    model: LLMProvider | None = None
    scored: Flag = True
    """Whether DeepEval asks; refusals and trajectories are questions of our own."""
