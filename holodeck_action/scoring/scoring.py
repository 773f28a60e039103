"""Scoring a turn: every metric of the turn becomes one `Evaluation`, whatever goes wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.limits.pauses import Deadline, stopped_by_calls
from holodeck_action.llm.spans import Scope, Span, span
from holodeck_action.metrics.base import BaseEvaluator, DeterministicEvaluator, EvaluationResult
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import CONVERSATION, UNKNOWN, UNREPORTED, EvalParam
from holodeck_action.metrics.response_path import ResponsePathError, extract
from holodeck_action.metrics.tools.tool_assertions import check_tools
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.facts import Fact, Unknown, items_of, stored
from holodeck_action.record.record import RetrievedChunk, ToolAssertion, ToolInvocation
from holodeck_action.scoring.computing import Done, EvaluationSpans, Job, compute_all, tools_checked
from holodeck_action.scoring.evaluations import EvaluationWriter
from holodeck_action.scoring.planning import DEFAULT_TIMEOUT_S, PlannedMetric, Planner
from holodeck_action.suite.applicability import missing_static_inputs, skip_reason
from holodeck_action.suite.values import Suite, Turn
from holodeck_action.workers.threads import DaemonThreads

if TYPE_CHECKING:
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.workers.pool import WorkerPool


class Answer(Struct, frozen=True):
    """An agent's answer to one turn, with what the metrics may look at.

    Attributes:
        turn: what was asked and expected.
        case_name: the case's name; None when it has none.
        multi_turn: the case has several turns.
        response: the answer.
        calls: the tool calls of this turn.
        conversation_calls: all tool calls of the conversation so far, this turn's included; unknown when the agent said
            nothing about those of one of its turns.
        texts: the retrieved texts that count for this turn.
        chunks: all chunks of the conversation so far, unknown like the calls.
        context: the texts of the turn's files; None when it has none.
        trial: the trial's index: every trial is judged anew.
    """

    turn: Turn
    case_name: str | None
    multi_turn: bool
    response: str
    calls: Fact[tuple[ToolInvocation, ...]] = Unknown()
    conversation_calls: Fact[tuple[ToolInvocation, ...]] = Unknown()
    texts: Fact[tuple[str, ...]] = Unknown()
    chunks: Fact[tuple[RetrievedChunk, ...]] = Unknown()
    context: tuple[str, ...] | None = None
    trial: int = 0


class TurnScorer:
    """Grades answers; one for a whole run.

    Args:
        suite: the suite whose metrics are planned.
        pool: the workers in which the suite's own code runs.
        clock: the time, aware and in UTC.
        new_id: a fresh UUID 4 as text.
        judges: the models that grade; None where no metric needs one.
        threads: where metrics are computed.
        reuse: verdicts of earlier runs; None for asking always.
    """

    def __init__(
        self,
        suite: Suite,
        *,
        pool: WorkerPool,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        judges: Judges | None = None,
        threads: DaemonThreads | None = None,
        reuse: Reuse | None = None,
    ) -> None:
        self._judges = judges
        self._reuse = reuse
        self._clock = clock
        self._new_id = new_id
        self._threads = threads or DaemonThreads()
        self._planner = Planner(pool, judges, reuse)
        for case in suite.cases:
            for turn in case.turns:
                for spec in turn.metrics:
                    self._planner.plan(spec)

    async def score(self, answer: Answer) -> tuple[Evaluation, ...]:
        """Evaluate every metric of the turn, in the turn's order; nothing but cancellation is raised.

        What only computes is computed one metric after the other, in a thread unless all are quick; judges and the
        suite's own code run beside it, concurrently.
        """
        turn = answer.turn
        planned = [self._planner.plan(spec) for spec in turn.metrics]
        skipped = [skip_reason(spec, turn) for spec in turn.metrics]
        done: dict[int, Done[EvaluationResult]] = {}
        jobs: dict[int, Job[EvaluationResult]] = {}
        traced = EvaluationSpans()
        given = _given(answer)
        async with asyncio.TaskGroup() as group:
            calls: dict[int, asyncio.Task[Done[EvaluationResult]]] = {}
            for at, metric in enumerate(planned):
                if skipped[at] is not None:
                    continue
                try:
                    evaluator, arguments = _ready(metric, answer, given)
                except EvaluationError as error:
                    done[at] = Done(None, error, None)
                    continue
                if isinstance(evaluator, DeterministicEvaluator):
                    if metric.spec.config.computed_by_library():
                        await self._imported()
                    quick = metric.response_path is None and evaluator.is_quick(arguments)
                    compute = partial(_compute, evaluator, arguments, metric.response_path)
                    jobs[at] = Job(compute, metric.timeout_s, quick)
                else:
                    calls[at] = group.create_task(
                        self._verdict(metric, evaluator, arguments, answer.trial, traced.start(at, metric.spec.label))
                    )
            computed = dict(zip(jobs, await compute_all(self._threads, [*jobs.values()]), strict=True))
            traced.computed(computed)
        done.update(computed)
        done.update((at, task.result()) for at, task in calls.items())
        writer = EvaluationWriter(self._clock, self._new_id)
        evaluations = tuple(
            writer.done(metric, done[at]) if reason is None else writer.skipped(metric, reason)
            for at, (metric, reason) in enumerate(zip(planned, skipped, strict=True))
        )
        traced.end((at, evaluations[at], done[at]) for at in sorted(done))
        return evaluations

    async def _verdict(
        self, metric: PlannedMetric, evaluator: BaseEvaluator, arguments: dict[str, Any], trial: int, traced: Span
    ) -> Done[EvaluationResult]:
        """Take the verdict of an earlier run, else ask and keep."""
        config = metric.spec.config
        kept = None if self._reuse is None else self._reuse.find(config, evaluator, arguments, trial)
        if kept is not None:
            return Done(kept.result, None, kept.duration_ms, kept.usage, cached=True)
        if self._judges is not None and config.needs_judge and evaluator.knows(arguments, trial) is not True:
            await self._judges.ready()
        if config.computed_by_library():
            await self._imported()
        done = await _call(metric, evaluator, arguments, trial, traced)
        if self._reuse is not None and done.result is not None and done.duration_ms is not None:
            self._reuse.keep(config, evaluator, arguments, trial, done.result, done.duration_ms, done.usage, done.calls)
        return done

    async def _imported(self) -> None:
        """Wait until DeepEval is imported, before anybody's deadline runs; what goes wrong is told by its metrics."""
        if self._judges is not None:
            await self._judges.ready()
            return
        from holodeck_action.metrics.judging.libraries import ready

        await ready("deepeval")

    def uses_context(self, turn: Turn) -> bool:
        """Tell whether a metric of the turn looks at the texts of its files."""
        return any(
            _looks_at_files(self._planner.plan(spec)) for spec in turn.metrics if skip_reason(spec, turn) is None
        )

    def pending(self, turn: Turn, reason: str) -> tuple[Evaluation, ...]:
        """Return the evaluations of a turn that got no answer: planned work that did not happen, for `reason`."""
        writer = EvaluationWriter(self._clock, self._new_id)
        evaluations = []
        for metric in map(self._planner.plan, turn.metrics):
            skipped = skip_reason(metric.spec, turn)
            evaluations.append(writer.pending(metric, reason) if skipped is None else writer.skipped(metric, skipped))
        return tuple(evaluations)

    async def check_tools(self, turn: Turn, calls: Fact[tuple[ToolInvocation, ...]]) -> tuple[ToolAssertion, ...]:
        """Check the turn's `expected_tools` against its calls; empty when it has none."""
        if turn.expected_tools is None:
            return ()
        # In a thread: a pattern may take its whole time limit.
        job = Job(partial(check_tools, turn.expected_tools, calls), DEFAULT_TIMEOUT_S)
        with span("evaluate expected_tools", {"gen_ai.evaluation.name": "expected_tools"}) as traced:
            (done,) = await compute_all(self._threads, [job])
            if done.result is None:
                reason = f"tool calls could not be checked: {done.error}"
                return (ToolAssertion("expected_tools", matched=False, matched_call_index=-1, reason=reason),)
            tools_checked(traced, done.result)
        return done.result


def _ready(metric: PlannedMetric, answer: Answer, given: Mapping[str, Any]) -> tuple[BaseEvaluator, dict[str, Any]]:
    """Return the metric's evaluator and its arguments; `given` is what every metric of the turn may look at.

    Raises:
        EvaluationError: there is no evaluator, or an input is missing (code `missing_input`).
    """
    if isinstance(metric.evaluator, EvaluationError):
        raise metric.evaluator.with_traceback(None)
    missing = missing_static_inputs(metric.spec, answer.turn)
    if missing:
        raise _missing(missing, f"which the {'turn' if answer.multi_turn else 'case'} does not give")
    inputs = _inputs(metric, answer, given)
    unknown = next((param for param in metric.evaluator.PARAM_SPEC.known if param.value not in inputs), None)
    if unknown is not None:
        raise _missing((unknown.value,), "which the agent did not report; an empty list says that there is none")
    try:
        return metric.evaluator, metric.evaluator.resolve(inputs)
    except EvaluationError as error:
        if error.code != "missing_input":
            raise
        name = error.context["parameter"]
        if name == EvalParam.TOOL_INVOCATIONS:
            raise EvaluationError(UNREPORTED, code="missing_input", context={"parameter": name}) from None
        where = "and the turn has no file with text" if name == "context" else "which the agent did not report"
        raise _missing((name,), where) from None


def _looks_at_files(metric: PlannedMetric) -> bool:
    if isinstance(metric.evaluator, EvaluationError):
        return False
    spec = metric.evaluator.PARAM_SPEC
    return spec.uses_context or EvalParam.CONTEXT in spec.required | spec.optional


def _missing(names: Sequence[str], where: str) -> EvaluationError:
    return EvaluationError(
        f"it needs {' and '.join(names)}, {where}", code="missing_input", context={"parameter": names[0]}
    )


def _given(answer: Answer) -> dict[str, Any]:
    """Return what there is of an answer and its turn, by the names of parameters."""
    turn = answer.turn
    facts: dict[EvalParam, Fact[tuple[Any, ...]]] = {
        EvalParam.TOOL_INVOCATIONS: answer.calls,
        EvalParam.RETRIEVAL_CONTEXT: answer.texts,
        EvalParam.RETRIEVED_CHUNKS: answer.chunks,
    }
    # What is unknown is not given: a metric that needs it cannot be evaluated.
    known = {param: found for param, fact in facts.items() if not isinstance(found := items_of(fact), Unknown)}
    given: dict[EvalParam, Any] = {
        EvalParam.RESPONSE: answer.response,
        EvalParam.QUERY: turn.input,
        EvalParam.GROUND_TRUTH: turn.ground_truth,
        EvalParam.EXPECTED_TOOLS: turn.expected_tools,
        EvalParam.EXPECTED_TRAJECTORY: turn.expected_trajectory,
        EvalParam.GROUND_TRUTH_CHUNK_IDS: turn.ground_truth_chunk_ids,
        **known,
    }
    return {param.value: value for param, value in given.items() if value is not None}


def _inputs(metric: PlannedMetric, answer: Answer, given: Mapping[str, Any]) -> Mapping[str, Any]:
    turn, config = answer.turn, metric.spec.config
    inputs = dict(given)
    # A trajectory is expected of the whole conversation.
    if config.OF_TOOL_CALLS and turn.expected_trajectory is not None:
        inputs[EvalParam.TOOL_INVOCATIONS.value] = stored(answer.conversation_calls)
    if _looks_at_files(metric):
        inputs[EvalParam.CONTEXT.value] = answer.context
    if config.HAS_MEMBERS:
        calls = items_of(answer.conversation_calls)
        inputs[CONVERSATION] = UNKNOWN if isinstance(calls, Unknown) else calls
    if config.TAKES_CASE:
        inputs |= {"turn_index": turn.index, "test_case_name": answer.case_name, "turn_config": turn.turn_config}
    return inputs


def _part(evaluator: BaseEvaluator, arguments: dict[str, Any], path: str | None) -> dict[str, Any] | EvaluationResult:
    """Return the arguments with the part of the answer that is evaluated; a result where there is no such part."""
    if path is None:
        return arguments
    try:
        return {**arguments, "response": extract(arguments["response"], path)}
    except ResponsePathError as error:
        return EvaluationResult(
            score=0.0,
            passed=False,
            reasoning=f"response_path {path}: {error.message}",
            metric_name=evaluator.metric_name,
        )


def _compute(evaluator: DeterministicEvaluator, arguments: dict[str, Any], path: str | None) -> EvaluationResult:
    part = _part(evaluator, arguments, path)
    return part if isinstance(part, EvaluationResult) else evaluator.compute(**part)


async def _call(
    metric: PlannedMetric, evaluator: BaseEvaluator, arguments: dict[str, Any], trial: int, traced: Span
) -> Done[EvaluationResult]:
    started = time.perf_counter()
    meter = Meter()
    # The task's own context: nobody else reads it.
    deadline = Deadline(metric.timeout_s)
    CALL.set(CallContext("judge", trial, deadline, meter))
    result: EvaluationResult | None = None
    failure: Exception | None = None
    try:
        with Scope(traced, ends=False), stopped_by_calls(deadline):
            part = _part(evaluator, arguments, metric.response_path)
            result = part if isinstance(part, EvaluationResult) else await evaluator.evaluate(**part)
    except Exception as error:  # noqa: BLE001 - a failure stays in its metric
        failure = error
    took = max(1000 * (time.perf_counter() - started), meter.kept_ms or 0.0)
    # Parts of a composite may be those of an earlier run.
    cached = result is not None and meter.kept_ms is not None and not meter.asked
    return Done(result, failure, took, meter.usage(), cached=cached, calls=meter.keys)
