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
    BaseEvaluator,
    DeterministicEvaluator,
    EvaluationResult,
    RetryConfig,
    describe,
)
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import DEEPEVAL_PARAMS, OTHER_NAME, EvalParam, ParamSpec
from holodeck_action.metrics.result import check_threshold
from holodeck_action.record.evaluation import MISSING_INPUT, Polarity

_NAMES = frozenset(param.value for param in EvalParam)
_INHERENT = frozenset(("criteria", "auto_generated_steps", "strict_mode", "error"))
"""Metadata of a part that says nothing about the answer, or what its explanation says."""


class Member(Struct, frozen=True):
    """One metric of a set.

    Attributes:
        name: its name in the result.
        evaluator: what grades; its result has the verdict.
        neutral: shown only: it takes no part in success and score, and the others count even if it fails.
        weight: its share in the aggregate score.
        asserts: whether it is to have a verdict.
        of_conversation: whether it looks at the tool calls of the whole conversation where a trajectory is expected.
    """

    name: str
    evaluator: BaseEvaluator
    neutral: bool = False
    weight: float = 1.0
    asserts: bool = True
    of_conversation: bool = False


class Outcome(Struct, frozen=True):
    """What came of a member: a result, or the error that kept it from one."""

    member: Member
    result: EvaluationResult | None
    error: Exception | None

    @property
    def part(self) -> Part:
        """The member as a part of the whole."""
        name, result = self.member.name, self.result
        if result is None:
            explanation = _words(self.error)
            polarity: Polarity = "neutral" if self.member.neutral else "maximize"
            return Part(name, None, None, polarity, None, explanation)
        score = result.score
        number = float(score) if isinstance(score, bool | int | float) else None
        passed = bool(score) if isinstance(score, bool) and result.passed is None else result.passed
        # What has neither number nor verdict, such as a category, is an answer, not a lack of one.
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
        """Return it as JSON values, as records keep it."""
        if self.result is None:
            failed = {"score": None, "passed": None, "explanation": _words(self.error), "error": _code(self.error)}
            # What the judges of a panel said that were too few.
            verdicts = self.error.context.get("verdicts") if isinstance(self.error, EvaluationError) else None
            return failed if verdicts is None else failed | {"verdicts": verdicts}
        result = self.result
        told = {name: value for name, value in result.metadata.items() if name not in _INHERENT}
        told |= {
            "score": result.score,
            "polarity": "neutral" if self.member.neutral else result.polarity,
            "threshold": result.threshold,
            "passed": result.passed,
            "explanation": result.reasoning,
        }
        return told if result.raw_score is None else told | {"raw_score": result.raw_score}


class PresetResult(EvaluationResult):
    """The result of several metrics; also read under the names `aggregate_score`, `_success` and `_explanation`."""

    __slots__ = ()

    def _items(self) -> dict[str, Any]:
        return super()._items() | {name: getattr(self, field) for name, field in _AGGREGATES.items()}


_AGGREGATES = {"aggregate_score": "score", "aggregate_success": "passed", "aggregate_explanation": "reasoning"}


class PresetEvaluator(BaseEvaluator):
    """Grades an answer by several metrics at once.

    The score is the mean of their qualities (score, or 1 − score where low is good), weighted if weights are given;
    the verdict is that all of them pass. A metric that could not be evaluated makes the whole one that could not: what
    the others found stands in the error's context, and no score is made of a part of them.
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
        """Configure; nothing is asked.

        Args:
            name: the evaluator's name.
            members: the metrics; their evaluators retry by themselves.
            parallel: whether they are evaluated at the same time, else one after the other.
            threshold: lowest aggregate score with which the whole may pass, besides that all of them pass.
            timeout: seconds one evaluation may take, all metrics together.

        Raises:
            ValueError: no metrics, two of one name, weights below 0 or none above, or a threshold outside 0..1.
        """
        super().__init__(timeout=timeout, retry_config=RetryConfig(max_retries=0))
        names = [member.name for member in members]
        if not members:
            raise ValueError(f"{name} has no metrics")
        if len(set(names)) < len(names):
            raise ValueError(f"{name}: the names of its metrics must differ: {', '.join(names)}")
        weights = [member.weight for member in members]
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
            raise ValueError(f"{name}: weights must not be below 0, and one must be above")
        self._name = name
        self._members = tuple(members)
        self._parallel = parallel
        self._threshold = check_threshold(threshold)
        self.PARAM_SPEC = united(member.evaluator.PARAM_SPEC for member in members)

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
        """Lowest aggregate score with which the whole may pass; None without one."""
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
            data: the inputs of one item by name, or a list of them; None when they are given by keyword.
            **kwargs: inputs by keyword; with `data`, those that all items share.

        Returns:
            One result, or for a list one per item in its order.

        Raises:
            TimeoutError: an item took longer than `timeout`.
            EvaluationError: see `BaseEvaluator.evaluate`; for a list, the error of the first item in its order that
                has one, once all are done.
        """
        if data is None or isinstance(data, Mapping):
            return await super().evaluate(**{**kwargs, **(data or {})})
        found = await asyncio.gather(
            *(super(PresetEvaluator, self).evaluate(**{**kwargs, **item}) for item in data), return_exceptions=True
        )
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in found if isinstance(outcome, EvaluationResult)]

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        return self._whole(await self._outcomes(kwargs))

    async def _outcomes(self, given: Mapping[str, Any]) -> list[Outcome]:
        """Evaluate every metric; one that fails keeps none of the others from being evaluated."""
        if self._parallel:
            return list(await asyncio.gather(*(self._outcome(member, given) for member in self._members)))
        return [await self._outcome(member, given) for member in self._members]

    async def _outcome(self, member: Member, given: Mapping[str, Any]) -> Outcome:
        try:
            return Outcome(member, await member.evaluator.evaluate(**self._inputs(member, given)), None)
        except Exception as error:  # noqa: BLE001 - one metric's trouble is not the others'
            return Outcome(member, None, error)

    def _inputs(self, member: Member, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a metric is given: one that computes knows the names in `EvalParam` alone."""
        if not isinstance(member.evaluator, DeterministicEvaluator):
            return given
        return {name: value for name, value in given.items() if name in _NAMES}

    def _whole(self, outcomes: Sequence[Outcome], facts: Mapping[str, Any] | None = None) -> EvaluationResult:
        """Make one result of all.

        Args:
            outcomes: one per metric.
            facts: further metadata.

        Raises:
            EvaluationError: a metric that counts could not be evaluated (its code, or `parts_failed` for several).
        """
        parts = [outcome.part for outcome in outcomes]
        told = aggregate_explanation(parts)
        failed = [outcome for outcome in outcomes if outcome.part.missing]
        if failed:
            codes = {_code(outcome.error) for outcome in failed}
            raise EvaluationError(
                f"{self.name}: {told}",
                code=MISSING_INPUT if MISSING_INPUT in codes else codes.pop() if len(codes) == 1 else "parts_failed",
                context={"metrics": {outcome.member.name: outcome.data() for outcome in outcomes}},
            ) from failed[0].error
        score, passed = self._score(parts), aggregate_success(parts)
        if self._threshold is not None:
            enough = score is not None and score >= self._threshold
            if not enough:
                figure = "there is no score" if score is None else f"the whole, {score:.4g},"
                told = f"{figure} is below its threshold {self._threshold:.4g}. {told}"
            passed = enough and passed is not False
        if passed is None and any(member.asserts for member in self._members if not member.neutral):
            # Nobody shall take a number for a verdict that there is not.
            score = None
        elif score is None and passed is not None:
            score = float(passed)
        judges = {label for outcome in outcomes if (label := _judge(outcome)) is not None}
        return PresetResult(
            score=score,
            passed=passed,
            reasoning=told,
            metric_name=self.metric_name,
            metadata={
                **({"judge": judges.pop()} if len(judges) == 1 else {}),
                **(facts or {}),
                **self._shown({outcome.member.name: outcome.data() for outcome in outcomes}),
            },
        )

    def _score(self, parts: Sequence[Part]) -> float | None:
        weights = {member.name: member.weight for member in self._members}
        if len(set(weights.values())) == 1:
            return aggregate_score(parts)
        counted = [
            (weights[part.name], found)
            for part in parts
            if part.score is not None and (found := quality(part.score, part.polarity)) is not None
        ]
        total = math.fsum(weight for weight, _ in counted)
        return min(1.0, math.fsum(weight * found for weight, found in counted) / total) if total else None

    def _shown(self, metrics: dict[str, Any]) -> dict[str, Any]:
        """Return the results of the metrics as metadata; names that are ours are beside the other metadata."""
        return metrics


class TextEvaluator(PresetEvaluator):
    """A text by several metrics; an empty one gets a 0, and no model is called: no statement of it could be wrong."""

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        if not str(kwargs[EvalParam.ACTUAL_OUTPUT.value]).strip():
            return PresetResult(0.0, False, "the answer is empty", self.metric_name)
        return await super()._evaluate_impl(**kwargs)


class EitherEvaluator(BaseEvaluator):
    """One metric in two forms: with retrieved texts where there are any, without them where there are none.

    In a run it must be known which; whoever evaluates by it directly and gives no texts has none.
    """

    def __init__(self, with_texts: BaseEvaluator, without: BaseEvaluator) -> None:
        """Configure.

        Args:
            with_texts: the form that needs `retrieval_context`.
            without: the form that does not.
        """
        super().__init__(timeout=None, retry_config=RetryConfig(max_retries=0))
        self._with_texts = with_texts
        self._without = without
        texts = frozenset({EvalParam.RETRIEVAL_CONTEXT})
        first, second = united([with_texts.PARAM_SPEC]), united([without.PARAM_SPEC])
        self.PARAM_SPEC = ParamSpec(
            required=(first.required - texts) & second.required,
            optional=first.required | first.optional | second.required | second.optional,
            uses_context=first.uses_context or second.uses_context,
            uses_retrieval_context=True,
            known=texts,
        )

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._without.name

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        texts = kwargs.get("retrieval_context")
        if texts:
            return await self._with_texts.evaluate(**kwargs)
        return await self._without.evaluate(**{**kwargs, "retrieval_context": None})


def united(specs: Iterable[ParamSpec]) -> ParamSpec:
    """Return what several evaluators need together, each input under its DeepEval name."""
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


def _judge(outcome: Outcome) -> str | None:
    label = None if outcome.result is None else outcome.result.metadata.get("judge")
    return label if isinstance(label, str) else None


def _words(error: Exception | None) -> str:
    if isinstance(error, EvaluationError):
        return error.message or describe(error)
    return "nothing came of it" if error is None else str(error) or describe(error)


def _code(error: Exception | None) -> str:
    if isinstance(error, EvaluationError):
        return error.code
    return "timeout" if isinstance(error, TimeoutError) else "evaluator_error"
