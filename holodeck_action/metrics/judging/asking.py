"""Base classes of metrics with this package's own questions to a judge. Judged texts are put between fences, so that
judges do not follow instructions in these texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, final

from pydantic import BaseModel, ConfigDict

from holodeck_action.metrics.base import BaseEvaluator, BuildContext, EvaluationResult, RetryConfig, Use
from holodeck_action.metrics.computed import MetricEvaluator, ScoringMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.model_judged import ModelJudgedEvaluator
from holodeck_action.suite.model.metric_base import JudgedMetric, Metric, QuestionMetric
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeAnswer, JudgeModel
    from holodeck_action.metrics.judging.judge_model import JudgeModelConfig

_SHORTEST_FENCE = 8
_RUN = lazy_pattern("~+")
_FENCED = lazy_pattern(rf"^(~{{{_SHORTEST_FENCE},}})\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
"""Matches a text between fences as `fence_texts` writes them."""


class YesNo(BaseModel):
    """A verdict with its reason."""

    model_config = ConfigDict(defer_build=True)

    reason: str
    verdict: Literal["yes", "no"]


Verdict = TypeVar("Verdict", bound=BaseModel)


class GradingMetric(JudgedMetric, ScoringMetric):
    """A metric that asks a judge its own question: a subclass declares `PARAM_SPEC` and implements `grade`."""

    async def grade(self, inputs: Mapping[str, Any], use: Use) -> EvaluationResult:
        """Ask the judge, and return the result of the metric.

        Args:
            inputs: inputs under the names of `PARAM_SPEC`.
            use: has the judge.

        Raises:
            ModelCallError: there is no answer.
            EvaluationError: the item cannot be scored.
        """
        raise NotImplementedError

    def evaluator(self, building: BuildContext, judge_metric: Metric | None = None) -> BaseEvaluator:
        """Return the evaluator that calls `grade`; `judge_metric` is the metric whose judges grade, None for this
        metric."""
        return building.judged_evaluator(judge_metric or self, partial(AskingEvaluator, self))


class AskingMetric(QuestionMetric, GradingMetric):
    """A `GradingMetric` whose judge sees the question of the turn."""


class AskingEvaluator(ModelJudgedEvaluator, MetricEvaluator[GradingMetric]):
    """The evaluator of a `GradingMetric`."""

    def __init__(
        self,
        config: GradingMetric,
        model_config: JudgeModelConfig | None = None,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        *,
        judge: JudgeModel | None = None,
    ) -> None:
        """Create the evaluator; no model is called.

        Args:
            config: the metric.
            model_config: the judge model; required unless `judge` is given.
            timeout: maximum seconds of one evaluation.
            retry_config: retries of transient failures.
            judge: a judge, instead of `model_config`; the caller closes its wire.
        """
        super().__init__(model_config, timeout, retry_config, judge)
        self.config = config
        self.PARAM_SPEC = config.spec

    def is_transient(self, error: Exception) -> bool:
        """Return whether a retry may help: the failure of the provider may be temporary."""
        from holodeck_action.llm.errors import ModelCallError
        from holodeck_action.metrics.judging.own_judge import TRANSIENT

        cause = error.__cause__
        return (isinstance(cause, ModelCallError) and cause.code in TRANSIENT) or super().is_transient(error)

    @final
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        from holodeck_action.metrics.judging.own_judge import provide_judge

        self.check_judge()
        async with provide_judge(self._judge, self._plan) as judge:
            return await self._grade(judge, kwargs)

    async def _grade(self, judge: JudgeModel, inputs: Mapping[str, Any]) -> EvaluationResult:
        from holodeck_action.llm.errors import ModelCallError

        try:
            return await self.config.grade(inputs, Use(judge))
        except ModelCallError as error:
            context = {"cause": error.code, **error.context}
            raise EvaluationError(error.message, code="judge_failed", context=context) from error


async def ask_verdict(
    judge: JudgeModel, prompt: str, schema: type[Verdict], *, criteria: Sequence[str] = ()
) -> Verdict:
    """Ask a judge for a verdict that fits a schema. After an invalid answer, ask once more and include the reason.

    Args:
        judge: the model to call.
        prompt: the question, in which untrusted texts are fenced.
        schema: model class of the verdict.
        criteria: texts of the suite in the question that are not fenced; the judge may quote them.

    Raises:
        ModelCallError: there is no answer.
        EvaluationError: two answers were invalid (code `bad_verdict`).
    """
    from holodeck_action.metrics.judging.copied import Question
    from holodeck_action.metrics.judging.verdicts import read_verdict, request_verdict, schema_of

    filled = (*(text for _, text in _FENCED.findall(prompt)), *criteria)

    async def ask(question: str) -> JudgeAnswer:
        return await judge.ask(question, schema=schema_of(schema), schema_name=schema.__name__)

    read = partial(read_verdict, schema=schema)
    return (await request_verdict(judge.label, Question(prompt, filled), ask, read))[1]


def fence_texts(texts: Mapping[str, str]) -> str:
    """Return texts under their titles, each between fences that do not occur in any of them.

    A fence is a run of tildes longer than any run in the texts. No random number is needed, so that equal texts give
    equal prompts.

    Args:
        texts: the texts by their title.
    """
    longest = max((len(run) for text in texts.values() for run in _RUN.findall(text)), default=0)
    fence = "~" * max(_SHORTEST_FENCE, longest + 1)
    return "\n\n".join(f"{title}:\n{fence}\n{text}\n{fence}" for title, text in texts.items())
