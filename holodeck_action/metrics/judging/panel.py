"""A panel: several judges grade one answer by one metric, and their verdicts become one."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, final

from msgspec import Struct, structs

from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.limits.pauses import Deadline, TimeLimit, stopped_by_calls
from holodeck_action.llm.spans import Scope, Span, span
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult, RetryConfig, describe
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.voting import JudgeVerdict, combine, share_for, spread_of, told
from holodeck_action.suite.model.judging import Aggregation
from holodeck_action.text.plain import cut

_OF_THE_RUN = frozenset(("budget_exhausted", "price_unknown"))
"""Codes of model calls that no other judge could make either."""
_OF_THE_INPUT = frozenset(
    ("missing_input", "ambiguous_input", "invalid_input", "unknown_parameter", "not_installed", "no_judge")
)
"""Codes of evaluations that would fail with every judge."""
_SHOWN = 300


class Juror(Struct, frozen=True):
    """A model with the evaluator that asks it; `sample` tells its answers to one question apart."""

    label: str
    evaluator: BaseEvaluator
    sample: int = 0


Seat = tuple[Juror, ...]
"""A judge, and those that stand in for it, in order."""


class PanelEvaluator(BaseEvaluator):
    """Lets several judges grade by the same metric and makes one verdict of theirs.

    A judge that gives no verdict (its calls fail after all retries, it refuses, or its answer cannot be read) is
    replaced by its fallbacks, one after the other; such a verdict is marked. All of it together takes no longer than
    the timeout: an attempt gets an equal share of the time that is left among the attempts that may still follow it.

    The metadata holds `panel`: `aggregation`, `verdicts` (see `voting.JudgeVerdict`), `spread` of the scores,
    `agreement` (share of judges whose verdict is the panel's) and `fallback_share` (of the verdicts that were given).
    """

    def __init__(
        self,
        seats: Sequence[Seat],
        *,
        aggregation: Aggregation = "majority_vote",
        min_successful: int = 1,
        max_concurrent: int | None = None,
        timeout: float | None = 60.0,
    ) -> None:
        """Configure; nothing is asked.

        Args:
            seats: the judges; their evaluators are configured alike, and have no timeout of their own.
            aggregation: how several verdicts become one.
            min_successful: verdicts without which the evaluation has failed.
            max_concurrent: judges asked at once; None for all.
            timeout: seconds one evaluation may take; None for no limit.

        Raises:
            ValueError: no judge, or more verdicts asked for than there are judges.
        """
        # Every attempt has its own limit; together they stay within the timeout.
        super().__init__(timeout=None, retry_config=RetryConfig(max_retries=0))
        if not seats or not all(seats):
            raise ValueError("a panel needs at least one judge")
        if not 1 <= min_successful <= len(seats):
            raise ValueError(f"min_successful must be 1 to {len(seats)}, the number of judges, not {min_successful}")
        if max_concurrent is not None and max_concurrent < 1:
            raise ValueError(f"max_concurrent must be at least 1, not {max_concurrent}")
        self._seats = tuple(seats)
        self._aggregation = aggregation
        self._min_successful = min_successful
        self._at_once = min(max_concurrent or len(seats), len(seats))
        self._limit = timeout
        self._metric = seats[0][0].evaluator
        self.PARAM_SPEC = self._metric.PARAM_SPEC

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._metric.name

    @property
    def metric_name(self) -> str:
        """The key under which results hold the score."""
        return self._metric.metric_name

    @final
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        end = None if self._limit is None else Deadline(self._limit)
        gate = asyncio.Semaphore(self._at_once)
        with stopped_by_calls(end):
            async with asyncio.TaskGroup() as group:
                seated = [
                    group.create_task(
                        self._verdict(seat, math.ceil((len(self._seats) - at) / self._at_once), gate, end, kwargs)
                    )
                    for at, seat in enumerate(self._seats)
                ]
        found = [task.result() for task in seated]
        for outcome in found:
            if isinstance(outcome, EvaluationError):
                raise outcome
        return self._result([outcome for outcome in found if isinstance(outcome, _Found)])

    async def _verdict(
        self, seat: Seat, rounds: int, gate: asyncio.Semaphore, end: Deadline | None, given: dict[str, Any]
    ) -> _Found | EvaluationError:
        """Ask a judge, then those that stand in for it; an error is one that every judge would meet."""
        async with gate:
            failures: list[tuple[Juror, Exception]] = []
            for at, juror in enumerate(seat):
                limit = None if end is None else end.left() / (rounds * (len(seat) - at))
                with judge_span(juror.label, self.name, fallback=at > 0) as traced:
                    try:
                        found = _found(juror, await _asked(juror, limit, given), failures)
                    except (EvaluationError, TimeoutError) as error:
                        traced.fail(_code_of(error))
                        if isinstance(error, EvaluationError) and _concerns_all(error):
                            return error
                        failures.append((juror, error))
                    else:
                        judged(traced, found.verdict)
                        return found
            return _Found(JudgeVerdict(seat[0].label, error=_error_of(failures)), None)

    def _result(self, found: Sequence[_Found]) -> EvaluationResult:
        verdicts = [each.verdict for each in found]
        given = [verdict for verdict in verdicts if verdict.given]
        if len(given) < self._min_successful:
            raise self._too_few(verdicts, len(given))
        results = [each.result for each in found if each.result is not None]
        score, voted = combine(self._aggregation, given)
        threshold = results[0].threshold
        # With a threshold the score decides; a majority's score is on the majority's side of it.
        result = EvaluationResult(
            score=score,
            passed=None if threshold is not None and score is not None else voted,
            metric_name=self.metric_name,
            threshold=threshold,
            evaluation_steps=_common([each.evaluation_steps for each in results]),
            polarity=results[0].polarity,
        )
        panel = {
            "aggregation": self._aggregation,
            "verdicts": [verdict.data() for verdict in verdicts],
            "spread": spread_of(given),
            "agreement": share_for(result.passed, given),
            "fallback_share": sum(verdict.fallback for verdict in given) / len(given),
        }
        return replace(result, reasoning=told(self._aggregation, result.passed, verdicts), metadata={"panel": panel})

    def _too_few(self, verdicts: Sequence[JudgeVerdict], given: int) -> EvaluationError:
        silent = "; ".join(verdict.error["message"] for verdict in verdicts if verdict.error and not verdict.given)
        return EvaluationError(
            f"{given} of {len(verdicts)} judges gave a verdict, {self._min_successful} needed: {silent}",
            code="too_few_judges",
            context={"verdicts": [verdict.data() for verdict in verdicts]},
        )


class _Found(Struct, frozen=True):
    verdict: JudgeVerdict
    result: EvaluationResult | None


class Labelled(Protocol):
    """A model by the name that verdicts show."""

    @property
    def label(self) -> str:
        """The name."""


Judge = TypeVar("Judge", bound=Labelled)


def seats_of(
    judges: Sequence[Judge], fallbacks: Sequence[Judge], build: Callable[[Judge], BaseEvaluator]
) -> tuple[Seat, ...]:
    """Seat a panel.

    Every answer of one model gets a number of its own, so that none is taken for another: its first is the one that it
    gives without a panel. Nobody stands in for itself.

    Args:
        judges: one per seat; the same one may be there several times.
        fallbacks: stand in for each of them, in this order.
        build: makes the evaluator that asks a judge; once per model.
    """
    evaluators: dict[int, BaseEvaluator] = {}

    def juror(judge: Judge, sample: int) -> Juror:
        if id(judge) not in evaluators:
            evaluators[id(judge)] = build(judge)
        return Juror(judge.label, evaluators[id(judge)], sample)

    def chains() -> Iterator[Seat]:
        times: Counter[int] = Counter()
        for at, judge in enumerate(judges):
            others = [other for other in fallbacks if other is not judge]
            yield (juror(judge, times[id(judge)]), *(juror(other, len(judges) + at) for other in others))
            times[id(judge)] += 1

    return tuple(chains())


async def _asked(juror: Juror, limit: float | None, given: dict[str, Any]) -> EvaluationResult:
    context = CALL.get(CallContext("judge", 0, None, Meter()))
    until = context.deadline if limit is None else Deadline(limit)
    token = CALL.set(structs.replace(context, sample=juror.sample, deadline=until))
    try:
        with stopped_by_calls(until):
            async with TimeLimit(limit):
                return await juror.evaluator.evaluate(**given)
    except TimeoutError:
        # Without figures: its share of the time differs from run to run.
        raise TimeoutError(f"{juror.label} gave no verdict in its share of the time") from None
    finally:
        CALL.reset(token)


def _found(juror: Juror, result: EvaluationResult, failures: Sequence[tuple[Juror, Exception]]) -> _Found:
    """Return a verdict.

    Raises:
        EvaluationError: it is a category, or nothing at all (code `invalid_result`).
    """
    score = result.score
    if isinstance(score, str) or (score is None and result.passed is None):
        raise EvaluationError(
            f"{juror.label} gave {cut(repr(score), 80)}, which cannot be put together", code="invalid_result"
        )
    details = {name: value for name, value in result.metadata.items() if name != "judge"}
    if result.evaluation_steps is not None:
        details["evaluation_steps"] = list(result.evaluation_steps)
    if result.confidence is not None:
        details["confidence"] = result.confidence
    verdict = JudgeVerdict(
        model=juror.label,
        score=None if score is None else float(score),
        passed=bool(score) if isinstance(score, bool) and result.passed is None else result.passed,
        reason=result.reasoning,
        error=_error_of(failures),
        fallback=bool(failures),
        details=details,
    )
    return _Found(verdict, result)


def _common(steps: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the steps that all judges followed; None where they followed different ones."""
    return steps[0] if all(other == steps[0] for other in steps) else None


def _concerns_all(error: EvaluationError) -> bool:
    call = _call_behind(error)
    return error.code in _OF_THE_INPUT or (call is not None and call.code in _OF_THE_RUN)


def _call_behind(error: BaseException | None) -> ModelCallError | None:
    """Return the failed model call behind an evaluation's error."""
    # Some libraries raise an error from itself again.
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ModelCallError):
            return error
        seen.add(id(error))
        error = (error.original_error if isinstance(error, DeepEvalError) else None) or error.__cause__
    return None


def _error_of(failures: Sequence[tuple[Juror, Exception]]) -> dict[str, str] | None:
    if not failures:
        return None
    return {
        "code": _code_of(failures[0][1]),
        "message": "; ".join(cut(f"{juror.label}: {_message_of(error)}", _SHOWN) for juror, error in failures),
    }


def _code_of(error: Exception) -> str:
    call = _call_behind(error)
    if call is not None:
        return call.code
    return error.code if isinstance(error, EvaluationError) else "timeout"


def _message_of(error: Exception) -> str:
    call = _call_behind(error)
    return call.message if call is not None else str(error) or describe(error)


def judge_span(judge: str, metric: str, *, fallback: bool) -> Scope:
    """Start the span of one judge of a panel, so that its calls are below it.

    Args:
        judge: its label, such as `openai/gpt-4o`.
        metric: what it grades.
        fallback: whether it stands in for another.
    """
    return span(
        f"judge {judge}",
        {
            "gen_ai.evaluation.name": metric,
            "holodeck_action.judge.model": judge,
            "holodeck_action.judge.fallback": fallback,
        },
    )


def judged(found: Span, verdict: JudgeVerdict) -> None:
    """Say what a judge of a panel found."""
    label = None if verdict.passed is None else "pass" if verdict.passed else "fail"
    found.set(
        {
            "gen_ai.evaluation.score.value": verdict.score,
            "gen_ai.evaluation.score.label": label,
            "holodeck_action.evaluation.passed": verdict.passed,
        }
    )
    if verdict.reason:
        found.set_content("gen_ai.evaluation.explanation", verdict.reason)
