"""Base class of evaluators with one judge. The evaluator creates the judge from a model configuration, or receives a
judge that shares its connections with other evaluators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from holodeck_action.metrics.base import BaseEvaluator, RetryConfig
from holodeck_action.metrics.judging.own_judge import require_model

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeModel
    from holodeck_action.llm.providers import ModelPlan
    from holodeck_action.metrics.judging.judge_model import JudgeModelConfig


@runtime_checkable
class FollowsSteps(Protocol):
    """An evaluator whose judge follows evaluation steps, which the settings contain or the judge writes."""

    @property
    def steps(self) -> tuple[str, ...] | None:
        """The steps; None until the judge has written them."""
        ...

    def use_steps(self, steps: Sequence[str]) -> None:
        """Use steps that the judge wrote earlier."""
        ...


class ModelJudgedEvaluator(BaseEvaluator):
    """An evaluator that calls one model; without a model it fails, unless a subclass has a default."""

    def __init__(
        self,
        model_config: JudgeModelConfig | None,
        timeout: float | None,
        retry_config: RetryConfig | None,
        judge: JudgeModel | None,
    ) -> None:
        super().__init__(timeout=timeout, retry_config=retry_config)
        self._model_config = model_config
        self._judge = judge

    @property
    def model_config(self) -> JudgeModelConfig | None:
        """The configuration of the judge model; None if there is no judge, or if the evaluator received a judge."""
        return self._model_config if self._judge is None else None

    @property
    def has_judge(self) -> bool:
        """Whether the evaluator was given a judge, which must not be replaced, instead of a model configuration."""
        return self._judge is not None

    def with_model(self, model_config: JudgeModelConfig, timeout: float | None) -> Self:
        """Return a copy that uses another model and timeout."""
        found = copy(self)
        found._model_config = model_config
        found.timeout = timeout
        return found

    def check_judge(self) -> None:
        """Check that there is a judge.

        Raises:
            EvaluationError: neither a judge model nor a judge was given (code `no_judge`).
        """
        if self._judge is None:
            self._require_model_config()

    def _plan(self, environ: Mapping[str, str]) -> ModelPlan:
        """Return the resolved judge model.

        Raises:
            EvaluationError: no judge model is configured (code `no_judge`).
            ModelConfigError: see `JudgeModelConfig.plan`.
        """
        return self._require_model_config().plan(environ)

    def _require_model_config(self) -> JudgeModelConfig:
        return require_model(self.name, self._model_config)
