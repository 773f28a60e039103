"""Probes of judges: before the first case, each judge of a metric grades an obviously right and an absurd answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.faults import row_of_error
from holodeck_action.llm.providers import ModelConfigError
from holodeck_action.llm.spans import span
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.exchange import Exchange, conversation_inputs
from holodeck_action.metrics.params import EvalParam
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.facts import Known
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.scoring.computing import JobResult
from holodeck_action.scoring.evaluations import error_info
from holodeck_action.scoring.exam_results import UNRELATED_ROLES, exam_key, examined_metrics
from holodeck_action.scoring.planning import PlannedMetric, Planner, criteria_of, timeout_of
from holodeck_action.scoring.reuse import digest_of, judge_identity, library_of, to_plain
from holodeck_action.scoring.scoring import call_evaluator
from holodeck_action.scoring.verdict_cache import StoredVerdict
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.model.probing import Exam
from holodeck_action.suite.values import Case, MetricSpec

if TYPE_CHECKING:
    from holodeck_action.llm.providers import ModelPlan
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.text.redaction import Redactor
    from holodeck_action.workers.pool import WorkerPool

ATTEMPTS = 2
"""How often a judge gets both answers until it passes."""
FAILED = "exam_failed"
_EXCLUDED_ROLES = (*UNRELATED_ROLES, Role.JUDGES)
_TIMES = {1: "once", ATTEMPTS: "twice"}
_SIDES = ("right", "absurd")
_REMEDY = "choose another judge"


class PlannedExam(Struct, frozen=True):
    """One judge's exam for one metric.

    Attributes:
        spec: an entry of the metric.
        config: the metric, or a member of it that a judge grades.
        key: digest of the metric's settings, see `exam_key`.
        judge: the judge, such as `openai/gpt-6.1-sol`.
        evaluator: the evaluator that calls this judge alone.
        exam: the two answers.
        calls: the models that one answer needs, and the number of calls of each.
        identity: see `JudgeProbe.identity`.
    """

    spec: MetricSpec
    config: Metric
    key: str
    judge: str
    evaluator: BaseEvaluator
    exam: Exam
    calls: tuple[tuple[ModelPlan, int], ...]
    identity: str


def plan_exams(cases: Iterable[Case], judges: Judges, pool: WorkerPool, redactor: Redactor) -> tuple[PlannedExam, ...]:
    """Return the exams of all judges of the cases' metrics; no model is called.

    A metric that cannot be evaluated has no exam: its evaluations have the error.
    """
    planner = Planner(pool, judges)
    planned: dict[str, PlannedExam] = {}
    for spec, config in examined_metrics(cases):
        try:
            found = [*_exams_of(spec, config, judges, planner, redactor)]
        except (EvaluationError, ModelConfigError):
            continue
        planned.update((each.identity, each) for each in found)
    return tuple(planned.values())


def _exams_of(
    spec: MetricSpec, config: Metric, judges: Judges, planner: Planner, redactor: Redactor
) -> Iterator[PlannedExam]:
    exam, tried = config.exam, config.for_exam()
    assert exam is not None
    key, settings = exam_key(config), tried.model_dump(mode="json", exclude=set(tried.settings_for(*_EXCLUDED_ROLES)))
    graders = dict.fromkeys(judge for _, part in config.judged_parts() for judge in judges.graders(part))
    for judge in graders:
        evaluator, chosen = planner.evaluator_by(tried, judge)
        identity = {
            "metric": {"type": tried.type, "config": settings, "version": evaluator.version},
            "library": library_of(config),
            "judges": [judge_identity(each.plan) for each in chosen],
            "answers": [to_plain(exam.right), to_plain(exam.absurd)],
        }
        calls = []
        for part in tried.judge_calls():
            grading = judges.graders(part.config)
            grader = judge if judge in grading else grading[0]
            calls.append((grader.plan, part.calls + part.writes_steps))
        label = redactor.text(judge.label)
        yield PlannedExam(spec, config, key, label, evaluator, exam, tuple(calls), digest_of(redactor.value(identity)))


async def hold_exam(
    planned: PlannedExam, reuse: Reuse | None, *, replay: bool, redactor: Redactor
) -> JudgeProbe | None:
    """Let a judge grade both answers, and once more if it does not give the right one the better score.

    Args:
        planned: the exam.
        reuse: stores the verdicts of a recording, and has them for a replay; None to store none.
        replay: whether only recorded verdicts count.
        redactor: masks secrets.

    Returns:
        The result; None if a replay has no recorded verdicts of this exam.
    """
    results: list[JobResult[EvaluationResult]] = []
    for attempt in range(ATTEMPTS):
        if replay:
            kept = [None if reuse is None else reuse.find_probe(_key(planned, side, attempt)) for side in _SIDES]
            stored = [each for each in kept if each is not None]
            if len(stored) < len(_SIDES):
                return None if attempt == 0 else _probe(planned, results, attempt, redactor)
            results = [JobResult(each.result, None, each.duration_ms, each.usage, calls=each.calls) for each in stored]
        else:
            # Tasks: each evaluation has its own context.
            tasks = [asyncio.create_task(_grade(planned, side, attempt)) for side in _SIDES]
            try:
                results = await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
            if reuse is not None:
                _keep(planned, attempt, results, reuse)
        probe = _probe(planned, results, attempt + 1, redactor)
        if probe.passed or probe.code != FAILED:
            return probe
    return probe


def _key(planned: PlannedExam, side: str, attempt: int) -> str:
    return digest_of({"probe": planned.identity, "side": side, "attempt": attempt})


def _keep(planned: PlannedExam, attempt: int, results: Sequence[JobResult[EvaluationResult]], reuse: Reuse) -> None:
    for side, done in zip(_SIDES, results, strict=True):
        if done.result is not None and done.usage is not None and done.duration_ms is not None:
            verdict = StoredVerdict(done.result, done.duration_ms, done.usage, frozenset(done.calls))
            reuse.keep_probe(_key(planned, side, attempt), verdict)


async def _grade(planned: PlannedExam, side: str, attempt: int) -> JobResult[EvaluationResult]:
    config = planned.config
    metric = PlannedMetric(planned.spec, criteria_of(planned.spec), planned.evaluator, timeout_of(config), None)
    try:
        arguments = planned.evaluator.resolve(_inputs(config, getattr(planned.exam, side), planned.evaluator))
    except EvaluationError as error:
        return JobResult(None, error, None)
    parts = [*config.library_parts(), *(part for _, part in config.judged_parts())]
    for library in {part.library for part in parts if part.library is not None}:
        from holodeck_action.metrics.judging.libraries import import_library

        await import_library(library)
    with span(f"probe {planned.spec.label}", {"gen_ai.evaluation.name": planned.spec.label}) as trace_span:
        return await call_evaluator(metric, planned.evaluator, arguments, attempt, trace_span, fresh=True)


def _inputs(config: Metric, given: Mapping[str, Any], evaluator: BaseEvaluator) -> dict[str, Any]:
    """Return the inputs of an evaluator; an answer that is graded as a conversation is one of one turn."""
    inputs = dict(given)
    if EvalParam.TURNS in evaluator.PARAM_SPEC.required and EvalParam.TURNS.value not in inputs:
        inputs[EvalParam.TURNS.value] = (_exchange(given),)
    if config.grades_conversation:
        inputs |= conversation_inputs((_exchange(given),))
    return {name: value for name, value in inputs.items() if value is not None}


def _exchange(given: Mapping[str, Any]) -> Exchange:
    calls, texts = given.get("tool_invocations", ()), given.get("retrieval_context", ())
    return Exchange(given.get("query", ""), given.get("response", ""), Known(tuple(calls)), Known(tuple(texts)))


def _probe(
    planned: PlannedExam,
    results: Sequence[JobResult[EvaluationResult]],
    attempts: int,
    redactor: Redactor,
) -> JudgeProbe:
    """Return the result of the last attempt."""
    right, absurd = (None if done.result is None else _number(done.result.score) for done in results)
    probe = JudgeProbe(
        metric=redactor.text(planned.spec.label),
        judge=planned.judge,
        identity=planned.identity,
        passed=False,
        right=right,
        absurd=absurd,
        attempts=attempts,
        code=FAILED,
    )
    for side, done in zip(_SIDES, results, strict=True):
        if done.result is None:
            error = error_info(done.error or EvaluationError("the evaluation gave no result"))
            is_judges = row_of_error(error, is_metric=True).actor == "judge"
            cause = error.context.get("cause")
            code = FAILED if is_judges else cause if isinstance(cause, str) else error.code
            said = f"could not be probed: {error.message}"
            if is_judges:
                said = f"gave no usable verdict on the {side} answer of its probe: {error.message}; {_REMEDY}"
            return replace(probe, code=code, problem=redactor.text(f"{planned.judge} {said}"))
    if right is None or absurd is None:
        side = "right" if right is None else "absurd"
        return replace(probe, problem=f"{planned.judge} gave no score to the {side} answer of its probe; {_REMEDY}")
    polarity = next(done.result.polarity for done in results if done.result is not None)
    if right < absurd if polarity == "minimize" else right > absurd:
        return replace(probe, passed=True, code="")
    other = "" if right == absurd else f"{absurd:g} "
    said = f"gave {right:g} to the right and {other}to the absurd answer"
    return replace(probe, problem=f"{planned.judge} {said}, {_TIMES[attempts]}; {_REMEDY}")


def _number(score: Any) -> float | None:
    return float(score) if isinstance(score, bool | int | float) else None


def errors_of(planned: Iterable[PlannedExam], probes: Iterable[JudgeProbe]) -> dict[str, ErrorInfo]:
    """Return the error of each metric with a judge that did not pass, by `exam_key`."""
    found: dict[str, ErrorInfo] = {}
    failed = {probe.identity: probe for probe in probes if not probe.passed}
    for each in planned:
        probe = failed.get(each.identity)
        if probe is not None:
            found.setdefault(each.key, ErrorInfo("JudgeProbe", probe.problem, probe.code, {"judge": probe.judge}))
    return found
