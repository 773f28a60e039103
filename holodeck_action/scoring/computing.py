"""Runs the computations of one turn one after another, each with a time limit: in a daemon thread, or directly if all
of them are quick. Also creates the spans of evaluations (OpenTelemetry's semantic conventions for generative AI).
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
_QUICK_LIMIT_S = 0.1
"""Maximum duration in seconds that is assumed for quick jobs; a job with a shorter time limit runs in a thread."""


class Job(Struct, Generic[T], frozen=True):
    """A computation and its time limit in seconds; a job is `quick` if it takes only milliseconds."""

    compute: Callable[[], T]
    timeout_s: float
    quick: bool = False


class JobResult(Struct, Generic[T], frozen=True):
    """The outcome of a job: its result, or the error it raised.

    `duration_ms` is the job's wall time; None if the job never ran. `usage` is the usage of the job's model calls; None
    if it made none. `cached` is true if result, duration and usage were taken from an earlier run. `calls` are the keys
    of the job's model calls.
    """

    result: T | None
    error: Exception | None
    duration_ms: float | None
    usage: Usage | None = None
    cached: bool = False
    calls: Collection[str] = ()


class _Batch(Generic[T]):
    """Jobs that run in one thread, with the results so far and the start time of the current job (0.0 before the first
    job starts).
    """

    def __init__(self, jobs: Sequence[Job[T]]) -> None:
        self.jobs = jobs
        self.done: list[JobResult[T]] = []
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
                self.done.append(JobResult(result, failure, 1000 * (ended - self.started)))
                self.started = ended

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True

    def check(self) -> tuple[Job[T] | None, float]:
        """Abandon the batch if the current job has exceeded the time limit.

        Returns:
            The job that exceeded its limit, or None; and the number of seconds until the next check.
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


async def compute_all(threads: DaemonThreads, jobs: Sequence[Job[T]]) -> list[JobResult[T]]:
    """Run jobs one after another in a thread; return their results in the same order.

    If a job exceeds its time limit, its result is a `TimeoutError`; the job is left running in its thread, and the
    remaining jobs run in another thread. If all jobs are quick, and no limit is shorter than `_QUICK_LIMIT_S`, they run
    in the calling thread, which is faster.
    """
    if all(job.quick and job.timeout_s >= _QUICK_LIMIT_S for job in jobs):
        here = _Batch(jobs)
        here.run()
        return here.done
    finished: list[JobResult[T]] = []
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
            finished.append(JobResult(None, late, 1000 * hung.timeout_s))
    return finished


async def _watch(future: asyncio.Future[None], batch: _Batch[T]) -> Job[T] | None:
    """Wait for the end of the batch; return the job that exceeded its time limit, or None."""
    hung, wait = batch.check()
    while hung is None:
        done, _ = await asyncio.wait({future}, timeout=wait)
        if done:
            return None
        hung, wait = batch.check()
    return hung


_NS_PER_MS = 1_000_000
_SCORE_LABELS = {"passed": "pass", "failed": "fail"}


class EvaluationSpans:
    """The spans of one turn's evaluations. Spans of judges and graders are started before their calls, other spans
    afterwards."""

    def __init__(self) -> None:
        self._turn = current()
        self._started: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._spans: dict[int, Span] = {}

    def start_span(self, index: int, label: str) -> Span:
        """Start the span of an evaluation that calls models or code. The spans of these calls become its children."""
        if self._turn is NO_SPAN:
            return NO_SPAN
        self._started[index] = time.time_ns()
        self._spans[index] = self._start_span(label, self._started[index])
        return self._spans[index]

    def note_times(self, results: Mapping[int, JobResult[EvaluationResult]]) -> None:
        """Store the times of evaluations that have just been computed one after another, in the order of `results`."""
        ended = time.time_ns()
        for at, outcome in reversed([*results.items()]):
            self._ended[at] = ended
            ended = self._started[at] = ended - _duration_ns(outcome)

    def end(self, evaluations: Iterable[tuple[int, Evaluation, JobResult[EvaluationResult]]]) -> None:
        """Set the attributes of all evaluations' spans and end them; skipped evaluations have no span."""
        if self._turn is NO_SPAN:
            return
        for at, evaluation, outcome in evaluations:
            started = self._started.get(at, time.time_ns())
            found = self._spans.get(at) or self._start_span(evaluation.evaluator_name, started)
            _set_attributes(found, evaluation)
            found.end(self._ended.get(at, started + _duration_ns(outcome)))

    def _start_span(self, label: str, started_ns: int) -> Span:
        attributes = {"gen_ai.evaluation.name": label}
        name = f"evaluate {label}"
        return self._turn.child(name, "internal", attributes, sampled=False, started_ns=started_ns, graded=True)


def record_tool_checks(span: Span, assertions: Iterable[ToolAssertion]) -> None:
    """Set the result of a turn's `expected_tools` on its span."""
    verdicts = [assertion.matched for assertion in assertions]
    if None in verdicts:
        span.set({"holodeck_action.evaluation.status": "failed"})
        return
    passed = all(verdicts)
    span.set(
        {
            "gen_ai.evaluation.score.label": "pass" if passed else "fail",
            "holodeck_action.evaluation.passed": passed,
            "holodeck_action.evaluation.status": "completed",
        }
    )


def _set_attributes(span: Span, evaluation: Evaluation) -> None:
    score = evaluation.score
    label = _SCORE_LABELS.get(judge_evaluation(evaluation).outcome)
    span.set(
        {
            "gen_ai.evaluation.score.value": float(score) if isinstance(score, bool | int | float) else None,
            "gen_ai.evaluation.score.label": score if isinstance(score, str) else label,
            "holodeck_action.evaluation.kind": evaluation.criteria.kind,
            "holodeck_action.evaluation.passed": None if label is None else label == "pass",
            "holodeck_action.evaluation.status": evaluation.status,
        }
    )
    if evaluation.error is not None:
        span.fail(evaluation.error.code)
    if evaluation.explanation is not None:
        span.set_content("gen_ai.evaluation.explanation", evaluation.explanation)


def _duration_ns(outcome: JobResult[EvaluationResult]) -> int:
    return int((outcome.duration_ms or 0.0) * _NS_PER_MS)
