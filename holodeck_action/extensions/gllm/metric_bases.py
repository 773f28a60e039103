"""Base classes of gllm-evals' metrics; judges are given to a metric or to the evaluator that contains it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

from holodeck_action.extensions.azure.base import AzureAIEvaluator
from holodeck_action.extensions.deepeval.base import DeepEvalBaseEvaluator
from holodeck_action.extensions.gllm.inputs import gllm_name, has_input, normalize_inputs
from holodeck_action.extensions.gllm.judging import Grading
from holodeck_action.metrics.base import BaseEvaluator, BuildContext
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.metric_sets import Member, Outcome
from holodeck_action.metrics.params import EvalParam
from holodeck_action.suite.model.metric_base import Metric


class BaseMetric:
    """A metric: a name and its evaluator.

    Attributes:
        name: name of the metric in results.
        evaluator: the evaluator of this package that grades.
        has_verdict: whether the metric's result has a verdict.
    """

    def __init__(self, name: str, evaluator: BaseEvaluator, *, has_verdict: bool = True) -> None:
        self.name = name
        self.evaluator = evaluator
        self.has_verdict = has_verdict

    @property
    def required_fields(self) -> set[str]:
        """The names of the required inputs."""
        return {gllm_name(param) for param in self.evaluator.PARAM_SPEC.required}

    def member(self, name: str | None = None, *, neutral: bool = False, weight: float = 1.0) -> Member:
        """Return the metric as a `Member` of an evaluator of this package."""
        return Member(name or self.name, self.evaluator, neutral=neutral, weight=weight, asserts=self.has_verdict)

    def with_grading(self, grading: Grading) -> BaseMetric:
        """Return the metric with options that are None replaced by those in `grading`; unchanged if no model grades.

        Raises:
            ValueError: an option cannot apply to the metric.
        """
        return self

    def gradings(self) -> list[Grading]:
        """Return the judges' options of the metric and of its nested metrics; empty if no model grades."""
        return []

    def check_judge(self) -> None:
        """Check that the metric has a model if it needs one.

        Raises:
            EvaluationError: the metric needs a model but has no model (code `no_judge`).
        """

    def can_evaluate(self, data: object) -> bool:
        """Return whether an item has all required inputs."""
        given = normalize_inputs(data)
        return all(has_input(given, param) for param in self.evaluator.PARAM_SPEC.required)

    async def evaluate(self, data: object) -> dict[str, Any]:
        """Evaluate one item; the result has score, success, threshold, explanation and the metric's further results.

        Raises:
            TimeoutError: the evaluation took too long.
            EvaluationError: the metric has no model (code `no_judge`); otherwise see `BaseEvaluator.evaluate`.
        """
        self.check_judge()
        given = normalize_inputs(data)
        check_inputs(self.name, self.evaluator, given)
        result = await self.evaluator.evaluate(**given)
        return to_gllm_result(Outcome(self.member(), result, None).data())


def check_inputs(name: str, evaluator: BaseEvaluator, inputs: Mapping[str, Any]) -> None:
    """Check that all required inputs are present; an error uses gllm-evals' name of the missing input.

    Raises:
        EvaluationError: a required input is missing (code `missing_input`).
    """
    for param in EvalParam:
        if param in evaluator.PARAM_SPEC.required and not has_input(inputs, param):
            raise EvaluationError(
                f"{name} needs {gllm_name(param)}, which was not given",
                code="missing_input",
                context={"parameter": gllm_name(param)},
            )


def to_gllm_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metric's result with a `success` key, and with aggregates if the metric combines several metrics."""
    converted = {name: to_gllm_result(value) if _is_part(value) else value for name, value in result.items()}
    converted["success"] = result["passed"]
    if any(map(_is_part, result.values())):
        converted |= aggregate_keys(result["score"], result["passed"], result["explanation"])
    return converted


def aggregate_keys(score: Any, passed: bool | None, explanation: str) -> dict[str, Any]:
    """Return the aggregated result under the keys of gllm-evals."""
    return {"aggregate_explanation": explanation, "aggregate_success": passed, "aggregate_score": score}


def _is_part(value: Any) -> bool:
    return isinstance(value, Mapping) and {"score", "passed", "explanation"} <= value.keys()


def to_metric(metric: BaseMetric | BaseEvaluator) -> BaseMetric:
    """Convert a metric, or an evaluator of this package, to a metric that accepts an evaluator's options.

    Raises:
        ValueError: `metric` is neither a metric nor an evaluator of this package.
    """
    if isinstance(metric, BaseEvaluator):
        has_verdict = getattr(metric, "threshold", None) is not None
        return to_metric(BaseMetric(metric.metric_name, metric, has_verdict=has_verdict))
    if not isinstance(metric, BaseMetric):
        raise ValueError(f"metrics must be of this package, not {type(metric).__name__}")
    evaluator = metric.evaluator
    if isinstance(metric, GradedMetric | _AzureMetric):
        return metric
    if isinstance(evaluator, DeepEvalBaseEvaluator) and not evaluator.has_judge:
        return _EvaluatorMetric(metric.name, evaluator, has_verdict=metric.has_verdict)
    if isinstance(evaluator, AzureAIEvaluator):
        return _AzureMetric(metric.name, evaluator, has_verdict=metric.has_verdict)
    return metric


def make_build_context(grading: Grading) -> BuildContext:
    """Return the `BuildContext` for evaluators that call the models of `grading`."""
    return BuildContext({"timeout": None}, grading.build_judged, _refuse_members)


def build_evaluator(config: Metric, grading: Grading) -> BaseEvaluator:
    """Return the evaluator for a metric's configuration; it calls the models of `grading`."""
    found = config.evaluator(make_build_context(grading))
    assert isinstance(found, BaseEvaluator)
    return found


def _refuse_members(*_: Any) -> BaseEvaluator:
    raise AssertionError("only composites create the evaluators of their entries")


class GradedMetric(BaseMetric):
    """A metric graded by its own models, or by the models of the evaluator that contains the metric."""

    def __init__(self, name: str, grading: Grading, *, has_verdict: bool = True) -> None:
        self.grading = grading
        super().__init__(name, self._build(), has_verdict=has_verdict)

    @abstractmethod
    def _build(self) -> BaseEvaluator:
        """Create the evaluator of the metric."""

    def with_grading(self, grading: Grading) -> Self:
        """Return the metric with options that are None replaced by those in `grading`."""
        whole = self.grading.with_defaults(grading)
        return self if whole == self.grading else self._copy_with(grading=whole)

    def gradings(self) -> list[Grading]:
        """Return the judges' options."""
        return [self.grading]

    def check_judge(self) -> None:
        """Check that the metric has a model if it needs one.

        Raises:
            EvaluationError: the metric has no model (code `no_judge`).
        """
        if not self.grading.models:
            raise EvaluationError(f"{self.name} has no model: give `models` to it or its evaluator", code="no_judge")

    def _copy_with(self, **fields: Any) -> Self:
        found = copy(self)
        vars(found).update(fields)
        found.evaluator = found._build()
        return found


class _EvaluatorMetric(GradedMetric):
    """Wraps an evaluator of this package that calls a model."""

    def __init__(self, name: str, evaluator: DeepEvalBaseEvaluator, *, has_verdict: bool) -> None:
        self._given = evaluator
        config = evaluator.model_config
        self._own = Grading(None if config is None else (config,))
        super().__init__(name, self._own, has_verdict=has_verdict)

    def _build(self) -> BaseEvaluator:
        if self.grading == self._own:
            return self._given
        return self.grading.evaluator(
            lambda model, timeout: self._given if model is None else self._given.with_model(model, timeout),
            self._given.timeout,
        )


class _AzureMetric(BaseMetric):
    """Wraps an Azure AI evaluator, which calls its own deployment."""

    def with_grading(self, grading: Grading) -> BaseMetric:
        """Return the metric unchanged.

        Raises:
            ValueError: there are fallback models, which cannot replace the deployment.
        """
        if grading.fallbacks:
            raise ValueError(f"fallback_models cannot replace the Azure deployment that grades {self.name}")
        return self
