"""Metric configurations: the four kinds of the format and the model-free kinds that are ours.

Sources: HoloDeck format reference §1.7 and its decision table; evaluators reference §6, §7 and §11.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.suite.base import Flag, FormatModel, Integer, NonBlank, Number, UnitInterval
from holodeck_action.suite.dimension_metrics import (
    FactualAccuracyMetric,
    QualityMetric,
    RelevanceMetric,
    ToxicityMetric,
)
from holodeck_action.suite.metric_base import ArgumentMatching as ArgumentMatching
from holodeck_action.suite.metric_base import EvaluationParam as EvaluationParam
from holodeck_action.suite.metric_base import JudgedMetric as JudgedMetric
from holodeck_action.suite.metric_base import MetricModel as MetricModel
from holodeck_action.suite.metric_base import ToolCallComparison
from holodeck_action.suite.preset_metrics import (
    AgentMetric,
    GenerationMetric,
    LmRetrievalMetric,
    QueryTransformationMetric,
    RefusalMetric,
    SummarizationMetric,
    TrajectoryAccuracyMetric,
)
from holodeck_action.suite.providers import LLMProvider

DETERMINISTIC_METRICS = ("equality", "numeric", "f1_score", "bleu", "rouge", "meteor")
AZURE_METRICS = ("groundedness", "relevance", "coherence", "fluency", "similarity")

_SEGMENT = r"[A-Za-z_][\w-]*(?:\[[0-9]{1,9}\])*"
RESPONSE_PATH = rf"^{_SEGMENT}(?:\.{_SEGMENT})*$"
"""Grammar of `response_path` (format reference §2.2)."""

StandardName = Literal[
    "groundedness",
    "relevance",
    "coherence",
    "fluency",
    "similarity",
    "bleu",
    "rouge",
    "meteor",
    "f1_score",
    "equality",
    "numeric",
]
RagName = Literal[
    "faithfulness", "contextual_relevancy", "contextual_precision", "contextual_recall", "answer_relevancy"
]
RetrievalName = Literal["precision_at_k", "recall_at_k", "hit_rate_at_k", "mrr_at_k", "map_at_k", "ndcg_at_k"]
Rank = Annotated[Integer, Field(ge=1)]


class StandardMetric(JudgedMetric):
    """`type: standard`: text comparison without a model, or a legacy Azure AI metric."""

    type: Literal["standard"] = "standard"
    metric: StandardName
    threshold: Annotated[Number, Field(ge=0.0)] | None = None
    """Lowest passing score, 0..1, or 0..scale when `scale` is given."""
    scale: Annotated[Integer, Field(gt=0)] | None = None
    """Upper end of the scale on which `threshold` is written; the score itself stays 0..1."""
    custom_prompt: NonBlank | None = None
    model: LLMProvider | None = None
    case_insensitive: Flag = False
    strip_whitespace: Flag = False
    strip_punctuation: Flag = False
    absolute_tolerance: Annotated[Number, Field(ge=0.0)] = 1e-6
    relative_tolerance: Annotated[Number, Field(ge=0.0)] = 0.0
    accept_percent: Flag = False
    accept_thousands_separators: Flag = False
    response_path: Annotated[str, Field(pattern=RESPONSE_PATH)] | None = None
    """The part of a JSON answer that is compared: keys joined by dots, list positions in brackets."""
    variant: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    """Which ROUGE F-measure is the score; all three are recorded."""
    use_stemmer: Flag = False
    """Porter stemmer for ROUGE."""

    @model_validator(mode="after")
    def _threshold_within_scale(self) -> StandardMetric:
        top = self.scale or 1
        if self.threshold is not None and self.threshold > top:
            raise PydanticCustomError(
                "threshold", "can never be reached: scores end at {top} (allowed: 0 to {top})", {"top": top}
            )
        return self

    @model_validator(mode="after")
    def _panels_are_of_models(self) -> StandardMetric:
        if self.judges is not None and self.metric not in AZURE_METRICS:
            raise PydanticCustomError(
                "judges", "grade nothing here: no model is asked for {metric}", {"metric": self.metric}
            )
        return self


class GEvalMetric(JudgedMetric):
    """`type: geval`: custom criteria graded by a judge model."""

    type: Literal["geval"] = "geval"
    name: NonBlank
    criteria: NonBlank
    evaluation_steps: list[NonBlank] | None = None
    evaluation_params: list[EvaluationParam] = Field(default=["actual_output"], min_length=1)
    strict_mode: Flag = False
    threshold: UnitInterval | None = None
    model: LLMProvider | None = None

    @model_validator(mode="after")
    def _answer_is_graded(self) -> GEvalMetric:
        if "actual_output" not in self.evaluation_params:
            raise PydanticCustomError(
                "evaluation_params", "must contain actual_output: it is the answer that is graded"
            )
        return self


class RagMetric(JudgedMetric):
    """`type: rag`: a retrieval-augmented-generation metric graded by a judge model."""

    type: Literal["rag"] = "rag"
    metric_type: RagName
    threshold: UnitInterval = 0.5
    include_reason: Flag = True
    model: LLMProvider | None = None


class Scale(FormatModel):
    """The range of a score that is not 0..1."""

    min: Number
    max: Number

    @model_validator(mode="after")
    def _ordered(self) -> Scale:
        if not self.min < self.max:
            raise PydanticCustomError("max", "must be above min")
        return self


class CodeMetric(MetricModel):
    """`type: code`: a Python callable of the repository."""

    type: Literal["code"] = "code"
    grader: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")]
    """`module.path:callable`, importable from the suite's folder."""
    threshold: Number | None = None
    scale: Scale | None = None
    """Range of the grader's score when it is not 0..1; the score is normalised, the raw one kept."""
    pass_values: Annotated[list[NonBlank], Field(min_length=1)] | None = None
    """The passing categories, when the grader's score is a category."""

    @model_validator(mode="after")
    def _threshold_within_scale(self) -> CodeMetric:
        low, high = (self.scale.min, self.scale.max) if self.scale else (0.0, 1.0)
        if self.threshold is not None and not low <= self.threshold <= high:
            raise PydanticCustomError(
                "threshold",
                "threshold {threshold} is outside the grader's scores, so it would decide nothing (allowed: {low} to "
                "{high}; give `scale` when the grader scores on another range)",
                {"threshold": f"{self.threshold:g}", "low": f"{low:g}", "high": f"{high:g}"},
            )
        return self


class ToolCorrectnessMetric(MetricModel):
    """`type: tool_correctness`: expected against actual tool calls by optimal assignment (evaluators §6)."""

    type: Literal["tool_correctness"] = "tool_correctness"
    threshold: UnitInterval | None = None
    args: ArgumentMatching = "subset"
    score: Literal["f1", "precision", "recall"] = "f1"


class DeepEvalToolCorrectnessMetric(ToolCallComparison, MetricModel):
    """`type: deepeval_tool_correctness`: the same by DeepEval's own class, which asks no model (evaluators §6)."""

    type: Literal["deepeval_tool_correctness"] = "deepeval_tool_correctness"


class TrajectoryMetric(MetricModel):
    """`type: trajectory`: the order of tool calls (evaluators §6)."""

    type: Literal["trajectory"] = "trajectory"
    threshold: UnitInterval | None = None
    mode: Literal["strict", "unordered", "subset", "superset", "lcs_f1"] = "strict"
    args: ArgumentMatching = "subset"


class RetrievalMetric(MetricModel):
    """`type: retrieval`: ranking of retrieved chunks against `ground_truth_chunk_ids` (evaluators §7)."""

    type: Literal["retrieval"] = "retrieval"
    metric: RetrievalName
    k: Annotated[
        Annotated[Rank, Tag("number")] | Annotated[list[Rank], Field(min_length=1), Tag("list")],
        Discriminator(lambda value: "list" if isinstance(value, list) else "number"),
    ] = 20
    """Cut-off rank; a list gives one evaluation per rank."""
    threshold: UnitInterval | None = None


class LengthMetric(MetricModel):
    """`type: length`: characters, words and sentences of the answer against a range (evaluators §11)."""

    type: Literal["length"] = "length"
    threshold: UnitInterval | None = None
    min_words: Annotated[Integer, Field(ge=0)] | None = None
    max_words: Annotated[Integer, Field(ge=1)] | None = None
    min_characters: Annotated[Integer, Field(ge=0)] | None = None
    max_characters: Annotated[Integer, Field(ge=1)] | None = None
    min_sentences: Annotated[Integer, Field(ge=0)] | None = None
    max_sentences: Annotated[Integer, Field(ge=1)] | None = None
    optimal_words: Annotated[Integer, Field(ge=1)] | None = None
    """The best number of words: others inside the bounds score the ratio to it, and pass all the same."""

    @model_validator(mode="after")
    def _has_a_range(self) -> LengthMetric:
        units = ("words", "characters", "sentences")
        bounds = [(getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}"), unit) for unit in units]
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


def _type_of(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


TOLD_BY = {"criteria": "geval", "metric_type": "rag", "grader": "code"}
"""Required keys that say of an entry without `type` which one it is."""


def _type_or_told(value: Any) -> str | None:
    if isinstance(value, dict) and "type" not in value:
        told = (kind for key, kind in TOLD_BY.items() if key in value and "metric" not in value)
        return next(told, "standard")
    return _type_of(value)


SingleMetric = (
    Annotated[StandardMetric, Tag("standard")]
    | Annotated[GEvalMetric, Tag("geval")]
    | Annotated[RagMetric, Tag("rag")]
    | Annotated[CodeMetric, Tag("code")]
    | Annotated[ToolCorrectnessMetric, Tag("tool_correctness")]
    | Annotated[DeepEvalToolCorrectnessMetric, Tag("deepeval_tool_correctness")]
    | Annotated[TrajectoryMetric, Tag("trajectory")]
    | Annotated[RetrievalMetric, Tag("retrieval")]
    | Annotated[LengthMetric, Tag("length")]
    | Annotated[GenerationMetric, Tag("generation")]
    | Annotated[QueryTransformationMetric, Tag("query_transformation")]
    | Annotated[SummarizationMetric, Tag("summarization")]
    | Annotated[LmRetrievalMetric, Tag("lm_retrieval")]
    | Annotated[AgentMetric, Tag("agent")]
    | Annotated[RefusalMetric, Tag("refusal")]
    | Annotated[TrajectoryAccuracyMetric, Tag("trajectory_accuracy")]
    | Annotated[QualityMetric, Tag("quality")]
    | Annotated[FactualAccuracyMetric, Tag("factual_accuracy")]
    | Annotated[ToxicityMetric, Tag("toxicity")]
    | Annotated[RelevanceMetric, Tag("relevance")]
)


class CompositeMetric(MetricModel):
    """`type: composite`: several metrics as one (evaluators §8)."""

    type: Literal["composite"] = "composite"
    metrics: Annotated[
        list[Annotated[SingleMetric, Discriminator(_type_of), Field(json_schema_extra={"required": ["type"]})]],
        Field(min_length=1),
    ]
    """The metrics; a composite is none of them. Each keeps its own threshold, model, timeout and retries."""
    parallel: Flag = True
    """False: they are evaluated one after the other."""
    threshold: UnitInterval | None = None
    """Lowest passing score of the whole, besides that all metrics with a verdict pass."""

    @model_validator(mode="after")
    def _members_fit(self) -> CompositeMetric:
        if not any(metric.enabled for metric in self.metrics):
            raise PydanticCustomError("metrics", "leaves nothing to grade: enable one of its metrics")
        if any(metric.fail_on_error for metric in self.metrics):
            raise PydanticCustomError(
                "metrics", "must not hold fail_on_error: give it to the composite, which fails with any of its metrics"
            )
        return self


METRIC_TYPES: dict[str, type[MetricModel]] = {
    "standard": StandardMetric,
    "geval": GEvalMetric,
    "rag": RagMetric,
    "code": CodeMetric,
    "tool_correctness": ToolCorrectnessMetric,
    "deepeval_tool_correctness": DeepEvalToolCorrectnessMetric,
    "trajectory": TrajectoryMetric,
    "retrieval": RetrievalMetric,
    "length": LengthMetric,
    "generation": GenerationMetric,
    "query_transformation": QueryTransformationMetric,
    "summarization": SummarizationMetric,
    "lm_retrieval": LmRetrievalMetric,
    "agent": AgentMetric,
    "refusal": RefusalMetric,
    "trajectory_accuracy": TrajectoryAccuracyMetric,
    "quality": QualityMetric,
    "factual_accuracy": FactualAccuracyMetric,
    "toxicity": ToxicityMetric,
    "relevance": RelevanceMetric,
    "composite": CompositeMetric,
}

AnyMetric = SingleMetric | Annotated[CompositeMetric, Tag("composite")]
SuiteMetric = Annotated[AnyMetric, Discriminator(_type_of), Field(json_schema_extra={"required": ["type"]})]
"""An entry of `evaluations.metrics`: `type` is required."""
CaseMetric = Annotated[AnyMetric, Discriminator(_type_or_told)]
"""An entry of a case's or turn's `evaluations`: `type` may be left out for HoloDeck's four."""
