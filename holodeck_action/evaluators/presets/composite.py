"""Any metrics as one (evaluators reference §8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.evaluators.base import DeterministicEvaluator, EvaluationResult
from holodeck_action.evaluators.presets.preset import Member, PresetEvaluator
from holodeck_action.evaluators.response_path import ResponsePathError, extract

CONVERSATION = "conversation_invocations"
"""Name under which the tool calls of the whole conversation are given beside those of the turn."""


class CompositeEvaluator(PresetEvaluator):
    """Any metrics as one: the metadata holds in `metrics` what each of them found, by name."""

    def _inputs(self, member: Member, given: Mapping[str, Any]) -> Mapping[str, Any]:
        calls = given.get(CONVERSATION)
        known = {name: value for name, value in super()._inputs(member, given).items() if name != CONVERSATION}
        # A trajectory is expected of the whole conversation.
        if member.of_conversation and calls is not None and given.get("expected_trajectory") is not None:
            known["tool_invocations"] = calls
        return known

    def _shown(self, metrics: dict[str, Any]) -> dict[str, Any]:
        return {"metrics": metrics}


class PathEvaluator(DeterministicEvaluator):
    """A computed metric on a part of a JSON answer; without that part the score is 0."""

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

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._evaluator.name

    @property
    def metric_name(self) -> str:
        """The key under which results hold the score."""
        return self._evaluator.metric_name

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Score the part; see the metric for the parameters and for what is raised."""
        try:
            part = extract(kwargs["response"], self._path)
        except ResponsePathError as error:
            told = f"response_path {self._path}: {error.message}"
            return EvaluationResult(score=0.0, passed=False, reasoning=told, metric_name=self.metric_name)
        return self._evaluator.compute(**{**kwargs, "response": part})
