"""Evaluators that a model grades: its configuration, or a judge on a shared wire, and an error without either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from holodeck_action.metrics.base import BaseEvaluator, RetryConfig
from holodeck_action.metrics.errors import EvaluationError

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeModel
    from holodeck_action.llm.providers import ModelPlan
    from holodeck_action.metrics.judging.judge_model import JudgeModelConfig


@runtime_checkable
class FollowsSteps(Protocol):
    """An evaluator whose judge follows steps, which it may have written itself."""

    @property
    def steps(self) -> tuple[str, ...] | None:
        """The steps; None as long as the judge has not written them."""
        ...

    def follow(self, steps: Sequence[str]) -> None:
        """Take up steps that the judge wrote before."""
        ...


class ModelJudgedEvaluator(BaseEvaluator):
    """An evaluator that asks one model; no model is the default."""

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
        """The model that grades; None without one, and if a judge was given."""
        return self._model_config if self._judge is None else None

    @property
    def has_judge(self) -> bool:
        """Whether it has a judge on a shared wire, which no other model replaces."""
        return self._judge is not None

    def graded_by(self, model_config: JudgeModelConfig, timeout: float | None) -> Self:
        """Return a copy that another model grades, `timeout` seconds at most."""
        found = copy(self)
        found._model_config = model_config
        found.timeout = timeout
        return found

    def check_judge(self) -> None:
        """Refuse an evaluation for which nobody would be asked.

        Raises:
            EvaluationError: there is neither a model nor a judge (code `no_judge`).
        """
        if self._judge is None:
            self._configured()

    def _plan(self, environ: Mapping[str, str]) -> ModelPlan:
        """Return how the model is reached.

        Raises:
            EvaluationError: there is none (code `no_judge`).
            ModelConfigError: see `JudgeModelConfig.plan`.
        """
        return self._configured().plan(environ)

    def _configured(self) -> JudgeModelConfig:
        if self._model_config is None:
            raise EvaluationError(
                f"{self.name} has no model: give it a model_config, such as "
                "DeepEvalModelConfig(provider=ProviderEnum.OPENAI, model_name='gpt-4o')",
                code="no_judge",
            )
        return self._model_config
