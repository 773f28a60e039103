"""From the entry of a preset, or of one of its kin, to its evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holodeck_action.llm.judge import JudgeModel
from holodeck_action.metrics.base import BaseEvaluator, DeterministicEvaluator, RetryConfig
from holodeck_action.metrics.deepeval.geval import GEvalEvaluator
from holodeck_action.metrics.deepeval.rag import ContextualPrecisionEvaluator, ContextualRecallEvaluator
from holodeck_action.metrics.deepeval.rubric import rubric_of
from holodeck_action.metrics.deepeval.tool_correctness import DeepEvalToolCorrectnessEvaluator
from holodeck_action.metrics.presets import criteria
from holodeck_action.metrics.presets.composite import CompositeEvaluator, PathEvaluator
from holodeck_action.metrics.presets.criteria import Criterion
from holodeck_action.metrics.presets.dimensions import (
    DimensionEvaluator,
    FactualAccuracyEvaluator,
    QualityEvaluator,
    RelevanceEvaluator,
    ToxicityEvaluator,
)
from holodeck_action.metrics.presets.generation import GenerationEvaluator, TextEvaluator
from holodeck_action.metrics.presets.preset import EitherEvaluator, Member, PresetEvaluator
from holodeck_action.metrics.presets.refusal import RefusalEvaluator
from holodeck_action.metrics.presets.retrieval import PRECISION, RECALL, LMBasedRetrievalEvaluator
from holodeck_action.metrics.presets.trajectory_accuracy import TrajectoryAccuracyEvaluator
from holodeck_action.suite.applicability import asserts
from holodeck_action.suite.dimension_metrics import (
    DimensionMetric,
    FactualAccuracyMetric,
    QualityMetric,
    RelevanceMetric,
    ToxicityMetric,
)
from holodeck_action.suite.metric_base import JudgedMetric
from holodeck_action.suite.metrics import (
    CompositeMetric,
    DeepEvalToolCorrectnessMetric,
    SingleMetric,
    StandardMetric,
    ToolCorrectnessMetric,
    TrajectoryMetric,
)
from holodeck_action.suite.preset_metrics import (
    AgentMetric,
    CriterionPart,
    GenerationMetric,
    GenerationParts,
    LmRetrievalMetric,
    PresetMetric,
    PresetPart,
    QueryTransformationMetric,
    RefusalMetric,
    ScoredPart,
    SummarizationMetric,
    TrajectoryAccuracyMetric,
)
from holodeck_action.suite.presets import graded_part, members_of

OfJudge = Callable[[JudgeModel | None, dict[str, Any]], BaseEvaluator]
"""Makes the evaluator that asks one judge; the second argument holds its timeout and retries, and without a judge the
configuration of its model."""
Grade = Callable[[JudgedMetric, OfJudge], BaseEvaluator]
"""Finds who grades a metric, one model or a panel, and makes its evaluator."""
Create = Callable[[SingleMetric, int | None], BaseEvaluator]
"""Makes the evaluator of a metric; the number is its cut-off rank."""

TOOLS, TRAJECTORY = "deepeval_tool_correctness", "langchain_agent_trajectory_accuracy"
"""Keys of the agent preset's results, as its documents have them."""

_TOOL_METRICS = (
    ToolCorrectnessMetric,
    DeepEvalToolCorrectnessMetric,
    TrajectoryMetric,
    TrajectoryAccuracyMetric,
    AgentMetric,
)
_DIMENSIONS: dict[type[DimensionMetric], type[DimensionEvaluator]] = {
    QualityMetric: QualityEvaluator,
    FactualAccuracyMetric: FactualAccuracyEvaluator,
    ToxicityMetric: ToxicityEvaluator,
    RelevanceMetric: RelevanceEvaluator,
}
PresetConfig = (
    GenerationMetric
    | QueryTransformationMetric
    | SummarizationMetric
    | LmRetrievalMetric
    | AgentMetric
    | RefusalMetric
    | TrajectoryAccuracyMetric
    | DimensionMetric
    | CompositeMetric
)


def build_preset(
    config: PresetConfig,
    *,
    grade: Grade,
    create: Create,
    timeout: float | None,
    retry_config: RetryConfig | None = None,
) -> BaseEvaluator:
    """Build the evaluator of a preset, a composite or one of the metrics with a question of our own.

    Args:
        config: the entry.
        grade: see `Grade`.
        create: makes the evaluators of a composite's metrics.
        timeout: seconds one evaluation may take.
        retry_config: retries of transient failures, for evaluators that are not asked through `grade`.
    """
    if isinstance(config, RefusalMetric):
        expect = config.expect
        return grade(config, lambda judge, shared: RefusalEvaluator(expect, judge=judge, **shared))
    if isinstance(config, TrajectoryAccuracyMetric):
        threshold = config.threshold
        return grade(config, lambda judge, shared: TrajectoryAccuracyEvaluator(threshold, judge=judge, **shared))
    if isinstance(config, DimensionMetric):
        options: dict[str, Any] = {"threshold": config.threshold}
        if isinstance(config, ToxicityMetric):
            options["categories"] = config.categories
        return grade(config, _asking(_DIMENSIONS[type(config)], options))
    common: dict[str, Any] = {"parallel": config.parallel, "threshold": config.threshold, "timeout": timeout}
    name = config.name or config.type
    if isinstance(config, CompositeMetric):
        return CompositeEvaluator(name, _members(config, create), **common)
    if isinstance(config, GenerationMetric):
        return _generation(name, config, config.metrics, grade, common)
    if isinstance(config, QueryTransformationMetric):
        return TextEvaluator(name, _query_members(config, grade), **common)
    if isinstance(config, SummarizationMetric):
        return TextEvaluator(name, _criteria_members(config, config.metrics.counted, _SUMMARIZATION, grade), **common)
    if isinstance(config, LmRetrievalMetric):
        return LMBasedRetrievalEvaluator(name, _retrieval_members(config, grade), **common)
    return PresetEvaluator(name, _agent_members(config, grade, common, retry_config), **common)


def _members(config: CompositeMetric, create: Create) -> list[Member]:
    members = []
    for member in members_of(config):
        found = member.config
        if found.retry_on_failure is None:
            found = found.model_copy(update={"retry_on_failure": config.retry_on_failure})
        evaluator = create(found, member.k)
        path = member.config.response_path if isinstance(member.config, StandardMetric) else None
        if path is not None and isinstance(evaluator, DeterministicEvaluator):
            evaluator = PathEvaluator(evaluator, path)
        members.append(
            Member(
                member.name,
                evaluator,
                asserts=asserts(member.config),
                of_conversation=isinstance(member.config, _TOOL_METRICS),
            )
        )
    return members


def _generation(
    name: str, config: PresetMetric, parts: GenerationParts, grade: Grade, common: Mapping[str, Any]
) -> PresetEvaluator:
    refusal = None
    if parts.refusal.enabled:
        found = graded_part(config, parts.refusal)
        refusal = grade(found, lambda judge, shared: RefusalEvaluator(judge=judge, **shared))
    members = _criteria_members(config, parts.counted, _GENERATION, grade)
    return GenerationEvaluator(name, members, refusal=refusal, **common)


_GENERATION = {criterion.name: criterion for criterion in criteria.GENERATION}
_QUERY_TRANSFORMATION = {criterion.name: criterion for criterion in criteria.QUERY_TRANSFORMATION}
_SUMMARIZATION = {criterion.name: criterion for criterion in criteria.SUMMARIZATION}


def _criteria_members(
    config: PresetMetric, parts: Mapping[str, PresetPart], texts: Mapping[str, Criterion], grade: Grade
) -> list[Member]:
    return [
        Member(name, _by_criteria(config, part, texts[name], grade))
        for name, part in parts.items()
        if isinstance(part, CriterionPart)
    ]


def _query_members(config: QueryTransformationMetric, grade: Grade) -> list[Member]:
    members = []
    for name, part in config.metrics.counted.items():
        assert isinstance(part, CriterionPart)
        scores: Mapping[int, float] | None = getattr(config.score_mapping, name)
        evaluator = _by_criteria(config, part, _QUERY_TRANSFORMATION[name], grade, scores)
        members.append(Member(name, evaluator, weight=getattr(config.score_weights, name)))
    return members


def _by_criteria(
    config: PresetMetric,
    part: CriterionPart,
    built_in: Criterion,
    grade: Grade,
    scores: Mapping[int, float] | None = None,
) -> BaseEvaluator:
    """Build the G-Eval of one metric; groundedness looks at retrieved texts where there are any."""
    if part.evaluation_params is not None or built_in is not criteria.GROUNDEDNESS:
        return _geval(config, part, built_in, grade, scores)
    without = _geval(config, part, criteria.GROUNDEDNESS_WITHOUT_CONTEXT, grade, scores)
    return EitherEvaluator(_geval(config, part, built_in, grade, scores), without)


def _geval(
    config: PresetMetric, part: CriterionPart, built_in: Criterion, grade: Grade, scores: Mapping[int, float] | None
) -> BaseEvaluator:
    own = part.criteria is not None
    outcomes = part.rubric or (None if own else list(built_in.levels))
    options: dict[str, Any] = {
        "name": built_in.name,
        "criteria": part.criteria or built_in.criteria,
        "evaluation_params": part.evaluation_params or built_in.params,
        "evaluation_steps": part.evaluation_steps or (None if own else built_in.steps),
        "rubric": None if outcomes is None else rubric_of(outcomes, scores),
        "polarity": built_in.polarity,
        "threshold": part.threshold,
    }
    return grade(graded_part(config, part), lambda judge, shared: GEvalEvaluator(judge=judge, **options, **shared))


def _retrieval_members(config: LmRetrievalMetric, grade: Grade) -> list[Member]:
    evaluators = {PRECISION: ContextualPrecisionEvaluator, RECALL: ContextualRecallEvaluator}
    members = []
    for name, part in config.metrics.counted.items():
        assert isinstance(part, ScoredPart)
        options: dict[str, Any] = {"threshold": part.threshold, "include_reason": config.include_reason}
        members.append(Member(name, grade(graded_part(config, part), _asking(evaluators[name], options))))
    return members


def _asking(evaluator: Callable[..., BaseEvaluator], options: Mapping[str, Any]) -> OfJudge:
    return lambda judge, shared: evaluator(judge=judge, **options, **shared)


def _agent_members(
    config: AgentMetric, grade: Grade, common: Mapping[str, Any], retry_config: RetryConfig | None
) -> list[Member]:
    parts = config.metrics
    members = []
    if parts.tool_correctness.enabled:
        tools = parts.tool_correctness
        evaluator = DeepEvalToolCorrectnessEvaluator(
            **tools.model_dump(exclude={"enabled"}), timeout=common["timeout"], retry_config=retry_config
        )
        members.append(Member(TOOLS, evaluator))
    if parts.generation.enabled:
        answer = parts.generation
        inner = {**common, "threshold": answer.threshold}
        members.append(Member("generation", _generation("generation", config, answer.metrics, grade, inner)))
    if parts.trajectory_accuracy.enabled:
        options: dict[str, Any] = {"threshold": parts.trajectory_accuracy.threshold}
        found = graded_part(config, parts.trajectory_accuracy)
        members.append(Member(TRAJECTORY, grade(found, _asking(TrajectoryAccuracyEvaluator, options)), neutral=True))
    return members
