"""Prepares the evaluator and the criteria of each metric entry before any answer is evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.metrics.base import BaseEvaluator, BuildContext, JudgeEvaluatorFactory, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.exchange import CONVERSATION_PREAMBLE
from holodeck_action.record.evaluation import Criteria, ErrorInfo
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.values import MetricSpec

if TYPE_CHECKING:
    from holodeck_action.llm.embeddings import Embedder
    from holodeck_action.llm.judge import JudgeModel
    from holodeck_action.scoring.judges import Judges, PanelJudges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.workers.pool import WorkerPool

DEFAULT_TIMEOUT_S = 60.0


class PlannedMetric(Struct, frozen=True):
    """A metric entry with its evaluator, or with the error that prevents its evaluation.

    `timeout_s` is the time limit of one evaluation in seconds. `response_path` is the path of the part of a JSON answer
    to evaluate; None to evaluate the whole answer.
    """

    spec: MetricSpec
    criteria: Criteria
    evaluator: BaseEvaluator | EvaluationError
    timeout_s: float
    response_path: str | None


class Planner:
    """Plans every metric entry once; entries with equal configurations share an evaluator.

    Args:
        pool: the worker processes in which the suite's own code runs.
        judges: the models that grade; None if no metric needs a judge.
        reuse: verdicts of earlier runs, for the parts of composites; None to always call judges.
        failed: returns the error of a metric with a judge that did not pass its probe, else None.
    """

    def __init__(
        self,
        pool: WorkerPool,
        judges: Judges | None = None,
        reuse: Reuse | None = None,
        failed: Callable[[Metric], ErrorInfo | None] = lambda config: None,
    ) -> None:
        self._failed = failed
        self._pool = pool
        self._judges = judges
        self._reuse = reuse
        self._built: dict[tuple[str, str, int | None], BaseEvaluator] = {}
        self._planned: dict[int, PlannedMetric] = {}

    def plan(self, spec: MetricSpec) -> PlannedMetric:
        """Return the plan of a metric entry."""
        # Entries are unhashable, so `id` is the key; the plan keeps its entry alive.
        planned = self._planned.get(id(spec))
        if planned is None:
            planned = self._planned[id(spec)] = PlannedMetric(
                spec=spec,
                criteria=criteria_of(spec),
                evaluator=self._evaluator(spec.config, spec.k),
                timeout_s=timeout_of(spec.config),
                response_path=spec.config.answer_path,
            )
        return planned

    def evaluator_by(self, config: Metric, judge: JudgeModel) -> tuple[BaseEvaluator, tuple[JudgeModel, ...]]:
        """Return the evaluator of a metric with one judge, and the judges of its parts.

        The judge grades each part that it may grade; the first judge of a part grades any other part.

        Raises:
            EvaluationError: there is no evaluator or no judge.
        """
        assert self._judges is not None
        judges, chosen = self._judges, [judge]

        def build(part: Metric, make: JudgeEvaluatorFactory) -> BaseEvaluator:
            graders = judges.graders(part)
            grader = judge if judge in graders else graders[0]
            if grader not in chosen:
                chosen.append(grader)
            return _adapt_to_scope(config, make)(
                grader, {"timeout": timeout_of(config), "retry_config": _retries(config)}
            )

        return self._create(config, None, build), tuple(chosen)

    def _evaluator(self, config: Metric, k: int | None) -> BaseEvaluator | EvaluationError:
        # Settings with the role `HANDLING`, such as timeouts, do not affect the evaluator.
        settings = config.model_dump_json(exclude=set(config.settings_for(Role.HANDLING)))
        key = (config.type, settings, k)
        failure = self._failed(config)
        if failure is not None:
            return EvaluationError(failure.message, code=failure.code, context=dict(failure.context))
        try:
            if key not in self._built:
                self._built[key] = self._create(config, k)
            return self._built[key]
        except EvaluationError as error:
            return error

    def _create(
        self,
        config: Metric,
        k: int | None,
        judged: Callable[[Metric, JudgeEvaluatorFactory], BaseEvaluator] | None = None,
    ) -> BaseEvaluator:
        """Create the evaluator of a metric; `judged` replaces how the evaluators of its judges are created."""
        options: dict[str, Any] = {"timeout": timeout_of(config), "retry_config": _retries(config)}
        building = BuildContext(
            options=options,
            judged=judged
            or (lambda part, make: _build_judged(part, _adapt_to_scope(config, make), self._judges, options)),
            member=self._build_member,
            k=k,
            pool=self._pool,
            embedder=self._embedder,
            expected_texts=None if self._judges is None else self._judges.expected_texts,
        )
        evaluator = config.evaluator(building)
        if not isinstance(evaluator, BaseEvaluator):
            raise EvaluationError(f"there is no evaluator for {config.type} metrics", code="unsupported_metric")
        return evaluator

    def _embedder(self, name: str) -> Embedder:
        """Return the embedder for the model `name`.

        Raises:
            EvaluationError: the model cannot be called (code `no_judge`).
        """
        from holodeck_action.llm.providers import ModelConfigError

        if self._judges is None:
            raise EvaluationError("no embedding model is configured", code="no_judge")
        try:
            return self._judges.embedder_for(name)
        except ModelConfigError as error:
            raise EvaluationError(str(error), code="no_judge") from error

    def _build_member(self, config: Metric, k: int | None) -> BaseEvaluator:
        """Return the evaluator of a composite's member; if it has a judge, it reuses verdicts of earlier runs."""
        evaluator = self._create(config, k)
        if self._reuse is None or not config.needs_judge:
            return evaluator
        from holodeck_action.scoring.reuse import reusing

        return reusing(config, evaluator, self._reuse)


def _retries(config: Metric) -> RetryConfig:
    """Return the retries of a metric: inside a run, a failure is retried only if it has `retry_on_failure`."""
    return RetryConfig(max_retries=1 + (config.retry_on_failure or 0))


def timeout_of(config: Metric) -> float:
    """Return the time limit of one evaluation of a metric, in seconds."""
    return DEFAULT_TIMEOUT_S if config.timeout_ms is None else config.timeout_ms / 1000


def _adapt_to_scope(config: Metric, build_evaluator: JudgeEvaluatorFactory) -> JudgeEvaluatorFactory:
    """Return the factory; for a metric that grades the whole conversation, one whose judges' prompts begin with a
    preamble about this."""
    if not config.grades_conversation:
        return build_evaluator
    return lambda judge, options: build_evaluator(judge and judge.with_preamble(CONVERSATION_PREAMBLE), options)


def _build_judged(
    config: Metric, build_evaluator: JudgeEvaluatorFactory, judges: Judges | None, options: dict[str, Any]
) -> BaseEvaluator:
    """Build the evaluator of a metric with one judge or a panel."""
    from holodeck_action.llm.providers import ModelConfigError

    if judges is None:
        raise EvaluationError("no model is configured as judge", code="no_judge")
    try:
        found = judges.panel(config)
        if found is None:
            return build_evaluator(judges.judge_for(config.own_model), options)
    except ModelConfigError as error:
        raise EvaluationError(str(error), code="no_judge") from error
    if found.second is None:
        return _build_panel(found, build_evaluator, options)
    from holodeck_action.metrics.judging.escalation import escalating

    limit = options["timeout"]
    half = {**options, "timeout": None if limit is None else limit / 2}
    alone = len(found.judges) == 1 and not found.fallbacks
    first = build_evaluator(found.judges[0], half) if alone else _build_panel(found, build_evaluator, half)
    return escalating(first, build_evaluator(found.second, half), limit)


def _build_panel(
    panel_judges: PanelJudges, build_evaluator: JudgeEvaluatorFactory, options: dict[str, Any]
) -> BaseEvaluator:
    from holodeck_action.metrics.judging.panel import PanelEvaluator, build_panel

    panel = panel_judges.panel
    return PanelEvaluator(
        build_panel(
            panel_judges.judges,
            panel_judges.fallbacks,
            lambda judge: build_evaluator(judge, {**options, "timeout": None}),
        ),
        aggregation=panel.aggregation,
        min_successful=panel.min_successful,
        max_concurrent=panel.max_concurrent,
        timeout=options["timeout"],
    )


def criteria_of(spec: MetricSpec) -> Criteria:
    """Return the criteria of a metric: all data that are needed to judge its score without the suite."""
    config = spec.config
    return Criteria(
        kind=config.type,
        metric=config.measure,
        threshold=config.pass_mark,
        asserts=config.asserts,
        polarity=config.polarity,
        fail_on_error=config.fail_on_error,
        settings=config.criteria_settings() | ({} if spec.k is None else {"k": spec.k}),
        pass_values=config.passing_categories,
        source=spec.mark,
        title=_title(spec),
    )


def _title(spec: MetricSpec) -> str | None:
    """Return a metric's title: its label if the suite names the metric, else its type's title; None if it has none."""
    title, measure = spec.config.title, spec.config.measure
    if title is None or spec.config.name is not None or not spec.label.startswith(measure):
        return title and spec.label
    return title + spec.label.removeprefix(measure)
