"""Evaluates the metrics of turns: each metric of a turn gets an `Evaluation`, even if its computation fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.limits.pauses import Deadline, stop_during_calls
from holodeck_action.llm.spans import Span, SpanScope, span
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult
from holodeck_action.metrics.computed import Grader, select_part
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.exchange import Exchange, conversation_inputs, conversation_text
from holodeck_action.metrics.params import CONVERSATION_CALLS, UNKNOWN_CALLS, UNREPORTED, EvalParam
from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import Fact, Unknown, items_of, items_or_none
from holodeck_action.record.record import RetrievedChunk, ToolAssertion, ToolInvocation
from holodeck_action.scoring.computing import EvaluationSpans, Job, JobResult, compute_all, record_tool_checks
from holodeck_action.scoring.evaluations import EvaluationWriter
from holodeck_action.scoring.planning import DEFAULT_TIMEOUT_S, PlannedMetric, Planner
from holodeck_action.suite.applicability import missing_static_inputs, skip_reason
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.values import MetricSpec, Turn
from holodeck_action.workers.threads import DaemonThreads

if TYPE_CHECKING:
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.workers.pool import WorkerPool


class Answer(Struct, frozen=True):
    """An agent's answer to one turn, with the data that metrics may use.

    Attributes:
        turn: the question and the expectations.
        case_name: name of the case; None if it has no name.
        multi_turn: whether the case has several turns.
        response: the answer.
        calls: the tool calls of this turn. The last turn with a simulated user, which is graded for the whole
            conversation, has the tool calls of all turns.
        conversation_calls: all tool calls of the conversation up to this turn; unknown if the agent did not report the
            tool calls of one of these turns.
        texts: the retrieved texts that metrics of this turn use.
        chunks: all retrieved chunks of the conversation up to this turn; unknown if the agent did not report the chunks
            of one of these turns.
        context: the texts of the turn's files; None if the turn has no files with text.
        trial: index of the trial.
        earlier: the answers to the earlier turns, in order.
        calls_of_turn: the tool calls of this turn if `calls` has the tool calls of all turns; None otherwise.
        metadata: further facts that the agent reported; None if it reported none.
        session: id of the conversation that the agent received; None if it is unknown.
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
    earlier: tuple[Answer, ...] = ()
    calls_of_turn: Fact[tuple[ToolInvocation, ...]] | None = None
    metadata: Mapping[str, Any] | None = None
    session: str | None = None

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return the conversation up to and including this turn."""
        return tuple(
            Exchange(
                each.turn.input,
                each.response,
                each.calls if each.calls_of_turn is None else each.calls_of_turn,
                each.texts,
            )
            for each in (*self.earlier, self)
        )


class TurnScorer:
    """Grades the answers of a whole run.

    Args:
        pool: the worker processes in which the suite's own code runs.
        clock: returns the current time, timezone-aware and in UTC.
        new_id: returns a new UUID 4 as a string.
        judges: the models that grade; None if no metric needs a judge.
        threads: the threads in which metrics are computed; None to create them.
        reuse: verdicts of earlier runs; None to always call judges.
        failed: returns the error of a metric with a judge that did not pass its probe, else None.
    """

    def __init__(
        self,
        *,
        pool: WorkerPool,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        judges: Judges | None = None,
        threads: DaemonThreads | None = None,
        reuse: Reuse | None = None,
        failed: Callable[[Metric], ErrorInfo | None] = lambda config: None,
    ) -> None:
        self._reuse = reuse
        self._clock = clock
        self._new_id = new_id
        self._threads = threads or DaemonThreads()
        self._imports: dict[str, asyncio.Task[None]] = {}
        self._planner = Planner(pool, judges, reuse, failed)

    async def score(self, answer: Answer) -> tuple[Evaluation, ...]:
        """Return the evaluations of the turn's metrics, in the turn's order; only cancellation is raised.

        Deterministic metrics run one after another, in a thread unless all are quick; judges and the suite's own code
        run concurrently with them.
        """
        turn = answer.turn
        planned = [self._planner.plan(spec) for spec in turn.metrics]
        skipped = [skip_reason(spec, turn) for spec in turn.metrics]
        done: dict[int, JobResult[EvaluationResult]] = {}
        jobs: dict[int, Job[EvaluationResult]] = {}
        traced = EvaluationSpans()
        shared_inputs = _known_inputs(answer)
        async with asyncio.TaskGroup() as group:
            calls: dict[int, asyncio.Task[JobResult[EvaluationResult]]] = {}
            for at, metric in enumerate(planned):
                if skipped[at] is not None or metric.spec.config.OF_PAIR:
                    continue
                try:
                    evaluator, arguments = _prepare_arguments(metric, answer, shared_inputs)
                except EvaluationError as error:
                    done[at] = JobResult(None, error, None)
                    continue
                if isinstance(evaluator, Grader) and evaluator.computes:
                    await self._import_libraries(metric.spec.config.library_parts())
                    quick = metric.response_path is None and evaluator.is_quick(arguments)
                    compute = partial(_compute, evaluator, arguments, metric.response_path)
                    jobs[at] = Job(compute, metric.timeout_s, quick)
                else:
                    calls[at] = group.create_task(
                        self._reuse_or_evaluate(
                            metric, evaluator, arguments, answer.trial, traced.start_span(at, metric.spec.label)
                        )
                    )
            computed = dict(zip(jobs, await compute_all(self._threads, [*jobs.values()]), strict=True))
            traced.note_times(computed)
        done.update(computed)
        done.update((at, task.result()) for at, task in calls.items())
        writer = EvaluationWriter(self._clock, self._new_id)
        evaluations = tuple(
            _write_evaluation(writer, metric, done.get(at), reason)
            for at, (metric, reason) in enumerate(zip(planned, skipped, strict=True))
        )
        traced.end((at, evaluations[at], done[at]) for at in sorted(done))
        return evaluations

    def plan(self, spec: MetricSpec) -> PlannedMetric:
        """Return the plan of a metric entry."""
        return self._planner.plan(spec)

    async def evaluate(self, spec: MetricSpec, inputs: Mapping[str, Any], trial: int) -> JobResult[EvaluationResult]:
        """Evaluate a judged metric on inputs by parameter name. Each call must run in a separate asyncio task.

        Returns:
            The verdict of an earlier run or of the judges, or the error; only cancellation is raised.
        """
        metric = self._planner.plan(spec)
        if isinstance(metric.evaluator, EvaluationError):
            return JobResult(None, metric.evaluator.with_traceback(None), None)
        try:
            arguments = metric.evaluator.resolve(inputs)
        except EvaluationError as error:
            return JobResult(None, error, None)
        with span(f"evaluate {spec.label}", {"gen_ai.evaluation.name": spec.label}) as trace_span:
            return await self._reuse_or_evaluate(metric, metric.evaluator, arguments, trial, trace_span)

    async def _reuse_or_evaluate(
        self, metric: PlannedMetric, evaluator: BaseEvaluator, arguments: dict[str, Any], trial: int, trace_span: Span
    ) -> JobResult[EvaluationResult]:
        """Return the verdict of an earlier run; if there is none, call the evaluator and store its verdict."""
        config = metric.spec.config
        kept = None if self._reuse is None else self._reuse.find(config, evaluator, arguments, trial)
        if kept is not None:
            return JobResult(kept.result, None, kept.duration_ms, kept.usage, cached=True)
        parts = config.library_parts()
        if config.needs_judge and evaluator.knows_verdicts(arguments, trial) is not True:
            parts = [*parts, *(part for _, part in config.judged_parts())]
        await self._import_libraries(parts)
        done = await call_evaluator(metric, evaluator, arguments, trial, trace_span)
        if self._reuse is not None and done.result is not None and done.duration_ms is not None:
            self._reuse.keep(config, evaluator, arguments, trial, done.result, done.duration_ms, done.usage, done.calls)
        return done

    async def _import_libraries(self, configs: Iterable[Metric]) -> None:
        """Wait until the libraries of metrics are imported; called before a time limit starts.

        A failed import raises nothing here; the metrics that need the library report it.
        """
        for library in {config.library for config in configs if config.library is not None}:
            if library not in self._imports:
                from holodeck_action.metrics.judging.libraries import import_library

                self._imports[library] = asyncio.create_task(import_library(library))
            # Evaluations that are cancelled do not cancel the import.
            await asyncio.wait([self._imports[library]])

    def uses_context(self, turn: Turn) -> bool:
        """Return whether a metric of the turn uses the texts of its files."""
        return any(
            _uses_file_texts(self._planner.plan(spec)) for spec in turn.metrics if skip_reason(spec, turn) is None
        )

    def pending_evaluations(self, turn: Turn, reason: str) -> tuple[Evaluation, ...]:
        """Return the pending evaluations of a turn without an answer, with the reason."""
        writer = EvaluationWriter(self._clock, self._new_id)
        evaluations = []
        for metric in map(self._planner.plan, turn.metrics):
            skipped = skip_reason(metric.spec, turn)
            evaluations.append(
                writer.write_pending(metric, reason) if skipped is None else writer.write_skipped(metric, skipped)
            )
        return tuple(evaluations)

    async def check_tools(self, turn: Turn, calls: Fact[tuple[ToolInvocation, ...]]) -> tuple[ToolAssertion, ...]:
        """Check the turn's `expected_tools` against its tool calls; return an empty tuple if it expects no tools."""
        if turn.expected_tools is None:
            return ()
        from holodeck_action.metrics.tools.tool_assertions import check_tools

        # In a thread: a pattern may take its whole time limit.
        job = Job(partial(check_tools, turn.expected_tools, calls), DEFAULT_TIMEOUT_S)
        with span("evaluate expected_tools", {"gen_ai.evaluation.name": "expected_tools"}) as trace_span:
            (done,) = await compute_all(self._threads, [job])
            if done.result is None:
                reason = f"tool calls could not be checked: {done.error}"
                return (ToolAssertion("expected_tools", matched=False, matched_call_index=-1, reason=reason),)
            record_tool_checks(trace_span, done.result)
        return done.result


def _write_evaluation(
    writer: EvaluationWriter, metric: PlannedMetric, result: JobResult[EvaluationResult] | None, skip_reason: str | None
) -> Evaluation:
    """Return the evaluation of a metric that ran, is skipped for a reason, or waits for the base's answer."""
    if skip_reason is not None:
        return writer.write_skipped(metric, skip_reason)
    if result is None:
        return writer.write_pending(metric, "not evaluated: the run ended before both answers were compared")
    return writer.write_result(metric, result)


def _prepare_arguments(
    metric: PlannedMetric, answer: Answer, shared_inputs: Mapping[str, Any]
) -> tuple[BaseEvaluator, dict[str, Any]]:
    """Return the evaluator of a metric and the arguments for it. `shared_inputs` holds the inputs that all metrics of
    the turn share.

    Raises:
        EvaluationError: there is no evaluator, or an input is missing (code `missing_input`).
    """
    if isinstance(metric.evaluator, EvaluationError):
        raise metric.evaluator.with_traceback(None)
    missing = missing_static_inputs(metric.spec, answer.turn)
    if missing:
        raise _missing_input(missing, f"which the {'turn' if answer.multi_turn else 'case'} does not give")
    inputs = _evaluator_inputs(metric, answer, shared_inputs)
    unknown = next((param for param in metric.evaluator.PARAM_SPEC.known if param.value not in inputs), None)
    if unknown is not None:
        raise _missing_input((unknown.value,), "which the agent did not report; report an empty list if there are none")
    try:
        return metric.evaluator, metric.evaluator.resolve(inputs)
    except EvaluationError as error:
        if error.code != "missing_input":
            raise
        name = error.context["parameter"]
        if name == EvalParam.TOOL_INVOCATIONS:
            raise EvaluationError(UNREPORTED, code="missing_input", context={"parameter": name}) from None
        where = "and the turn has no file with text" if name == "context" else "which the agent did not report"
        raise _missing_input((name,), where) from None


def _uses_file_texts(metric: PlannedMetric) -> bool:
    if isinstance(metric.evaluator, EvaluationError):
        return False
    spec = metric.evaluator.PARAM_SPEC
    return spec.uses_context or EvalParam.CONTEXT in spec.required | spec.optional


def _missing_input(names: Sequence[str], place: str) -> EvaluationError:
    return EvaluationError(
        f"it needs {' and '.join(names)}, {place}", code="missing_input", context={"parameter": names[0]}
    )


def _known_inputs(answer: Answer) -> dict[str, Any]:
    """Return the evaluator inputs from an answer and its turn, by parameter name; unknown data are omitted."""
    turn = answer.turn
    facts: dict[str, Fact[tuple[Any, ...]]] = {
        "tool_invocations": answer.calls,
        "retrieval_context": answer.texts,
        "retrieved_chunks": answer.chunks,
    }
    # Unknown facts are left out: a metric that needs one cannot be evaluated.
    known = {name: found for name, fact in facts.items() if not isinstance(found := items_of(fact), Unknown)}
    shared_inputs: dict[str, Any] = {
        "response": answer.response,
        "query": turn.input,
        "ground_truth": turn.ground_truth,
        "ground_truths": turn.references,
        "expected_tools": turn.expected_tools,
        "expected_trajectory": turn.expected_trajectory,
        "ground_truth_chunk_ids": turn.ground_truth_chunk_ids,
        "simulated_user": turn.simulated_user,
        **known,
    }
    return {name: value for name, value in shared_inputs.items() if value is not None}


def _evaluator_inputs(metric: PlannedMetric, answer: Answer, shared_inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    turn, config = answer.turn, metric.spec.config
    inputs = dict(shared_inputs)
    # `expected_trajectory` is compared with the tool calls of the whole conversation.
    if config.OF_TOOL_CALLS and turn.expected_trajectory is not None:
        inputs[EvalParam.TOOL_INVOCATIONS.value] = items_or_none(answer.conversation_calls)
    if _uses_file_texts(metric):
        inputs[EvalParam.CONTEXT.value] = answer.context
    if not isinstance(metric.evaluator, EvaluationError) and EvalParam.METADATA in metric.evaluator.PARAM_SPEC.required:
        inputs[EvalParam.METADATA.value] = answer.metadata
    if config.HAS_MEMBERS:
        calls = items_of(answer.conversation_calls)
        inputs[CONVERSATION_CALLS] = UNKNOWN_CALLS if isinstance(calls, Unknown) else calls
    if config.reads_turns:
        inputs[EvalParam.TURNS.value] = answer.exchanges()
    if config.sees_conversation:
        inputs[EvalParam.QUERY.value] = conversation_text(answer.exchanges())
    if config.grades_conversation:
        inputs |= conversation_inputs(answer.exchanges())
        inputs = {name: value for name, value in inputs.items() if value is not None}
    if config.TAKES_CASE:
        inputs |= {"turn_index": turn.index, "test_case_name": answer.case_name, "turn_config": turn.turn_config}
        reported = tuple(each.metadata for each in (*answer.earlier, answer))
        inputs |= {"reported": reported, "session": answer.session}
    return inputs


def _compute(evaluator: Grader, arguments: dict[str, Any], path: str | None) -> EvaluationResult:
    part = arguments if path is None else select_part(arguments, path, evaluator.metric_name)
    return part if isinstance(part, EvaluationResult) else evaluator.compute(**part)


async def call_evaluator(
    metric: PlannedMetric,
    evaluator: BaseEvaluator,
    arguments: dict[str, Any],
    trial: int,
    trace_span: Span,
    *,
    fresh: bool = False,
) -> JobResult[EvaluationResult]:
    """Evaluate once, in its own asyncio task; `fresh` answers of judges are not taken from a cache of earlier runs."""
    started = time.perf_counter()
    meter = Meter()
    # Every asyncio task has its own copy of the context, so this affects no other evaluation.
    deadline = Deadline(metric.timeout_s)
    CALL.set(CallContext("judge", trial, deadline, meter, fresh=fresh))
    result: EvaluationResult | None = None
    failure: Exception | None = None
    try:
        with SpanScope(trace_span, ends_span=False), stop_during_calls(deadline):
            path = metric.response_path
            part = arguments if path is None else select_part(arguments, path, evaluator.metric_name)
            result = part if isinstance(part, EvaluationResult) else await evaluator.evaluate(**part)
    except Exception as error:  # noqa: BLE001 - a failure stays in its metric
        failure = error
    took = max(1000 * (time.perf_counter() - started), meter.kept_ms or 0.0)
    # All verdicts of a composite's members may have been reused from an earlier run.
    cached = result is not None and meter.kept_ms is not None and not meter.asked
    return JobResult(result, failure, took, meter.usage(), cached=cached, calls=meter.keys)
