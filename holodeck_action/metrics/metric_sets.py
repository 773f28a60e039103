"""Several metrics graded together as one evaluation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from msgspec import Struct

from holodeck_action.metrics.aggregation import (
    Part,
    aggregate_explanation,
    aggregate_score,
    aggregate_success,
    quality,
)
from holodeck_action.metrics.base import (
    Around,
    BaseEvaluator,
    EvaluationResult,
    RetryConfig,
    describe,
)
from holodeck_action.metrics.errors import EvaluationError, evaluate_items
from holodeck_action.metrics.params import DEEPEVAL_PARAMS, OTHER_NAME, EvalParam, ParamSpec
from holodeck_action.metrics.result import check_threshold
from holodeck_action.record.evaluation import MISSING_INPUT, Polarity
from holodeck_action.suite.model.metric_base import Metric

_NAMES = frozenset(param.value for param in EvalParam)
_OMITTED_METADATA = frozenset(("criteria", "auto_generated_steps", "strict_mode", "error"))
"""Keys of a metric's metadata that are omitted, because they do not describe the answer or repeat the explanation."""


class Member(Struct, frozen=True):
    """A metric of a set.

    Attributes:
        name: name of the metric in the result.
        evaluator: evaluator of the metric; its result contains the verdict.
        neutral: whether the metric is only reported: it does not affect score and verdict, even if it cannot be
            evaluated.
        weight: weight of the metric in the aggregate score.
        asserts: whether the metric is expected to give a verdict.
        config: the metric of a composite, whose settings may change its inputs; None in other sets.
    """

    name: str
    evaluator: BaseEvaluator
    neutral: bool = False
    weight: float = 1.0
    asserts: bool = True
    config: Metric | None = None


class Outcome(Struct, frozen=True):
    """The result of a member of a set, or its error."""

    member: Member
    result: EvaluationResult | None
    error: Exception | None

    @property
    def part(self) -> Part:
        """The outcome as input of the aggregation."""
        name, result = self.member.name, self.result
        if result is None:
            explanation = _error_text(self.error)
            polarity: Polarity = "neutral" if self.member.neutral else "maximize"
            return Part(name, None, None, polarity, None, explanation)
        score = result.score
        number = float(score) if isinstance(score, bool | int | float) else None
        passed = bool(score) if isinstance(score, bool) and result.passed is None else result.passed
        # A result with neither number nor verdict, such as a category, is not missing.
        neutral = self.member.neutral or (number is None and passed is None)
        return Part(
            name,
            number,
            None if self.member.neutral else passed,
            "neutral" if neutral else result.polarity,
            result.threshold,
            result.reasoning,
        )

    def data(self) -> dict[str, Any]:
        """Return the outcome as JSON values, in the form of records."""
        if self.result is None:
            failed = {
                "score": None,
                "passed": None,
                "explanation": _error_text(self.error),
                "error": _error_code(self.error),
            }
            # Too few judges of a panel gave a verdict; their verdicts are kept.
            verdicts = self.error.context.get("verdicts") if isinstance(self.error, EvaluationError) else None
            return failed if verdicts is None else failed | {"verdicts": verdicts}
        result = self.result
        told = {name: value for name, value in result.metadata.items() if name not in _OMITTED_METADATA}
        told |= {
            "score": result.score,
            "polarity": "neutral" if self.member.neutral else result.polarity,
            "threshold": result.threshold,
            "passed": result.passed,
            "explanation": result.reasoning,
        }
        return told if result.raw_score is None else told | {"raw_score": result.raw_score}


class PresetResult(EvaluationResult):
    """The result of several metrics; it also has the keys `aggregate_score`, `aggregate_success` and
    `aggregate_explanation`.
    """

    __slots__ = ()

    def _items(self) -> dict[str, Any]:
        return super()._items() | {name: getattr(self, field) for name, field in _AGGREGATES.items()}


_AGGREGATES = {"aggregate_score": "score", "aggregate_success": "passed", "aggregate_explanation": "reasoning"}


class PresetEvaluator(BaseEvaluator):
    """Grades an answer by several metrics at once.

    The score is the mean quality of the metrics, weighted if weights are given; the quality is the score, or 1 − score
    if low scores are good. The answer passes if all metrics pass. If a metric cannot be evaluated, the whole evaluation
    fails, because no score is computed from only some of the metrics; the error's context contains the other results.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[Member],
        *,
        parallel: bool = True,
        threshold: float | None = None,
        timeout: float | None = 60.0,
    ) -> None:
        """Create the evaluator; no model is called.

        Args:
            name: the evaluator's name.
            members: the metrics; each evaluator handles its own retries.
            parallel: whether the metrics are evaluated concurrently; otherwise they are evaluated one after the other.
            threshold: lowest passing aggregate score; all metrics must pass as well.
            timeout: maximum seconds of one evaluation, all metrics together.

        Raises:
            ValueError: there are no metrics, two have the same name, a weight is negative, all weights are 0, or the
                threshold is outside 0..1.
        """
        super().__init__(timeout=timeout, retry_config=RetryConfig(max_retries=0))
        names = [member.name for member in members]
        if not members:
            raise ValueError(f"{name} has no metrics")
        if len(set(names)) < len(names):
            raise ValueError(f"{name}: the names of its metrics must be unique: {', '.join(names)}")
        weights = [member.weight for member in members]
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
            raise ValueError(f"{name}: weights must not be negative, and at least one must be positive")
        self._name = name
        self._members = tuple(members)
        self._parallel = parallel
        self._threshold = check_threshold(threshold)
        self.PARAM_SPEC = combine_specs(member.evaluator.PARAM_SPEC for member in members)

    @property
    def name(self) -> str:
        """The evaluator's name."""
        return self._name

    @property
    def metric_name(self) -> str:
        """The evaluator's name in results."""
        return self._name

    @property
    def threshold(self) -> float | None:
        """Lowest passing aggregate score; None if there is no threshold."""
        return self._threshold

    @property
    def members(self) -> tuple[Member, ...]:
        """The metrics."""
        return self._members

    @overload
    async def evaluate(self, data: Sequence[Mapping[str, Any]], /, **kwargs: Any) -> list[EvaluationResult]: ...

    @overload
    async def evaluate(self, data: Mapping[str, Any] | None = None, /, **kwargs: Any) -> EvaluationResult: ...

    async def evaluate(
        self, data: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None, /, **kwargs: Any
    ) -> EvaluationResult | list[EvaluationResult]:
        """Evaluate one item or several.

        Args:
            data: the inputs of one item by name, or a list of them; None if they are given by keyword.
            **kwargs: inputs by keyword; with `data`, inputs that all items share.

        Returns:
            One result; for a list, one result per item in the same order.

        Raises:
            TimeoutError: the evaluation of the only item took longer than `timeout`.
            EvaluationError: see `BaseEvaluator.evaluate`; for a list, an `ItemsError` with the results of the other
                items, raised after all items were evaluated.
        """
        if data is None or isinstance(data, Mapping):
            return await super().evaluate(**{**kwargs, **(data or {})})
        return await evaluate_items(super(PresetEvaluator, self).evaluate(**{**kwargs, **item}) for item in data)

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        return self._combine(await self._evaluate_members(kwargs))

    async def _evaluate_members(self, inputs: Mapping[str, Any]) -> list[Outcome]:
        """Evaluate every metric; the failure of one metric does not stop the others."""
        if self._parallel:
            return list(await asyncio.gather(*(self._evaluate_member(member, inputs) for member in self._members)))
        return [await self._evaluate_member(member, inputs) for member in self._members]

    async def _evaluate_member(self, member: Member, inputs: Mapping[str, Any]) -> Outcome:
        try:
            return Outcome(member, await member.evaluator.evaluate(**self._inputs(member, inputs)), None)
        except Exception as error:  # noqa: BLE001 - one metric's trouble is not the others'
            return Outcome(member, None, error)

    def _inputs(self, member: Member, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs of a metric; computed metrics only accept the names in `EvalParam`."""
        if not member.evaluator.computes:
            return inputs
        return {name: value for name, value in inputs.items() if name in _NAMES}

    def _combine(self, outcomes: Sequence[Outcome], facts: Mapping[str, Any] | None = None) -> EvaluationResult:
        """Combine the outcomes to one result.

        Args:
            outcomes: one per metric.
            facts: further metadata of the result.

        Raises:
            EvaluationError: a metric that is not neutral could not be evaluated (the code of its error, or
                `parts_failed` if there are several).
        """
        parts = [outcome.part for outcome in outcomes]
        told = aggregate_explanation(parts)
        failed = [outcome for outcome in outcomes if outcome.part.is_missing]
        if failed:
            codes = {_error_code(outcome.error) for outcome in failed}
            raise EvaluationError(
                f"{self.name}: {told}",
                code=MISSING_INPUT if MISSING_INPUT in codes else codes.pop() if len(codes) == 1 else "parts_failed",
                context={"metrics": {outcome.member.name: outcome.data() for outcome in outcomes}},
            ) from failed[0].error
        score, passed = self._aggregate_score(parts), aggregate_success(parts)
        if self._threshold is not None:
            enough = score is not None and score >= self._threshold
            if not enough:
                found = "there is no score for" if score is None else f"the aggregate score {score:.4g} is below"
                told = f"{found} the threshold {self._threshold:.4g}. {told}"
            passed = enough and passed is not False
        if passed is None and any(member.asserts for member in self._members if not member.neutral):
            # A number must not hide a missing verdict.
            score = None
        elif score is None and passed is not None:
            score = float(passed)
        judges = {label for outcome in outcomes if (label := _judge_label(outcome)) is not None}
        return PresetResult(
            score=score,
            passed=passed,
            reasoning=told,
            metric_name=self.metric_name,
            metadata={
                **({"judge": judges.pop()} if len(judges) == 1 else {}),
                **(facts or {}),
                **self._result_metadata({outcome.member.name: outcome.data() for outcome in outcomes}),
            },
        )

    def _aggregate_score(self, results: Sequence[Part]) -> float | None:
        weights = {member.name: member.weight for member in self._members}
        if len(set(weights.values())) == 1:
            return aggregate_score(results)
        counted = [
            (weights[part.name], found)
            for part in results
            if part.score is not None and (found := quality(part.score, part.polarity)) is not None
        ]
        total = math.fsum(weight for weight, _ in counted)
        return min(1.0, math.fsum(weight * found for weight, found in counted) / total) if total else None

    def _result_metadata(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Return the metrics' results as metadata of the combined result. Subclasses may nest these results under a
        key."""
        return metrics


class TextEvaluator(PresetEvaluator):
    """Grades a text by several metrics; an empty text scores 0 without a model call."""

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        if not str(kwargs[EvalParam.ACTUAL_OUTPUT.value]).strip():
            return PresetResult(0.0, False, "the answer is empty", self.metric_name)
        return await super()._evaluate_impl(**kwargs)


def either(with_texts: BaseEvaluator, without_texts: BaseEvaluator) -> BaseEvaluator:
    """Return the evaluator of a metric in two variants: one for items with `retrieval_context`, one for items without.

    In a run, it is an error if the target does not report retrieved texts. In calls from Python, missing texts mean
    that nothing was retrieved.
    """
    texts = frozenset({EvalParam.RETRIEVAL_CONTEXT})
    first, second = combine_specs([with_texts.PARAM_SPEC]), combine_specs([without_texts.PARAM_SPEC])
    spec = ParamSpec(
        required=(first.required - texts) & second.required,
        optional=first.required | first.optional | second.required | second.optional,
        uses_context=first.uses_context or second.uses_context,
        uses_retrieval_context=True,
        known=texts,
    )

    async def grade(inputs: dict[str, Any]) -> EvaluationResult:
        if inputs.get("retrieval_context"):
            return await with_texts.evaluate(**inputs)
        return await without_texts.evaluate(**{**inputs, "retrieval_context": None})

    return Around(without_texts, grade, spec=spec)


def combine_specs(specs: Iterable[ParamSpec]) -> ParamSpec:
    """Return the combined inputs of several evaluators, each under its DeepEval name."""
    listed = list(specs)
    required = frozenset(_deepeval_name(param) for spec in listed for param in spec.required)
    optional = frozenset(_deepeval_name(param) for spec in listed for param in spec.optional)
    return ParamSpec(
        required=required,
        optional=optional - required,
        uses_context=any(spec.uses_context for spec in listed),
        uses_retrieval_context=any(spec.uses_retrieval_context for spec in listed),
        known=frozenset[EvalParam]().union(*(spec.known for spec in listed)),
    )


def _deepeval_name(param: EvalParam) -> EvalParam:
    other = OTHER_NAME.get(param)
    return other if other in DEEPEVAL_PARAMS else param


def _judge_label(outcome: Outcome) -> str | None:
    label = None if outcome.result is None else outcome.result.metadata.get("judge")
    return label if isinstance(label, str) else None


def _error_text(error: Exception | None) -> str:
    if isinstance(error, EvaluationError):
        return error.message or describe(error)
    return "it gave no result" if error is None else str(error) or describe(error)


def _error_code(error: Exception | None) -> str:
    if isinstance(error, EvaluationError):
        return error.code
    return "timeout" if isinstance(error, TimeoutError) else "evaluator_error"
