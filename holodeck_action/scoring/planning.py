"""What is known about a metric before any answer: its evaluator and what is asked of it, once per metric entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.metrics.base import BaseEvaluator, Building, OfJudge, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.record.evaluation import Criteria
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.values import MetricSpec

if TYPE_CHECKING:
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.workers.pool import WorkerPool

DEFAULT_TIMEOUT_S = 60.0


class PlannedMetric(Struct, frozen=True):
    """A metric entry with its evaluator, or with the reason why it has none.

    `timeout_s`: seconds one evaluation may take. `response_path`: the part of the answer that is evaluated.
    """

    spec: MetricSpec
    criteria: Criteria
    evaluator: BaseEvaluator | EvaluationError
    timeout_s: float
    response_path: str | None


class Planner:
    """Plans every metric entry once: cases share their entries, and equal configurations their evaluators.

    Args:
        pool: the workers in which the suite's own code runs.
        judges: the models that grade; None where no metric needs one.
        reuse: verdicts of earlier runs, which the parts of composites look for themselves; None for asking always.
    """

    def __init__(self, pool: WorkerPool, judges: Judges | None = None, reuse: Reuse | None = None) -> None:
        self._pool = pool
        self._judges = judges
        self._reuse = reuse
        self._built: dict[tuple[str, str, int | None], BaseEvaluator] = {}
        self._planned: dict[int, PlannedMetric] = {}

    def plan(self, spec: MetricSpec) -> PlannedMetric:
        """Return the plan of a metric entry."""
        # By identity: entries hold mappings and lists, and the plan keeps its entry alive.
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

    def _evaluator(self, config: Metric, k: int | None) -> BaseEvaluator | EvaluationError:
        # How a metric is handled is nothing to its evaluator.
        settings = config.model_dump_json(exclude=set(config.settings_for(Role.HANDLING)))
        key = (config.type, settings, k)
        try:
            if key not in self._built:
                self._built[key] = self._create(config, k)
            return self._built[key]
        except EvaluationError as error:
            return error

    def _create(self, config: Metric, k: int | None) -> BaseEvaluator:
        # Inside a run a failure is tried again only where the metric asks for it.
        options: dict[str, Any] = {
            "timeout": timeout_of(config),
            "retry_config": RetryConfig(max_retries=1 + (config.retry_on_failure or 0)),
        }
        building = Building(
            options=options,
            judged=lambda part, make: _judged(part, make, self._judges, options),
            member=self._member,
            k=k,
            pool=self._pool,
        )
        evaluator = config.evaluator(building)
        if not isinstance(evaluator, BaseEvaluator):
            raise EvaluationError(f"there is no evaluator for {config.type} metrics", code="unsupported_metric")
        return evaluator

    def _member(self, config: Metric, k: int | None) -> BaseEvaluator:
        """Return the evaluator of a composite's member, which takes the verdict of an earlier run, if there is one."""
        evaluator = self._create(config, k)
        if self._reuse is None or not config.needs_judge:
            return evaluator
        from holodeck_action.scoring.reuse import ReusingEvaluator

        return ReusingEvaluator(config, evaluator, self._reuse)


def timeout_of(config: Metric) -> float:
    """Return the seconds one evaluation of a metric may take."""
    return DEFAULT_TIMEOUT_S if config.timeout_ms is None else config.timeout_ms / 1000


def _judged(config: Metric, make: OfJudge, judges: Judges | None, options: dict[str, Any]) -> BaseEvaluator:
    """Build the evaluator of a metric that one model grades, or a panel."""
    from holodeck_action.llm.providers import ModelConfigError

    if judges is None:
        raise EvaluationError("there is no model that could judge", code="no_judge")
    try:
        found = judges.panel(config)
        if found is None:
            return make(judges.of(config.own_model), options)
    except ModelConfigError as error:
        raise EvaluationError(str(error), code="no_judge") from error
    from holodeck_action.metrics.judging.panel import PanelEvaluator, seats_of

    panel, models, fallbacks = found
    return PanelEvaluator(
        seats_of(models, fallbacks, lambda judge: make(judge, {**options, "timeout": None})),
        aggregation=panel.aggregation,
        min_successful=panel.min_successful,
        max_concurrent=panel.max_concurrent,
        timeout=options["timeout"],
    )


def criteria_of(spec: MetricSpec) -> Criteria:
    """Return what is asked of a metric, complete enough to judge its score without the suite."""
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
    """Return what sentences call a metric that its number explains: a name that was chosen, or its own title."""
    title, measure = spec.config.title, spec.config.measure
    if title is None or spec.config.name is not None or not spec.label.startswith(measure):
        return title and spec.label
    return title + spec.label.removeprefix(measure)
