"""From a metric's configuration to its evaluator, built once per distinct configuration.

Evaluators are imported when a suite first asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from holodeck_action.metrics.base import BaseEvaluator, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.suite.applicability import effective_threshold, model_of, needs_judge
from holodeck_action.suite.dimension_metrics import DimensionMetric
from holodeck_action.suite.metric_base import MetricModel
from holodeck_action.suite.metrics import (
    AZURE_METRICS,
    AnyMetric,
    CodeMetric,
    CompositeMetric,
    DeepEvalToolCorrectnessMetric,
    GEvalMetric,
    LengthMetric,
    RagMetric,
    RagName,
    RetrievalMetric,
    StandardMetric,
    ToolCorrectnessMetric,
    TrajectoryMetric,
)
from holodeck_action.suite.preset_metrics import PresetMetric, RefusalMetric, TrajectoryAccuracyMetric

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeModel
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.suite.values import MetricSpec
    from holodeck_action.workers.pool import WorkerPool

Metric = TypeVar("Metric", bound=MetricModel)

DEFAULT_TIMEOUT_S = 60.0

# What an evaluator does not see: entries that differ only here share one.
_OUTSIDE = {"enabled", "fail_on_error", "response_path"}


class EvaluatorRegistry:
    """The evaluators of a run; equal configurations share one.

    Args:
        pool: the workers in which the suite's own code runs.
        judges: the models that grade; None where no metric needs one.
        reuse: verdicts of earlier runs, which the parts of composites look for themselves; None for asking always.
    """

    def __init__(self, pool: WorkerPool, judges: Judges | None = None, reuse: Reuse | None = None) -> None:
        self._pool = pool
        self._judges = judges
        self._reuse = reuse
        self._built: dict[tuple[str, int | None], BaseEvaluator] = {}

    def build(self, spec: MetricSpec) -> BaseEvaluator:
        """Return the evaluator of a metric.

        Raises:
            EvaluationError: there is none for it (code `unsupported_metric`), or nobody to grade (code `no_judge`).
        """
        key = (spec.config.model_dump_json(exclude=_OUTSIDE), spec.k)
        evaluator = self._built.get(key)
        if evaluator is None:
            evaluator = self._built[key] = _create(spec.config, spec.k, self._pool, self._judges, self._reuse)
        return evaluator


def timeout_of(config: AnyMetric) -> float:
    """Return the seconds one evaluation of a metric may take."""
    return DEFAULT_TIMEOUT_S if config.timeout_ms is None else config.timeout_ms / 1000


def _create(
    config: AnyMetric, k: int | None, pool: WorkerPool, judges: Judges | None, reuse: Reuse | None
) -> BaseEvaluator:
    # Inside a run a failure is tried again only where the metric asks for it (DESIGN §5).
    shared: dict[str, Any] = {
        "timeout": timeout_of(config),
        "retry_config": RetryConfig(max_retries=1 + (config.retry_on_failure or 0)),
    }
    if isinstance(config, GEvalMetric | RagMetric):
        return _graded(config, judges, shared, _judged)
    if isinstance(config, StandardMetric):
        if config.metric in AZURE_METRICS:
            return _graded(config, judges, shared, _azure)
        return _standard(config, shared)
    if isinstance(config, CodeMetric):
        from holodeck_action.metrics.code_grader import CodeGraderEvaluator

        return CodeGraderEvaluator(config, pool, **shared)
    if isinstance(config, LengthMetric):
        return _length(config, shared)
    if isinstance(config, PresetMetric | RefusalMetric | TrajectoryAccuracyMetric | DimensionMetric | CompositeMetric):
        from holodeck_action.metrics.presets.building import build_preset

        return build_preset(
            config,
            grade=lambda part, build: _graded(part, judges, shared, lambda _, judge, options: build(judge, options)),
            create=lambda member, rank: _part(member, _create(member, rank, pool, judges, None), reuse),
            **shared,
        )
    shared["threshold"] = effective_threshold(config)
    if isinstance(config, ToolCorrectnessMetric):
        from holodeck_action.metrics.tool_correctness import ToolCorrectnessEvaluator

        return ToolCorrectnessEvaluator(args=config.args, score=config.score, **shared)
    if isinstance(config, DeepEvalToolCorrectnessMetric):
        from holodeck_action.metrics.deepeval.tool_correctness import DeepEvalToolCorrectnessEvaluator

        return DeepEvalToolCorrectnessEvaluator(
            evaluation_params=config.evaluation_params,
            should_exact_match=config.should_exact_match,
            should_consider_ordering=config.should_consider_ordering,
            strict_mode=config.strict_mode,
            **shared,
        )
    if isinstance(config, TrajectoryMetric):
        from holodeck_action.metrics.trajectory import TrajectoryEvaluator

        return TrajectoryEvaluator(mode=config.mode, args=config.args, **shared)
    if isinstance(config, RetrievalMetric):
        from holodeck_action.metrics.retrieval import RetrievalEvaluator

        assert k is not None
        return RetrievalEvaluator(metric=config.metric, k=k, **shared)
    raise _unsupported(f"{config.type} metrics")


def _graded(
    config: Metric,
    judges: Judges | None,
    shared: dict[str, Any],
    build: Callable[[Metric, JudgeModel, dict[str, Any]], BaseEvaluator],
) -> BaseEvaluator:
    """Build the evaluator of a metric that one model grades, or a panel; `build` makes the evaluator of one judge."""
    from holodeck_action.llm.providers import ModelConfigError

    if judges is None:
        raise EvaluationError("there is no model that could judge", code="no_judge")
    try:
        found = judges.panel(config)
        if found is None:
            return build(config, judges.of(model_of(config)), shared)
    except ModelConfigError as error:
        raise EvaluationError(str(error), code="no_judge") from error
    from holodeck_action.metrics.panel import PanelEvaluator, seats_of

    panel, models, fallbacks = found
    return PanelEvaluator(
        seats_of(models, fallbacks, lambda judge: build(config, judge, {**shared, "timeout": None})),
        aggregation=panel.aggregation,
        min_successful=panel.min_successful,
        max_concurrent=panel.max_concurrent,
        timeout=shared["timeout"],
    )


def _part(config: AnyMetric, evaluator: BaseEvaluator, reuse: Reuse | None) -> BaseEvaluator:
    """Return the evaluator of a composite's part, which takes the verdict of an earlier run where there is one."""
    if reuse is None or not needs_judge(config):
        return evaluator
    from holodeck_action.metrics.presets.composite import ReusingEvaluator

    return ReusingEvaluator(config, evaluator, reuse)


def _judged(config: GEvalMetric | RagMetric, judge: JudgeModel, shared: dict[str, Any]) -> BaseEvaluator:
    threshold = effective_threshold(config)
    if isinstance(config, GEvalMetric):
        from holodeck_action.metrics.deepeval.geval import GEvalEvaluator

        return GEvalEvaluator(
            name=config.name,
            criteria=config.criteria,
            evaluation_params=config.evaluation_params,
            evaluation_steps=config.evaluation_steps,
            strict_mode=config.strict_mode,
            threshold=threshold,
            judge=judge,
            **shared,
        )
    from holodeck_action.metrics.deepeval import rag

    evaluators: dict[RagName, type[rag.RagEvaluator]] = {
        "answer_relevancy": rag.AnswerRelevancyEvaluator,
        "contextual_precision": rag.ContextualPrecisionEvaluator,
        "contextual_recall": rag.ContextualRecallEvaluator,
        "contextual_relevancy": rag.ContextualRelevancyEvaluator,
        "faithfulness": rag.FaithfulnessEvaluator,
    }
    evaluator = evaluators[config.metric_type]
    return evaluator(threshold=threshold, include_reason=config.include_reason, judge=judge, **shared)


def _azure(config: StandardMetric, judge: JudgeModel, shared: dict[str, Any]) -> BaseEvaluator:
    from holodeck_action.metrics.azure.metrics import EVALUATORS

    return EVALUATORS[config.metric](
        threshold=effective_threshold(config), custom_prompt=config.custom_prompt, judge=judge, **shared
    )


def _standard(config: StandardMetric, shared: dict[str, Any]) -> BaseEvaluator:
    from holodeck_action.metrics import deterministic, standard

    # Without a threshold of its own a comparison gives its own verdict, and a text metric none.
    if config.threshold is not None:
        shared["threshold"] = effective_threshold(config)
    match config.metric:
        case "equality":
            return deterministic.EqualityEvaluator(
                case_insensitive=config.case_insensitive,
                strip_whitespace=config.strip_whitespace,
                strip_punctuation=config.strip_punctuation,
                **shared,
            )
        case "numeric":
            return deterministic.NumericEvaluator(
                absolute_tolerance=config.absolute_tolerance,
                relative_tolerance=config.relative_tolerance,
                accept_percent=config.accept_percent,
                accept_thousands_separators=config.accept_thousands_separators,
                **shared,
            )
        case "bleu":
            return standard.BLEUEvaluator(**shared)
        case "rouge":
            return standard.ROUGEEvaluator(variant=config.variant, use_stemmer=config.use_stemmer, **shared)
        case "meteor":
            return standard.METEOREvaluator(**shared)
        case "f1_score":
            return standard.F1Evaluator(**shared)
        case _:
            raise _unsupported(f"the metric {config.metric}")


def _length(config: LengthMetric, shared: dict[str, Any]) -> BaseEvaluator:
    from holodeck_action.metrics.length import LengthEvaluator

    return LengthEvaluator(
        min_words=config.min_words,
        max_words=config.max_words,
        min_characters=config.min_characters,
        max_characters=config.max_characters,
        min_sentences=config.min_sentences,
        max_sentences=config.max_sentences,
        optimal_words=config.optimal_words,
        threshold=config.threshold,
        **shared,
    )


def _unsupported(what: str) -> EvaluationError:
    return EvaluationError(f"there is no evaluator for {what}", code="unsupported_metric")
