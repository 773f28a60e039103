"""Panels of several judges, which grade an answer by one metric; their verdicts are combined."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, final

from msgspec import Struct, structs

from holodeck_action.llm.calls import judge_context, use_context
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import Deadline, TimeLimit, stop_during_calls
from holodeck_action.llm.spans import Span, SpanScope, span
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult, RetryConfig, describe
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.voting import JudgeVerdict, agreement_share, combine, explain_vote, score_spread
from holodeck_action.suite.model.judging import Aggregation
from holodeck_action.text.plain import cut

_OF_THE_RUN = frozenset(("budget_exhausted", "price_unknown"))
"""Error codes of model calls. Such an error affects every judge, so fallbacks are not called."""
_OF_THE_INPUT = frozenset(
    ("missing_input", "ambiguous_input", "invalid_input", "unknown_parameter", "not_installed", "no_judge")
)
"""Codes of evaluation errors. Such an error affects every judge, so fallbacks are not called."""
_SHOWN = 300


class PanelJudge(Struct, frozen=True):
    """A judge of a panel with its evaluator; `sample` distinguishes judges with the same model, which receive the same
    questions.
    """

    label: str
    evaluator: BaseEvaluator
    sample: int = 0


Candidates = tuple[PanelJudge, ...]
"""A judge of a panel, followed by its fallbacks in order."""


class PanelEvaluator(BaseEvaluator):
    """Grades by one metric with several judges, and combines their verdicts.

    If a judge gives no verdict (its calls fail after all retries, it refuses, or its answer is invalid), its fallbacks
    are called one after the other; verdicts of fallbacks are marked. The timeout applies to the whole panel: the
    remaining time is divided equally between an attempt and the attempts that may follow it.

    The metadata contains `panel`: `aggregation`, `verdicts` (see `voting.JudgeVerdict`), `spread` of the scores,
    `agreement` (proportion of judges that agree with the panel) and `fallback_share` (proportion of verdicts from
    fallbacks).
    """

    def __init__(
        self,
        judges: Sequence[Candidates],
        *,
        aggregation: Aggregation = "majority_vote",
        min_successful: int = 1,
        max_concurrent: int | None = None,
        timeout: float | None = 60.0,
    ) -> None:
        """Create the evaluator; no model is called.

        Args:
            judges: the judges with their fallbacks; all evaluators have equal settings and no timeouts.
            aggregation: how the verdicts are combined.
            min_successful: minimum number of verdicts, without which the evaluation fails.
            max_concurrent: maximum number of concurrent judges; None if all may be called concurrently.
            timeout: maximum seconds of one evaluation; None if there is no limit.

        Raises:
            ValueError: there is no judge, or `min_successful` exceeds the number of judges.
        """
        # Each attempt has its own limit; together they stay within the timeout.
        super().__init__(timeout=None, retry_config=RetryConfig(max_retries=0))
        if not judges or not all(judges):
            raise ValueError("a panel needs at least one judge")
        if not 1 <= min_successful <= len(judges):
            raise ValueError(f"min_successful must be 1 to {len(judges)}, the number of judges, not {min_successful}")
        if max_concurrent is not None and max_concurrent < 1:
            raise ValueError(f"max_concurrent must be at least 1, not {max_concurrent}")
        self._judges = tuple(judges)
        self._aggregation = aggregation
        self._min_successful = min_successful
        self._at_once = min(max_concurrent or len(judges), len(judges))
        self._limit = timeout
        self._metric = judges[0][0].evaluator
        self.PARAM_SPEC = self._metric.PARAM_SPEC

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._metric.name

    @property
    def metric_name(self) -> str:
        """The key of the score in results."""
        return self._metric.metric_name

    @property
    def version(self) -> str:
        """Version of the judges' evaluators."""
        return self._metric.version

    @final
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        end = None if self._limit is None else Deadline(self._limit, asyncio.get_running_loop().time)
        gate = asyncio.Semaphore(self._at_once)
        with stop_during_calls(end):
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        self._ask_judge(judge, math.ceil((len(self._judges) - at) / self._at_once), gate, end, kwargs)
                    )
                    for at, judge in enumerate(self._judges)
                ]
        found = [task.result() for task in tasks]
        for outcome in found:
            if isinstance(outcome, EvaluationError):
                raise outcome
        return self._result([outcome for outcome in found if isinstance(outcome, _JudgeResult)])

    async def _ask_judge(
        self,
        candidates: Candidates,
        max_rounds: int,
        gate: asyncio.Semaphore,
        deadline: Deadline | None,
        inputs: dict[str, Any],
    ) -> _JudgeResult | EvaluationError:
        """Ask a judge, then its fallbacks, until one gives a verdict; return the error if every judge would get it."""
        async with gate:
            failures: list[tuple[PanelJudge, Exception]] = []
            all_needed = self._min_successful == len(self._judges)
            for at, judge in enumerate(candidates):
                required = all_needed and at + 1 == len(candidates)
                limit = None if deadline is None else deadline.seconds_left() / (max_rounds * (len(candidates) - at))
                with judge_span(judge.label, self.name, fallback=at > 0) as trace_span:
                    try:
                        found = _read_verdict(judge, await _evaluate_by(judge, limit, inputs, required), failures)
                    except (EvaluationError, TimeoutError) as error:
                        trace_span.fail(_code_of(error))
                        if isinstance(error, EvaluationError) and affects_all_judges(error):
                            return error
                        failures.append((judge, error))
                    else:
                        describe_verdict(trace_span, found.verdict)
                        return found
            return _JudgeResult(JudgeVerdict(candidates[0].label, error=_error_of(failures)), None)

    def _result(self, judge_results: Sequence[_JudgeResult]) -> EvaluationResult:
        verdicts = [each.verdict for each in judge_results]
        given = [verdict for verdict in verdicts if verdict.has_verdict]
        if len(given) < self._min_successful:
            raise self._too_few_error(verdicts, len(given))
        results = [each.result for each in judge_results if each.result is not None]
        score, voted = combine(self._aggregation, given)
        threshold = results[0].threshold
        # With a threshold the score decides; the score of a majority vote agrees with the vote.
        result = EvaluationResult(
            score=score,
            passed=None if threshold is not None and score is not None else voted,
            metric_name=self.metric_name,
            threshold=threshold,
            evaluation_steps=_common_steps([each.evaluation_steps for each in results]),
            polarity=results[0].polarity,
        )
        panel = {
            "aggregation": self._aggregation,
            "verdicts": [verdict.data() for verdict in verdicts],
            "spread": score_spread(given),
            "agreement": agreement_share(result.passed, given),
            "fallback_share": sum(verdict.fallback for verdict in given) / len(given),
        }
        return replace(
            result, reasoning=explain_vote(self._aggregation, result.passed, verdicts), metadata={"panel": panel}
        )

    def _too_few_error(self, verdicts: Sequence[JudgeVerdict], verdict_count: int) -> EvaluationError:
        silent = "; ".join(
            verdict.error["message"] for verdict in verdicts if verdict.error and not verdict.has_verdict
        )
        return EvaluationError(
            f"{verdict_count} of {len(verdicts)} judges gave a verdict; {self._min_successful} are needed: {silent}",
            code="too_few_judges",
            context={"verdicts": [verdict.data() for verdict in verdicts]},
        )


class _JudgeResult(Struct, frozen=True):
    verdict: JudgeVerdict
    result: EvaluationResult | None


class NamedJudge(Protocol):
    """The interface of judges: a judge has a name for verdicts."""

    @property
    def label(self) -> str:
        """The model's name."""


Judge = TypeVar("Judge", bound=NamedJudge)


def build_panel(
    judges: Sequence[Judge], fallbacks: Sequence[Judge], build: Callable[[Judge], BaseEvaluator]
) -> tuple[Candidates, ...]:
    """Build the judges of a panel, each with its fallbacks.

    If a model occurs several times, its judges are numbered, so that each of them makes its own calls. The first of
    them makes the same calls as a single judge without a panel. A model is never its own fallback.

    Args:
        judges: the judges; one may occur several times.
        fallbacks: the fallbacks of every judge, in order.
        build: creates the evaluator of a judge; called once per model.
    """
    evaluators: dict[int, BaseEvaluator] = {}

    def make_judge(judge: Judge, sample: int) -> PanelJudge:
        if id(judge) not in evaluators:
            evaluators[id(judge)] = build(judge)
        return PanelJudge(judge.label, evaluators[id(judge)], sample)

    def with_fallbacks() -> Iterator[Candidates]:
        times: Counter[int] = Counter()
        for at, judge in enumerate(judges):
            others = [other for other in fallbacks if other is not judge]
            yield (make_judge(judge, times[id(judge)]), *(make_judge(other, len(judges) + at) for other in others))
            times[id(judge)] += 1

    return tuple(with_fallbacks())


async def _evaluate_by(
    judge: PanelJudge, limit: float | None, inputs: dict[str, Any], required: bool
) -> EvaluationResult:
    context = judge_context()
    until = context.deadline if limit is None else Deadline(limit, asyncio.get_running_loop().time)
    own = structs.replace(context, sample=judge.sample, deadline=until, required=context.required and required)
    try:
        with use_context(own), stop_during_calls(until):
            async with TimeLimit(limit):
                return await judge.evaluator.evaluate(**inputs)
    except TimeoutError:
        # No number, because the share of the time differs from run to run.
        raise TimeoutError(f"{judge.label} gave no verdict before its share of the timeout ended") from None


def _read_verdict(
    judge: PanelJudge, result: EvaluationResult, failures: Sequence[tuple[PanelJudge, Exception]]
) -> _JudgeResult:
    """Return a judge's verdict with its result.

    Raises:
        EvaluationError: the result is a category or empty (code `invalid_result`).
    """
    score = result.score
    if isinstance(score, str) or (score is None and result.passed is None):
        raise EvaluationError(
            f"{judge.label} gave {cut(repr(score), 80)}, which cannot be combined", code="invalid_result"
        )
    details = {name: value for name, value in result.metadata.items() if name != "judge"}
    if result.evaluation_steps is not None:
        details["evaluation_steps"] = list(result.evaluation_steps)
    if result.confidence is not None:
        details["confidence"] = result.confidence
    verdict = JudgeVerdict(
        model=judge.label,
        score=None if score is None else float(score),
        passed=bool(score) if isinstance(score, bool) and result.passed is None else result.passed,
        reason=result.reasoning,
        error=_error_of(failures),
        fallback=bool(failures),
        details=details,
    )
    return _JudgeResult(verdict, result)


def _common_steps(steps: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the evaluation steps if all judges followed the same steps, otherwise None."""
    return steps[0] if all(other == steps[0] for other in steps) else None


def affects_all_judges(error: EvaluationError) -> bool:
    """Return whether every judge would get this error, for example because an input is missing."""
    call = _causing_call(error)
    return error.code in _OF_THE_INPUT or (call is not None and call.code in _OF_THE_RUN)


def _causing_call(error: BaseException | None) -> ModelCallError | None:
    """Return the error of the model call that caused an error; None if the error has another cause."""
    # Some libraries raise an error from itself, which would be an endless chain.
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ModelCallError):
            return error
        seen.add(id(error))
        error = (error.original_error if isinstance(error, DeepEvalError) else None) or error.__cause__
    return None


def _error_of(failures: Sequence[tuple[PanelJudge, Exception]]) -> dict[str, str] | None:
    if not failures:
        return None
    return {
        "code": _code_of(failures[0][1]),
        "message": "; ".join(cut(f"{judge.label}: {error_message(error)}", _SHOWN) for judge, error in failures),
    }


def _code_of(error: Exception) -> str:
    call = _causing_call(error)
    if call is not None:
        return call.code
    return error.code if isinstance(error, EvaluationError) else "timeout"


def error_message(error: Exception) -> str:
    """Return the message of a judge's failure, without the names of wrapping errors."""
    call = _causing_call(error)
    return call.message if call is not None else str(error) or describe(error)


def judge_span(judge: str, metric: str, *, fallback: bool) -> SpanScope:
    """Start the span of one judge of a panel; its model calls are child spans.

    Args:
        judge: the judge's name, such as `openai/gpt-6.1-sol`.
        metric: the metric's name.
        fallback: whether the judge is a fallback.
    """
    return span(
        f"judge {judge}",
        {
            "gen_ai.evaluation.name": metric,
            "holodeck_action.judge.model": judge,
            "holodeck_action.judge.fallback": fallback,
        },
    )


def describe_verdict(trace_span: Span, verdict: JudgeVerdict) -> None:
    """Add a judge's verdict to its span."""
    label = None if verdict.passed is None else "pass" if verdict.passed else "fail"
    trace_span.set(
        {
            "gen_ai.evaluation.score.value": verdict.score,
            "gen_ai.evaluation.score.label": label,
            "holodeck_action.evaluation.passed": verdict.passed,
        }
    )
    if verdict.reason:
        trace_span.set_content("gen_ai.evaluation.explanation", verdict.reason)
