"""Calls a judge or panel to compare this run's answers with the base run's; each pair is judged in both orders."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace as with_result
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.pairing import case_difference
from holodeck_action.extensions.preference.evaluations import skip_confirmations, skip_pairs, with_evaluations
from holodeck_action.llm.calls import sum_usages
from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.record.evaluation import PREFERENCE, Evaluation
from holodeck_action.record.pair_texts import compared_text, compares_conversations, digest_of_text, question_text
from holodeck_action.record.record import CaseRecord, Record, TrialRecord
from holodeck_action.run.trials import SYSTEM_CLOCK, scorer_of
from holodeck_action.scoring.computing import JobResult
from holodeck_action.scoring.evaluations import EvaluationWriter
from holodeck_action.suite.applicability import skip_reason
from holodeck_action.suite.values import Case, MetricSpec

if TYPE_CHECKING:
    from holodeck_action.run.run import Run
    from holodeck_action.run.schedule import Stop

NO_BASE = "there is no base to compare with"
_IDENTICAL = "both answers are the same"


async def judge_pairs(open_suite: Run, head: Record, base: Record | None, stop: Stop) -> Record:
    """Compare each trial's answer with the answer of the same trial in the base; return `head` with the verdicts.

    If the base has no answer or the judge fails, the evaluation fails, and the run is less complete. Pairs that are not
    judged when the run stops get no verdict. Answers of extra trials, which confirm a regression, are not compared.

    Args:
        open_suite: the open suite, which provides metrics and judges.
        head: the record of the run.
        base: the record of the base; None if there is no base.
        stop: ends the judging early.
    """
    if base is None:
        return skip_pairs(head, NO_BASE)
    found: dict[tuple[str, int], Sequence[Evaluation]] = {}
    judging = _Judging(open_suite, base, found)
    work = asyncio.gather(*(judging.judge(case, specs, stop) for case, specs in _judged_cases(open_suite, head)))
    stopped = asyncio.create_task(stop.wait())
    limit = open_suite.settings.run_timeout_s
    left = None if limit is None else max(0.0, limit - head.run.duration_ms / 1000)
    try:
        await asyncio.wait((work, stopped), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        elif stop.reason is None:
            stop.request(f"the run deadline of {limit or 0:g} s was reached")
    finally:
        work.cancel()
        stopped.cancel()
        await asyncio.gather(work, stopped, return_exceptions=True)
    judged = skip_confirmations(with_evaluations(head, found))
    return judged if stop.reason is None or judged.ended_early is not None else judged.with_end(stop.reason)


def _judged_cases(open_suite: Run, head: Record) -> Iterator[tuple[CaseRecord, Sequence[MetricSpec]]]:
    """Yield each case that has metrics which compare two answers, with these metrics."""
    redactor = open_suite.redactor
    known: dict[str, Case] = {redactor.case_id(case.id, case.content_hash): case for case in open_suite.own_cases}
    for recorded in head.cases:
        case = known.get(recorded.id)
        turn = None if case is None else case.turns[-1]
        specs = [
            spec
            for spec in (() if turn is None else turn.metrics)
            if turn is not None and spec.config.OF_PAIR and skip_reason(spec, turn) is None
        ]
        if specs and recorded.trials:
            yield recorded, specs


class _Judging:
    """Judges a run's pairs of answers, and collects the evaluations in `found`."""

    def __init__(self, open_suite: Run, base: Record, evaluations: dict[tuple[str, int], Sequence[Evaluation]]) -> None:
        self._ready, self._base, self.found = open_suite, base, evaluations
        self._places = {case.id: place for place, case in enumerate(base.cases)}
        self._slots = asyncio.Semaphore(open_suite.settings.concurrency)
        self._scorer = scorer_of(open_suite, open_suite.resources.target_pool)

    async def judge(self, case: CaseRecord, specs: Sequence[MetricSpec], stop: Stop) -> None:
        place = self._places.get(case.id)
        other = None if place is None else self._base.cases[place]
        for trial in case.trials:
            async with self._slots:
                if stop.reason is not None:
                    return
                made = [await self._judge_trial(spec, case, trial, other) for spec in specs]
            self.found[case.id, trial.index] = self._ready.redactor.value(made)

    async def _judge_trial(
        self, spec: MetricSpec, case: CaseRecord, trial: TrialRecord, base_case: CaseRecord | None
    ) -> Evaluation:
        writer = EvaluationWriter(SYSTEM_CLOCK.now, lambda: str(uuid.uuid4()))
        planned = self._scorer.plan(spec)
        skipped = _why_no_pair(case, base_case, trial, self._base)
        if skipped is not None:
            return _of_turn(writer.write_skipped(planned, skipped), trial)
        assert base_case is not None
        whole = compares_conversations(case, sees="conversation" if spec.config.sees_conversation else "turn")
        answer = compared_text(trial, conversation=whole)
        if answer is None:
            return _of_turn(writer.write_pending(planned, "not evaluated: there is no answer in this run"), trial)
        against = next((each for each in base_case.trials if each.index == trial.index), None)
        before = None if against is None else compared_text(against, conversation=whole)
        if before is None:
            done: JobResult[EvaluationResult] = JobResult(None, _no_answer(against), None)
        elif answer == before:
            done = JobResult(EvaluationResult(0.5, reasoning=_IDENTICAL, metric_name=PREFERENCE), None, 0.0)
            done = _with_facts(done, 0, (before, answer), identical=True)
        else:
            done = await self._ask_both_orders(spec, trial, question_text(case, trial), before, answer)
        written = _of_turn(writer.write_result(planned, done), trial)
        if before is None or written.status == "completed":
            return written
        # Labels of two answers are found by both texts, also if the judge failed.
        return replace(written, metadata={**written.metadata, PREFERENCE: {"base_digest": digest_of_text(before)}})

    async def _ask_both_orders(
        self, spec: MetricSpec, trial: TrialRecord, question: str, earlier_answer: str, answer: str
    ) -> JobResult[EvaluationResult]:
        turn = trial.turns[-1]
        shown: dict[str, Any] = {"input": question}
        if turn.ground_truth is not None and getattr(spec.config, "expected_answer", True):
            shown["expected_output"] = turn.ground_truth
        # Tasks: each evaluation has its own context.
        orders = await asyncio.gather(
            *(
                asyncio.create_task(
                    self._scorer.evaluate(spec, {**shown, "actual_output": one, "other_response": two}, trial.index)
                )
                for one, two in ((answer, earlier_answer), (earlier_answer, answer))
            )
        )
        return _combine(orders, earlier_answer, answer)


class _Orders(Struct, frozen=True):
    """The scores of a pair in both orders: 1 if this run's answer is better, 0 if it is worse."""

    first: float
    second: float

    @property
    def value(self) -> int:
        """1 if this run's answer is better in both orders, −1 if the base's answer is better in both orders, else 0."""
        sides = {_sign(self.first - 0.5), _sign(self.second - 0.5)}
        return sides.pop() if len(sides) == 1 else 0

    @property
    def is_flipped(self) -> bool:
        """Whether the verdict depends on the order."""
        return _sign(self.first - 0.5) != _sign(self.second - 0.5)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _combine(
    order_results: Sequence[JobResult[EvaluationResult]], earlier_answer: str, answer: str
) -> JobResult[EvaluationResult]:
    """Combine both orders' results: their verdict if they agree, else a tie; the first error if a call failed."""
    took = [done.duration_ms for done in order_results if done.duration_ms is not None]
    usage = sum_usages([done.usage for done in order_results if done.usage is not None])
    whole: JobResult[EvaluationResult] = JobResult(
        None,
        next((done.error for done in order_results if done.error is not None), None),
        max(took, default=None),
        usage,
        cached=all(done.cached for done in order_results),
    )
    results = [done.result for done in order_results]
    scores = [each.score for each in results if each is not None]
    if len(scores) < len(order_results):
        return whole
    numbers = [score for score in scores if isinstance(score, int | float)]
    if len(numbers) < len(order_results):
        return replace(whole, error=EvaluationError("the judge gave no score", code="invalid_result"))
    found = _Orders(numbers[0], 1 - numbers[1])
    told, other = (each for each in results if each is not None)
    reason = told.reasoning
    if found.is_flipped:
        reason = f"a tie, since the verdict depends on the order: {reason} In the other order: {other.reasoning}"
    result = with_result(told, score=(found.value + 1) / 2, reasoning=reason, metadata=dict(told.metadata))
    return _with_facts(
        replace(whole, result=result, error=None), found.value, (earlier_answer, answer), flipped=found.is_flipped
    )


def _with_facts(
    job_result: JobResult[EvaluationResult],
    value: int,
    texts: tuple[str, str],
    *,
    flipped: bool = False,
    identical: bool = False,
) -> JobResult[EvaluationResult]:
    """Return the result; its metadata contains the data from which statistics are computed."""
    assert job_result.result is not None
    facts = {
        "value": value,
        "flipped": flipped,
        "identical": identical,
        "lengths": [len(text) for text in texts],
        "base_digest": digest_of_text(texts[0]),
    }
    return replace(
        job_result, result=with_result(job_result.result, metadata={**job_result.result.metadata, PREFERENCE: facts})
    )


def _why_no_pair(case: CaseRecord, base_case: CaseRecord | None, trial: TrialRecord, base: Record) -> str | None:
    """Return the reason why a trial has no counterpart in the base run; None if it has a counterpart."""
    if base_case is None:
        return "the base does not have this case"
    difference = case_difference(base_case, case)
    if difference is not None:
        return difference
    if trial.index >= base_case.repeat:
        return "the base has fewer trials"
    there = any(each.index == trial.index for each in base_case.trials)
    return "the base did not need this trial" if base.stop_when_decided and base_case.trials and not there else None


def _no_answer(trial: TrialRecord | None) -> EvaluationError:
    errors = [] if trial is None else [trial.error, *(turn.error for turn in trial.turns)]
    why = next((error.message for error in errors if error is not None), "it was not run")
    return EvaluationError(f"the base has no answer to compare with: {why}", code="base_failed")


def _of_turn(evaluation: Evaluation, trial: TrialRecord) -> Evaluation:
    """Return an evaluation with the event id and the time of the other evaluations of its turn."""
    others = trial.turns[-1].evaluations if trial.turns else ()
    if not others:
        return evaluation
    return replace(evaluation, target_event_id=others[0].target_event_id, timestamp=others[0].timestamp)
