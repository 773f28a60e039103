"""Computations of one turn, one after the other: in one daemon thread, each under its own time limit, or at once.

Evaluations are shown as spans, in the names of the conventions for generative AI.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from holodeck_action.decide.case_verdicts import judge_evaluation
from holodeck_action.llm.spans import NO_SPAN, Span, current
from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import ToolAssertion, Usage
from holodeck_action.workers.threads import DaemonThreads

T = TypeVar("T")
_NOTICED_S = 0.1
"""No quick computation takes so many seconds; shorter limits are watched."""


class Job(Struct, Generic[T], frozen=True):
    """A computation and the seconds it may take; one that is quick takes milliseconds."""

    compute: Callable[[], T]
    timeout_s: float
    quick: bool = False


class Done(Struct, Generic[T], frozen=True):
    """What came of a job: its result, or the error it raised.

    `duration_ms` is its wall time; None when it never ran. `usage` is what its model calls took; None without any.
    `cached`: it was done by an earlier run, and both are of then. `calls` are the keys of its model calls.
    """

    result: T | None
    error: Exception | None
    duration_ms: float | None
    usage: Usage | None = None
    cached: bool = False
    calls: Collection[str] = ()


class _Batch(Generic[T]):
    """Jobs on their way through a thread: what is done, and since when the current one runs (0.0: not begun)."""

    def __init__(self, jobs: Sequence[Job[T]]) -> None:
        self.jobs = jobs
        self.done: list[Done[T]] = []
        self.started = 0.0
        self._abandoned = False
        self._lock = threading.Lock()

    def run(self) -> None:
        self.started = time.perf_counter()
        for job in self.jobs:
            result: T | None = None
            failure: Exception | None = None
            try:
                result = job.compute()
            except Exception as error:  # noqa: BLE001 - a failure stays in its metric
                failure = error
            ended = time.perf_counter()
            with self._lock:
                if self._abandoned:
                    return
                self.done.append(Done(result, failure, 1000 * (ended - self.started)))
                self.started = ended

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True

    def check(self) -> tuple[Job[T] | None, float]:
        """Abandon the batch if its current job has exceeded its time; return that job, or None.

        The second value is in how many seconds to check again.
        """
        with self._lock:
            waiting = self.jobs[len(self.done) :]
            shortest = min((job.timeout_s for job in waiting), default=1.0)
            if not self.started or not waiting:
                return None, shortest
            left = waiting[0].timeout_s - (time.perf_counter() - self.started)
            if left > 0:
                return None, min(left, shortest)
            self._abandoned = True
            return waiting[0], 0.0


async def compute_all(threads: DaemonThreads, jobs: Sequence[Job[T]]) -> list[Done[T]]:
    """Run jobs in order, in one thread as long as none exceeds its time.

    A job that does is left behind in its thread with a `TimeoutError` as its outcome, and the rest goes on in another.
    Where all are quick, and none has a shorter limit than that, they are done before this waits for anything: the way
    to a thread and back takes longer.
    """
    if all(job.quick and job.timeout_s >= _NOTICED_S for job in jobs):
        here = _Batch(jobs)
        here.run()
        return here.done
    finished: list[Done[T]] = []
    while len(finished) < len(jobs):
        batch = _Batch(jobs[len(finished) :])
        future = asyncio.wrap_future(threads.submit(batch.run))
        try:
            hung = await _watch(future, batch)
        finally:
            batch.abandon()
            future.cancel()
        finished += batch.done
        if hung is not None:
            threads.replace_hung()
            late = TimeoutError(f"the evaluation took longer than {hung.timeout_s:g} s")
            finished.append(Done(None, late, 1000 * hung.timeout_s))
    return finished


async def _watch(future: asyncio.Future[None], batch: _Batch[T]) -> Job[T] | None:
    """Wait until the batch is through; return the job that exceeded its time, if one did."""
    hung, wait = batch.check()
    while hung is None:
        done, _ = await asyncio.wait({future}, timeout=wait)
        if done:
            return None
        hung, wait = batch.check()
    return hung


_NS_PER_MS = 1_000_000
_LABELS = {"passed": "pass", "failed": "fail"}


class EvaluationSpans:
    """The spans of one turn's evaluations: those of judges and of the suite's code begin with them, the rest later."""

    def __init__(self) -> None:
        self._turn = current()
        self._started: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._spans: dict[int, Span] = {}

    def start(self, at: int, label: str) -> Span:
        """Start the span of one that asks others, so that its calls are below it."""
        if self._turn is NO_SPAN:
            return NO_SPAN
        self._started[at] = time.time_ns()
        self._spans[at] = self._child(label, self._started[at])
        return self._spans[at]

    def computed(self, done: Mapping[int, Done[EvaluationResult]]) -> None:
        """Note when those were computed that have just been computed, one after the other in this order."""
        ended = time.time_ns()
        for at, outcome in reversed([*done.items()]):
            self._ended[at] = ended
            ended = self._started[at] = ended - _ns(outcome)

    def end(self, evaluations: Iterable[tuple[int, Evaluation, Done[EvaluationResult]]]) -> None:
        """End all spans with what came of them; what was skipped has none."""
        if self._turn is NO_SPAN:
            return
        for at, evaluation, outcome in evaluations:
            started = self._started.get(at, time.time_ns())
            found = self._spans.get(at) or self._child(evaluation.evaluator_name, started)
            _tell(found, evaluation)
            found.end(self._ended.get(at, started + _ns(outcome)))

    def _child(self, label: str, started_ns: int) -> Span:
        attributes = {"gen_ai.evaluation.name": label}
        name = f"evaluate {label}"
        return self._turn.child(name, "internal", attributes, sampled=False, started_ns=started_ns, graded=True)


def tools_checked(found: Span, assertions: Iterable[ToolAssertion]) -> None:
    """Say whether a turn's `expected_tools` hold."""
    verdicts = [assertion.matched for assertion in assertions]
    if None in verdicts:
        found.set({"holodeck_action.evaluation.status": "failed"})
        return
    passed = all(verdicts)
    found.set(
        {
            "gen_ai.evaluation.score.label": "pass" if passed else "fail",
            "holodeck_action.evaluation.passed": passed,
            "holodeck_action.evaluation.status": "completed",
        }
    )


def _tell(found: Span, evaluation: Evaluation) -> None:
    score = evaluation.score
    label = _LABELS.get(judge_evaluation(evaluation).outcome)
    found.set(
        {
            "gen_ai.evaluation.score.value": float(score) if isinstance(score, bool | int | float) else None,
            "gen_ai.evaluation.score.label": score if isinstance(score, str) else label,
            "holodeck_action.evaluation.kind": evaluation.criteria.kind,
            "holodeck_action.evaluation.passed": None if label is None else label == "pass",
            "holodeck_action.evaluation.status": evaluation.status,
        }
    )
    if evaluation.error is not None:
        found.fail(evaluation.error.code)
    if evaluation.explanation is not None:
        found.set_content("gen_ai.evaluation.explanation", evaluation.explanation)


def _ns(outcome: Done[EvaluationResult]) -> int:
    return int((outcome.duration_ms or 0.0) * _NS_PER_MS)
