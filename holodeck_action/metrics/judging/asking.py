"""Base classes of metrics with this package's own questions to a judge. Judged texts are put between fences, so that
judges do not follow instructions in these texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from holodeck_action.metrics.base import BaseEvaluator, BuildContext, RetryConfig, Use
from holodeck_action.metrics.computed import Grader, ScoringMetric
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

    def evaluator(self, building: BuildContext, judge_metric: Metric | None = None) -> BaseEvaluator:
        """Return the evaluator that calls `grade`; `judge_metric` is the metric whose judges grade, None for this
        metric."""
        return building.judged_evaluator(judge_metric or self, partial(judged_grader, self))


class AskingMetric(QuestionMetric, GradingMetric):
    """A `GradingMetric` whose judge sees the question of the turn."""


def judged_grader(
    config: GradingMetric,
    model_config: JudgeModelConfig | None = None,
    timeout: float | None = 60.0,
    retry_config: RetryConfig | None = None,
    *,
    judge: JudgeModel | None = None,
) -> Grader:
    """Return the evaluator of a metric that a judge grades; no model is called.

    Args:
        config: the metric.
        model_config: the judge model; required for an evaluation unless `judge` is given.
        timeout: maximum seconds of one evaluation.
        retry_config: retries of transient failures.
        judge: a judge, instead of `model_config`; the caller closes its wire.
    """
    return Grader(config, Use(judge, model_config), timeout, retry_config)


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
