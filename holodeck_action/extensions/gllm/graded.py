"""Metrics as gllm-evals has them: a name, an evaluator, and who grades, which an evaluator of several may decide."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

from holodeck_action.extensions.azure.base import AzureAIEvaluator
from holodeck_action.extensions.gllm.inputs import given_inputs, has, shown_name
from holodeck_action.extensions.gllm.judging import Grading
from holodeck_action.metrics.base import BaseEvaluator, Building
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.model_judged import ModelJudgedEvaluator
from holodeck_action.metrics.metric_sets import Member, Outcome
from holodeck_action.metrics.params import EvalParam
from holodeck_action.suite.model.metric_base import Metric


class BaseMetric:
    """A metric: a name, and the evaluator that grades.

    Attributes:
        name: its name in results.
        evaluator: what grades.
        asserts: whether its result has a verdict.
    """

    def __init__(self, name: str, evaluator: BaseEvaluator, *, asserts: bool = True) -> None:
        self.name = name
        self.evaluator = evaluator
        self.asserts = asserts

    @property
    def required_fields(self) -> set[str]:
        """The names of the inputs without which it cannot evaluate."""
        return {shown_name(param) for param in self.evaluator.PARAM_SPEC.required}

    def member(self, name: str | None = None, *, neutral: bool = False, weight: float = 1.0) -> Member:
        """Return it as a part of an evaluator."""
        return Member(name or self.name, self.evaluator, neutral=neutral, weight=weight, asserts=self.asserts)

    def graded_by(self, grading: Grading) -> BaseMetric:
        """Return the metric with an evaluator's options for what it leaves open; one that asks no model as it is.

        Raises:
            ValueError: an option that cannot reach it.
        """
        return self

    def gradings(self) -> list[Grading]:
        """Return who grades; nobody for a metric that asks no model."""
        return []

    def check_judge(self) -> None:
        """Refuse an evaluation for which there is no model.

        Raises:
            EvaluationError: it asks a model and has none (code `no_judge`).
        """

    def can_evaluate(self, data: object) -> bool:
        """Tell whether an item has all that it needs."""
        given = given_inputs(data)
        return all(has(given, param) for param in self.evaluator.PARAM_SPEC.required)

    async def evaluate(self, data: object) -> dict[str, Any]:
        """Evaluate one item; the result holds score, success, threshold, explanation and what the metric found.

        Raises:
            TimeoutError: it took too long.
            EvaluationError: there is no model to ask (code `no_judge`); else see `BaseEvaluator.evaluate`.
        """
        self.check_judge()
        given = given_inputs(data)
        check_given(self.name, self.evaluator, given)
        result = await self.evaluator.evaluate(**given)
        return contract(Outcome(self.member(), result, None).data())


def check_given(name: str, evaluator: BaseEvaluator, given: Mapping[str, Any]) -> None:
    """Refuse an item that lacks an input, by the name that gllm-evals has for it.

    Raises:
        EvaluationError: it does (code `missing_input`).
    """
    for param in EvalParam:
        if param in evaluator.PARAM_SPEC.required and not has(given, param):
            raise EvaluationError(
                f"{name} needs {shown_name(param)}, which was not given",
                code="missing_input",
                context={"parameter": shown_name(param)},
            )


def contract(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a metric found with `success`; one that is several metrics has the aggregates, too."""
    told = {name: contract(value) if _is_part(value) else value for name, value in found.items()}
    told["success"] = found["passed"]
    if any(map(_is_part, found.values())):
        told |= aggregates(found["score"], found["passed"], found["explanation"])
    return told


def aggregates(score: Any, passed: bool | None, explanation: str) -> dict[str, Any]:
    """Return the result of several metrics as gllm-evals names it."""
    return {"aggregate_explanation": explanation, "aggregate_success": passed, "aggregate_score": score}


def _is_part(value: Any) -> bool:
    return isinstance(value, Mapping) and {"score", "passed", "explanation"} <= value.keys()


def metric_of(given: BaseMetric | BaseEvaluator) -> BaseMetric:
    """Return a metric that takes an evaluator's options, also for an evaluator of this package.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, BaseEvaluator):
        asserts = getattr(given, "threshold", None) is not None
        return metric_of(BaseMetric(given.metric_name, given, asserts=asserts))
    if not isinstance(given, BaseMetric):
        raise ValueError(f"metrics must be of this package, not {type(given).__name__}")
    evaluator = given.evaluator
    if isinstance(given, GradedMetric | _AzureMetric):
        return given
    if isinstance(evaluator, ModelJudgedEvaluator) and not evaluator.has_judge:
        return _EvaluatorMetric(given.name, evaluator, asserts=given.asserts)
    if isinstance(evaluator, AzureAIEvaluator):
        return _AzureMetric(given.name, evaluator, asserts=given.asserts)
    return given


def building_of(grading: Grading) -> Building:
    """Return the means to build evaluators that these models grade."""
    return Building({"timeout": None}, grading.grade, _no_members)


def built(config: Metric, grading: Grading) -> BaseEvaluator:
    """Return the evaluator of an entry, graded by these models."""
    found = config.evaluator(building_of(grading))
    assert isinstance(found, BaseEvaluator)
    return found


def _no_members(*_: Any) -> BaseEvaluator:
    raise AssertionError("only composites create the evaluators of their entries")


class GradedMetric(BaseMetric):
    """A metric that models grade: its own, or those of its evaluator."""

    def __init__(self, name: str, grading: Grading, *, asserts: bool = True) -> None:
        self.grading = grading
        super().__init__(name, self._build(), asserts=asserts)

    @abstractmethod
    def _build(self) -> BaseEvaluator:
        """Return what grades."""

    def graded_by(self, grading: Grading) -> Self:
        """Return the metric with an evaluator's options for what it leaves open."""
        whole = self.grading.or_else(grading)
        return self if whole == self.grading else self._changed(grading=whole)

    def gradings(self) -> list[Grading]:
        """Return who grades."""
        return [self.grading]

    def check_judge(self) -> None:
        """Refuse an evaluation for which there is no model.

        Raises:
            EvaluationError: it has none (code `no_judge`).
        """
        if not self.grading.models:
            raise EvaluationError(f"{self.name} has no model: give `models` to it or its evaluator", code="no_judge")

    def _changed(self, **fields: Any) -> Self:
        found = copy(self)
        vars(found).update(fields)
        found.evaluator = found._build()
        return found


class _EvaluatorMetric(GradedMetric):
    """An evaluator of this package that asks a model."""

    def __init__(self, name: str, evaluator: ModelJudgedEvaluator, *, asserts: bool) -> None:
        self._given = evaluator
        config = evaluator.model_config
        self._own = Grading(None if config is None else (config,))
        super().__init__(name, self._own, asserts=asserts)

    def _build(self) -> BaseEvaluator:
        if self.grading == self._own:
            return self._given
        return self.grading.evaluator(
            lambda model, timeout: self._given if model is None else self._given.graded_by(model, timeout),
            self._given.timeout,
        )


class _AzureMetric(BaseMetric):
    """An evaluator of Azure AI: a deployment of its own grades."""

    def graded_by(self, grading: Grading) -> BaseMetric:
        """Return the metric.

        Raises:
            ValueError: models are to stand in for its deployment.
        """
        if grading.fallbacks:
            raise ValueError(f"fallback_models cannot stand in for the Azure deployment that grades {self.name}")
        return self
