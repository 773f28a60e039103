"""Questions of our own to a judge: one of a few verdicts, about texts that cannot pass for instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, final

from pydantic import BaseModel, ConfigDict

from holodeck_action.metrics.base import BaseEvaluator, Building, EvaluationResult, RetryConfig
from holodeck_action.metrics.computed import OfMetric, ScoringMetric
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.model_judged import ModelJudgedEvaluator
from holodeck_action.suite.model.metric_base import JudgedMetric, Metric

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeAnswer, JudgeModel
    from holodeck_action.metrics.judging.judge_model import JudgeModelConfig

_SHORTEST_FENCE = 8
_RUN = re.compile("~+")


class YesNo(BaseModel):
    """A verdict with its reason."""

    model_config = ConfigDict(defer_build=True)

    reason: str
    verdict: Literal["yes", "no"]


Verdict = TypeVar("Verdict", bound=BaseModel)


class AskingMetric(JudgedMetric, ScoringMetric):
    """A metric that asks a judge a question of ours: a subclass declares `PARAM_SPEC` and implements `judged`."""

    async def judged(self, judge: JudgeModel, given: Mapping[str, Any]) -> EvaluationResult:
        """Ask the judge, and score.

        Args:
            judge: who is asked.
            given: the inputs under the names of `PARAM_SPEC`.

        Raises:
            ModelCallError: no answer came.
            EvaluationError: it cannot be scored.
        """
        raise NotImplementedError

    def evaluator(self, building: Building, by: Metric | None = None) -> BaseEvaluator:
        """Return the evaluator that calls `judged`; `by` is the metric whose judges grade, this one if absent."""
        return building.asking(by or self, partial(AskingEvaluator, self))


class AskingEvaluator(ModelJudgedEvaluator, OfMetric[AskingMetric]):
    """Scores by an `AskingMetric`."""

    def __init__(
        self,
        config: AskingMetric,
        model_config: JudgeModelConfig | None = None,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        *,
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure; nothing is asked.

        Args:
            config: the metric.
            model_config: the model that grades; it is an error if neither it nor `judge` is given.
            timeout: seconds one evaluation may take.
            retry_config: retries of transient failures.
            judge: who grades, on a wire that somebody else holds; instead of `model_config`.
        """
        super().__init__(model_config, timeout, retry_config, judge)
        self.config = config
        self.PARAM_SPEC = config.spec

    def is_transient(self, error: Exception) -> bool:
        """Tell whether trying again may help: what the provider may get over."""
        from holodeck_action.llm.errors import ModelCallError
        from holodeck_action.metrics.judging.own_judge import TRANSIENT

        cause = error.__cause__
        return (isinstance(cause, ModelCallError) and cause.code in TRANSIENT) or super().is_transient(error)

    @final
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        from holodeck_action.metrics.judging.own_judge import own_judge

        self.check_judge()
        async with own_judge(self._judge, self._plan) as judge:
            return await self._asked(judge, kwargs)

    async def _asked(self, judge: JudgeModel, given: Mapping[str, Any]) -> EvaluationResult:
        from holodeck_action.llm.errors import ModelCallError

        try:
            return await self.config.judged(judge, given)
        except ModelCallError as error:
            context = {"cause": error.code, **error.context}
            raise EvaluationError(error.message, code="judge_failed", context=context) from error


async def ask_verdict(judge: JudgeModel, prompt: str, schema: type[Verdict]) -> Verdict:
    """Ask for one of the verdicts that a schema offers; an answer that is none is requested once more, with the reason.

    Args:
        judge: who is asked.
        prompt: what is asked; texts of others stand in it between fences.
        schema: the answer, such as one with a field `verdict` that is one of a few words.

    Raises:
        ModelCallError: no answer came.
        EvaluationError: two answers were no verdicts (code `bad_verdict`).
    """
    from holodeck_action.metrics.judging.verdicts import asked_for_verdict, read_verdict, schema_of

    async def ask(asked: str) -> JudgeAnswer:
        return await judge.ask(asked, schema=schema_of(schema), schema_name=schema.__name__)

    return (await asked_for_verdict(judge.label, prompt, ask, partial(read_verdict, schema=schema)))[1]


def fenced(texts: Mapping[str, str]) -> str:
    """Return texts under their titles, each between fences that none of them can hold.

    The fence is a run of tildes longer than any run of them in the texts, so that it needs no chance and the same
    texts always give the same prompt.

    Args:
        texts: by title.
    """
    longest = max((len(run) for text in texts.values() for run in _RUN.findall(text)), default=0)
    fence = "~" * max(_SHORTEST_FENCE, longest + 1)
    return "\n\n".join(f"{title}:\n{fence}\n{text}\n{fence}" for title, text in texts.items())
