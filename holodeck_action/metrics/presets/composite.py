"""Any metrics as one (evaluators reference §8)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.metrics.base import BaseEvaluator, DeterministicEvaluator, EvaluationResult, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import CONVERSATION, UNKNOWN
from holodeck_action.metrics.presets.preset import Member, PresetEvaluator
from holodeck_action.metrics.response_path import ResponsePathError, extract
from holodeck_action.suite.metrics import AnyMetric

if TYPE_CHECKING:
    from holodeck_action.scoring.reuse import Reuse


class CompositeEvaluator(PresetEvaluator):
    """Any metrics as one: the metadata holds in `metrics` what each of them found, by name."""

    def _inputs(self, member: Member, given: Mapping[str, Any]) -> Mapping[str, Any]:
        calls = given.get(CONVERSATION)
        known = {name: value for name, value in super()._inputs(member, given).items() if name != CONVERSATION}
        # A trajectory is expected of the whole conversation.
        if member.of_conversation and calls is not None and given.get("expected_trajectory") is not None:
            known["tool_invocations"] = None if calls == UNKNOWN else calls
        return known

    def knows(self, given: Mapping[str, Any], trial: int) -> bool:
        """Tell whether earlier runs gave all the verdicts for which judges would be asked, in a run with a cache."""
        parts = [member for member in self.members if isinstance(member.evaluator, ReusingEvaluator)]
        return bool(parts) and all(
            isinstance(part.evaluator, ReusingEvaluator) and part.evaluator.knows(self._inputs(part, given), trial)
            for part in parts
        )

    def _shown(self, metrics: dict[str, Any]) -> dict[str, Any]:
        return {"metrics": metrics}


class _InPlaceOf(BaseEvaluator):
    """Goes by the name of the evaluator that it stands before."""

    _evaluator: BaseEvaluator

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._evaluator.name

    @property
    def metric_name(self) -> str:
        """The key under which results hold the score."""
        return self._evaluator.metric_name


class ReusingEvaluator(_InPlaceOf):
    """A judged metric of a composite, which takes the verdict of an earlier run where nothing has changed."""

    def __init__(self, config: AnyMetric, evaluator: BaseEvaluator, reuse: Reuse) -> None:
        """Configure.

        Args:
            config: the metric.
            evaluator: grades where nothing is kept; it has its own timeout and retries.
            reuse: the verdicts.
        """
        super().__init__(timeout=None, retry_config=RetryConfig(max_retries=0))
        self._config = config
        self._evaluator = evaluator
        self._reuse = reuse
        self.PARAM_SPEC = evaluator.PARAM_SPEC

    def knows(self, given: Mapping[str, Any], trial: int) -> bool:
        """Tell whether there is a verdict on these inputs."""
        try:
            inputs = self._evaluator.resolve(given)
        except EvaluationError:
            return False
        return self._reuse.find(self._config, self._evaluator, inputs, trial) is not None

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        inputs = self._evaluator.resolve(kwargs)
        context = CALL.get(CallContext("judge", 0, None, Meter()))
        kept = self._reuse.find(self._config, self._evaluator, inputs, context.repeat)
        if kept is not None:
            context.meter.add_part(kept.usage, kept.duration_ms)
            return kept.result
        started, meter = time.perf_counter(), Meter()
        token = CALL.set(replace(context, meter=meter))
        try:
            result = await self._evaluator.evaluate(**kwargs)
        finally:
            CALL.reset(token)
            context.meter.add_part(meter.usage())
        took = 1000 * (time.perf_counter() - started)
        self._reuse.keep(self._config, self._evaluator, inputs, context.repeat, result, took, meter.usage())
        return result


class PathEvaluator(_InPlaceOf, DeterministicEvaluator):
    """A computed metric on a part of a JSON answer; without that part the score is 0."""

    _evaluator: DeterministicEvaluator

    def __init__(self, evaluator: DeterministicEvaluator, path: str) -> None:
        """Configure.

        Args:
            evaluator: the metric.
            path: where the part stands, see `response_path`.
        """
        super().__init__(timeout=evaluator.timeout, retry_config=evaluator.retry_config)
        self._evaluator = evaluator
        self._path = path
        self.PARAM_SPEC = evaluator.PARAM_SPEC

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Score the part; see the metric for the parameters and for what is raised."""
        try:
            part = extract(kwargs["response"], self._path)
        except ResponsePathError as error:
            told = f"response_path {self._path}: {error.message}"
            return EvaluationResult(score=0.0, passed=False, reasoning=told, metric_name=self.metric_name)
        return self._evaluator.compute(**{**kwargs, "response": part})
