"""The documents of HoneyHive's evaluation data models, as `export` writes them.

Names and shapes are those of HoneyHive (evaluation data models: Evaluation and its kinds, MultiEvaluationResult,
EvaluationBatch, evaluation metrics, common evaluation patterns). `Evaluation` has them already in the record. Fields
that HoneyHive does not name are additions of ours, which its models allow; docs/results.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from holodeck_action.record.evaluation import Evaluation, Polarity
from holodeck_action.record.record import SuiteIdentity, ToolAssertion

EXPORT_VERSION: Literal[1] = 1


class QualityEvaluation(Evaluation, frozen=True, kw_only=True):
    """Overall quality; `dimensions` are 0..1."""

    dimensions: Mapping[str, float]


class FactualAccuracyEvaluation(Evaluation, frozen=True, kw_only=True):
    """Factual correctness; `citation_accuracy` is 0..1, None without citations."""

    factual_claims: tuple[Mapping[str, Any], ...]
    citation_accuracy: float | None
    hallucination_detected: bool


class ToxicityEvaluation(Evaluation, frozen=True, kw_only=True):
    """Toxicity, as a whole and by category, 0..1; low is good."""

    toxicity_categories: Mapping[str, float]
    overall_toxicity: float
    content_warnings: tuple[str, ...]


class RelevanceEvaluation(Evaluation, frozen=True, kw_only=True):
    """Relevance to what was asked, 0..1 each."""

    query_intent_match: float
    topic_alignment: float
    information_completeness: float


class LengthEvaluation(Evaluation, frozen=True, kw_only=True):
    """The length of an answer, and what was expected of it."""

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
"""By the type of the metric in a suite: what an evaluation with these facts in its metadata becomes."""


class EvaluatedAnswer(Struct, frozen=True):
    """Which answer was evaluated: the case by id and name, trial and turn from 0."""

    case_id: str
    case_name: str | None
    trial: int
    turn: int


class MultiEvaluationResult(Struct, frozen=True):
    """All evaluations of one answer.

    Attributes:
        target_event_id: of the answer.
        evaluations: in the order of the suite.
        summary_score: 0..1, high is good; None without `gates.summary`, or where a score that counts is missing.
        summary_method: of `gates.summary`; None without, or with a callable of the suite, which summarises runs.
        weights: by metric, for `weighted_average`.
        target: which answer it is.
        tool_assertions: what became of the expected tool calls, which are no metric.
    """

    target_event_id: str
    evaluations: tuple[Evaluation, ...]
    summary_score: float | None
    summary_method: Literal["weighted_average", "simple_average", "minimum"] | None
    weights: Mapping[str, float] | None
    target: EvaluatedAnswer
    tool_assertions: tuple[ToolAssertion, ...]


class BatchMetadata(Struct, frozen=True):
    """Facts of the run.

    Attributes:
        batch_size: number of evaluations.
        created_at: when the run started, ISO 8601 in UTC.
        evaluator_versions: by metric; those without a version are left out.
        processing_time_ms: how long the run took.
        suite: which suite was run.
        target: what answered.
        commit: what was checked out; None where it is not known.
        record_digest: SHA-256 of the canonical record.
        verdict: of the run.
        reason: of the verdict.
        tool_version: version of holodeck-action that ran.
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
    """All evaluations of a run; `failed` when the run stopped early."""

    batch_id: str
    evaluations: tuple[Evaluation, ...]
    batch_metadata: BatchMetadata
    status: Literal["pending", "processing", "completed", "failed"]


class EvaluationPerformance(Struct, frozen=True):
    """How the evaluations went; those that were skipped do not count. Durations in milliseconds, None for none."""

    total_evaluations: int
    successful_evaluations: int
    failed_evaluations: int
    success_rate: float | None
    average_duration_ms: float | None
    p95_duration_ms: float | None
    total_cost_usd: float | None


class ConfidenceShares(Struct, frozen=True):
    """Shares of the evaluations that state their confidence; None where none does."""

    high_confidence: float | None
    medium_confidence: float | None
    low_confidence: float | None


class EvaluationQuality(Struct, frozen=True):
    """How the metrics go with each other: `inter_evaluator_correlation` by `one_vs_other`."""

    evaluator_agreement: float | None
    inter_evaluator_correlation: Mapping[str, float | None]
    confidence_distribution: ConfidenceShares


class PatternEvaluation(Struct, frozen=True, kw_only=True):
    """What the evaluations that compare have in common; `metric` is `pass_rate` for the pass rate of cases.

    `failed`: one of the sides has no number.
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
    """Two variants: A is this run, B is the base.

    Attributes:
        variant_a_event_id: SHA-256 of the canonical record of A.
        variant_b_event_id: the same of B.
        preference_score: ½ + difference/2: 0.5 where neither is better. Where cases pass or fail, it is the share of
            cases in which A is better, ties counted half.
        confidence_interval: its 95 % interval; None with fewer than 10 pairs.
        sample_size: cases that both have.
        statistical_significance: whether the difference is beyond chance, after correction for all that is compared.
        difference: of the means over the pairs, after the metric's polarity: above 0 where A is better.
        mean_a: of the pairs, as scored.
        mean_b: the same of B.
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
    """This run against the base, on one metric; the score is the preference for this run."""

    evaluator_name: Literal["ab_test_comparison"] = "ab_test_comparison"
    comparison_data: ComparisonData


class HumanEvaluation(Struct, frozen=True):
    """What people say; `score` is 0..1."""

    annotator_id: str
    score: float | None
    explanation: str | None


class AIEvaluation(Struct, frozen=True):
    """What the judge says; `model` names all of its models, None where that is not known."""

    model: str | None
    score: float | None
    explanation: str | None


class HumanAIEvaluation(PatternEvaluation, frozen=True, kw_only=True):
    """People against a judge, on one answer or on all labelled answers; the score is the agreement, 0..1."""

    evaluator_name: Literal["human_ai_comparison"] = "human_ai_comparison"
    human_evaluation: HumanEvaluation
    ai_evaluation: AIEvaluation
    agreement_score: float | None
    discrepancy_analysis: str
    sample_size: int


class TemporalEvaluation(PatternEvaluation, frozen=True, kw_only=True):
    """A metric over runs; the score is the current one.

    Attributes:
        polarity: whether high or low scores are good.
        current_score: mean of this run.
        historical_scores: means of the runs, oldest first, this run last.
        historical_timestamps: when these runs started.
        trend: `stable` where the fitted line moves by less than noise; None with one run alone.
        change_rate: slope of the line fitted to the scores, per run; None with one run alone.
        stability_score: 1 − 2·standard deviation of the scores: 1 for equal scores; None with one run alone.
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
    """A run in the shapes of HoneyHive.

    Attributes:
        schema_version: of this document.
        evaluation_batch: all evaluations of the run.
        multi_evaluation_results: the same, by answer.
        evaluation_performance: how the evaluations went.
        evaluation_quality: how the metrics go with each other.
        ab_test_comparisons: this run against the base; empty without one.
        human_ai_comparisons: people against judges; empty without labels and judge cards.
        temporal_evaluations: metrics over runs.
    """

    schema_version: Literal[1]
    evaluation_batch: EvaluationBatch
    multi_evaluation_results: tuple[MultiEvaluationResult, ...]
    evaluation_performance: EvaluationPerformance
    evaluation_quality: EvaluationQuality
    ab_test_comparisons: tuple[ABTestEvaluation, ...]
    human_ai_comparisons: tuple[HumanAIEvaluation, ...]
    temporal_evaluations: tuple[TemporalEvaluation, ...]
