"""The documents of HoneyHive's evaluation data models, as `export` writes them.

Names and structure are HoneyHive's (evaluation data models: Evaluation and its kinds, MultiEvaluationResult,
EvaluationBatch, evaluation metrics, common evaluation patterns). The record's `Evaluation` already has them. Other
fields are our additions, which HoneyHive's models allow; docs/results.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.record.evaluation import Evaluation, Polarity
from holodeck_action.record.record import SuiteIdentity, ToolAssertion

EXPORT_VERSION: Literal[1] = 1


class QualityEvaluation(Evaluation, frozen=True, kw_only=True):
    """Overall quality; `dimensions` are scores 0..1."""

    dimensions: Mapping[str, float]


class FactualAccuracyEvaluation(Evaluation, frozen=True, kw_only=True):
    """Factual correctness; `citation_accuracy` is 0..1, or None if there are no citations."""

    factual_claims: tuple[Mapping[str, Any], ...]
    citation_accuracy: float | None
    hallucination_detected: bool


class ToxicityEvaluation(Evaluation, frozen=True, kw_only=True):
    """Toxicity in total and by category, 0..1; low is good."""

    toxicity_categories: Mapping[str, float]
    overall_toxicity: float
    content_warnings: tuple[str, ...]


class RelevanceEvaluation(Evaluation, frozen=True, kw_only=True):
    """Relevance to the input; each score is 0..1."""

    query_intent_match: float
    topic_alignment: float
    information_completeness: float


class LengthEvaluation(Evaluation, frozen=True, kw_only=True):
    """The length of an answer, and the expected range."""

    character_count: int
    word_count: int
    sentence_count: int
    expected_length_range: Mapping[str, int]
    length_appropriateness: Literal["too_short", "appropriate", "too_long"]


KINDS: Mapping[str, type[Evaluation]] = {
    "quality": QualityEvaluation,
    "factual_accuracy": FactualAccuracyEvaluation,
    "toxicity": ToxicityEvaluation,
    "relevance": RelevanceEvaluation,
    "length": LengthEvaluation,
}
"""HoneyHive's kind of evaluation by the metric's type in a suite."""


class EvaluatedAnswer(Struct, frozen=True):
    """Identifies an evaluated answer by the id and name of its case, its trial and its turn, both counted from 0."""

    case_id: str
    case_name: str | None
    trial: int
    turn: int


class MultiEvaluationResult(Struct, frozen=True):
    """All evaluations of one answer.

    Attributes:
        target_event_id: event id of the answer.
        evaluations: evaluations in the order of the suite.
        summary_score: score of the answer over its metrics, 0..1, high is good; None if `gates.summary` is not set, or
            if a score that it needs is missing.
        summary_method: method of `gates.summary`; None if the setting is missing, or if it is a callable, which
            summarises whole runs.
        weights: weights by metric, for the method `weighted_average`.
        target: case, trial and turn that identify the answer.
        tool_assertions: results of the expected tool calls, which are not a metric.
    """

    target_event_id: str
    evaluations: tuple[Evaluation, ...]
    summary_score: float | None
    summary_method: Literal["weighted_average", "simple_average", "minimum"] | None
    weights: Mapping[str, float] | None
    target: EvaluatedAnswer
    tool_assertions: tuple[ToolAssertion, ...]


class BatchMetadata(Struct, frozen=True):
    """Metadata of the run.

    Attributes:
        batch_size: number of evaluations.
        created_at: when the run started, ISO 8601 in UTC.
        evaluator_versions: versions by metric; metrics that have no version are omitted.
        processing_time_ms: duration of the run in milliseconds.
        suite: name, file and digest of the suite.
        target: the evaluated target.
        commit: the commit that was checked out; None if unknown.
        record_digest: SHA-256 of the canonical record.
        verdict: outcome of the run's verdict.
        reason: reason of the verdict.
        tool_version: version of holodeck-action that evaluated the run.
    """

    batch_size: int
    created_at: str
    evaluator_versions: Mapping[str, str]
    processing_time_ms: float
    suite: SuiteIdentity
    target: str
    commit: str | None
    record_digest: str
    verdict: str
    reason: str
    tool_version: str


class EvaluationBatch(Struct, frozen=True):
    """All evaluations of a run; the status is `failed` if the run stopped early."""

    batch_id: str
    evaluations: tuple[Evaluation, ...]
    batch_metadata: BatchMetadata
    status: Literal["pending", "processing", "completed", "failed"]


class EvaluationPerformance(Struct, frozen=True):
    """Counts, durations in milliseconds and cost of the evaluations that were not skipped; unknown values are None."""

    total_evaluations: int
    successful_evaluations: int
    failed_evaluations: int
    success_rate: float | None
    average_duration_ms: float | None
    p95_duration_ms: float | None
    total_cost_usd: float | None


class ConfidenceShares(Struct, frozen=True):
    """Proportions, 0..1, of evaluations with high, medium and low confidence; None if no confidence is known."""

    high_confidence: float | None
    medium_confidence: float | None
    low_confidence: float | None


class EvaluationQuality(Struct, frozen=True):
    """Agreement of the metrics with each other; keys of `inter_evaluator_correlation` are names such as `A_vs_B`."""

    evaluator_agreement: float | None
    inter_evaluator_correlation: Mapping[str, float | None]
    confidence_distribution: ConfidenceShares


class PatternEvaluation(Struct, frozen=True, kw_only=True):
    """Common fields of all comparisons; `metric` is `pass_rate` if the compared number is the pass rate of cases.

    The status is `failed` if one of the compared numbers is missing.
    """

    evaluation_id: str
    target_event_id: str
    evaluator_name: str
    metric: str
    score: float | None
    explanation: str
    timestamp: str
    status: Literal["completed", "failed"] = "completed"


class ComparisonData(Struct, frozen=True):
    """Comparison of two variants: A is this run, B is the base.

    Attributes:
        variant_a_event_id: SHA-256 of the canonical record of A.
        variant_b_event_id: SHA-256 of the canonical record of B.
        preference_score: ½ + difference/2, so 0.5 if neither is better. For the pass rate, this is the proportion of
            cases in which A is better, where a tie counts as half a case.
        confidence_interval: 95 % interval of the preference score; None if there are fewer than 10 pairs.
        sample_size: number of pairs; a pair is a case that both runs have.
        statistical_significance: whether the difference is significant after correction for multiple comparisons.
        difference: difference of the means over the pairs; above 0 if A is better, for metrics of either polarity.
        mean_a: mean score of A over the pairs.
        mean_b: mean score of B over the pairs.
        state: `regressed`, `non_inferior` or `inconclusive`.
    """

    variant_a_event_id: str
    variant_b_event_id: str
    preference_score: float
    confidence_interval: tuple[float, float] | None
    sample_size: int
    statistical_significance: bool
    difference: float
    mean_a: float
    mean_b: float
    state: str


class ABTestEvaluation(PatternEvaluation, frozen=True, kw_only=True):
    """Comparison of this run with the base on one metric; the score is the preference for this run."""

    evaluator_name: Literal["ab_test_comparison"] = "ab_test_comparison"
    comparison_data: ComparisonData


class HumanEvaluation(Struct, frozen=True):
    """A human evaluation; `score` is 0..1."""

    annotator_id: str
    score: float | None
    explanation: str | None


class AIEvaluation(Struct, frozen=True):
    """A judge's evaluation; `model` lists all models of the judge, or is None if they are unknown."""

    model: str | None
    score: float | None
    explanation: str | None


class HumanAIEvaluation(PatternEvaluation, frozen=True, kw_only=True):
    """Comparison of human labels with a judge, for one answer or for all labelled answers; the score is the agreement,
    0..1.
    """

    evaluator_name: Literal["human_ai_comparison"] = "human_ai_comparison"
    human_evaluation: HumanEvaluation
    ai_evaluation: AIEvaluation
    agreement_score: float | None
    discrepancy_analysis: str
    sample_size: int


class TemporalEvaluation(PatternEvaluation, frozen=True, kw_only=True):
    """A metric over several runs; `score` is the score of this run.

    Attributes:
        polarity: whether high or low scores are good.
        current_score: mean of this run.
        historical_scores: means of the runs, oldest first, this run last.
        historical_timestamps: start times of the runs in the same order.
        trend: direction of the line fitted to the scores; `stable` if it changes by no more than the noise, None if
            there is only one run or the metric is neutral.
        change_rate: slope of the line fitted to the scores, per run; None if there is only one run.
        stability_score: 1 − 2·standard deviation of the scores, at least 0; 1 if all scores are equal, None if there is
            only one run.
    """

    evaluator_name: Literal["temporal_quality"] = "temporal_quality"
    polarity: Polarity
    current_score: float
    historical_scores: tuple[float, ...]
    historical_timestamps: tuple[str, ...]
    trend: Literal["improving", "stable", "degrading"] | None
    change_rate: float | None
    stability_score: float | None


class HoneyHiveExport(Struct, frozen=True):
    """A run in HoneyHive's data model.

    Attributes:
        schema_version: version of this document's format.
        evaluation_batch: all evaluations of the run.
        multi_evaluation_results: the same evaluations, grouped by answer.
        evaluation_performance: counts and durations of the evaluations.
        evaluation_quality: agreement of the metrics with each other.
        ab_test_comparisons: comparisons of this run with the base; empty if there is no base.
        human_ai_comparisons: comparisons of human labels with judges; empty if there are no labels and no judge cards.
        temporal_evaluations: metrics over several runs.
    """

    schema_version: Literal[1]
    evaluation_batch: EvaluationBatch
    multi_evaluation_results: tuple[MultiEvaluationResult, ...]
    evaluation_performance: EvaluationPerformance
    evaluation_quality: EvaluationQuality
    ab_test_comparisons: tuple[ABTestEvaluation, ...]
    human_ai_comparisons: tuple[HumanAIEvaluation, ...]
    temporal_evaluations: tuple[TemporalEvaluation, ...]
