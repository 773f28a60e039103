"""Scores one answer by one metric, for callers from Python, with the same code as a run."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.facts import list_fact
from holodeck_action.run.trials import SYSTEM_CLOCK
from holodeck_action.scoring.judges import Judges, missing_packages, settings_problem
from holodeck_action.scoring.scoring import Answer, TurnScorer
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.expectations import ExpectationFactory, expected_tool
from holodeck_action.suite.model.agent import AgentConfig, Instructions, ProjectConfig
from holodeck_action.suite.model.base import ArgumentError
from holodeck_action.suite.model.cases import TurnEntry
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import CaseOverlay, Policy, RetrievalOverlay
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.panels import panel_of
from holodeck_action.suite.resolve import chunk_gains
from holodeck_action.suite.values import Case, MetricSpec, Suite, Turn
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.permission import NO_CODE
from holodeck_action.workers.pool import WorkerPool

_TURN_KEYS = ("ground_truth", "expected_tools")
_NO_MARK = SourceMark("", 1, 1)
_MOST_BYTES = 1 << 24
_NO_MODEL = LLMProvider(provider="ollama", name="none")


async def score_answer(
    metric: Metric,
    turn_values: Mapping[str, Any],
    reply: Mapping[str, Any],
    model: LLMProvider | None,
    environ: Mapping[str, str],
) -> Evaluation:
    """Score an answer in the same way as the answer of a turn in a run.

    Args:
        metric: a metric with at most one cut-off rank, and without code of a suite.
        turn_values: the values of `input`, `ground_truth`, `expected_tools`, `expected_trajectory` and
            `ground_truth_chunk_ids`; None if nothing is expected.
        reply: a reply mapping, as a target returns it (docs/targets.md).
        model: the judge to use if the metric names no model; for an embedding model, only its provider, URL and key are
            used. None if the metric needs no such model.
        environ: environment variables with keys and URLs of models.

    Raises:
        ArgumentError: an argument cannot be used.
    """
    turn = _build_turn(metric, turn_values)
    folder = Path.cwd()
    case = Case("answer", None, "", _NO_MARK, (turn,), multi_turn=False)
    agent = AgentConfig(name="answer", model=model or _NO_MODEL, instructions=Instructions(inline="-"))
    checkout = Checkout.of(folder, folder)
    suite = Suite("answer", folder, "", "", agent, Policy(), ProjectConfig(), (case,), checkout)
    try:
        answered = reply_from_mapping(reply, max_bytes=_MOST_BYTES)
    except AgentError as error:
        raise ArgumentError(error.message) from None
    for part in (metric, *(part for _, part in metric.judged_parts())):
        if model is None and part.needs_judge and _names_no_judge(part):
            lacking = "names no judge" if part.embedding is None else "names no provider of its embedding model"
            raise ArgumentError(f"model: is missing, because the metric {lacking}")
        problem = missing_packages(part) or settings_problem(suite, part, environ)
        if problem is not None:
            raise ArgumentError(f"{metric.measure}: {problem}")
    redactor = Redactor(environment_secrets(environ))
    wire = Wire(WireSettings(), redactor=redactor)
    pool = WorkerPool(folder, environ=environ, cwd=folder, size=1, code=NO_CODE, redact=redactor.text)
    try:
        scorer = TurnScorer(
            pool=pool,
            clock=SYSTEM_CLOCK.now,
            new_id=lambda: str(uuid.uuid4()),
            judges=Judges(suite, environ, wire),
        )
        calls, texts = list_fact(answered.tool_invocations), list_fact(answered.retrieval_context)
        chunks = list_fact(answered.retrieved_chunks)
        answer = Answer(turn, None, False, answered.response, calls, calls, texts, chunks)
        [evaluation] = await scorer.score(answer)
        return evaluation
    finally:
        await wire.close()


def _build_turn(metric: Metric, turn_values: Mapping[str, Any]) -> Turn:
    ranks = metric.cut_offs()
    if len(ranks) > 1:
        raise ArgumentError("k: gives several scores; give one rank")
    if metric.grader_callables or metric.type == "code":
        raise ArgumentError("a code grader is a function of the program: call it")
    if metric.suite_class_paths:
        raise ArgumentError("metric: a class of the program grades by its own method measure: call it")
    if turn_values["input"] is None and any(part.embedding is None for _, part in metric.judged_parts()):
        raise ArgumentError("input: is missing; a judge needs the question")
    question = TurnEntry(**{**{name: turn_values[name] for name in _TURN_KEYS}, "input": turn_values["input"] or "-"})
    steps = CaseOverlay(expected_trajectory=turn_values["expected_trajectory"]).expected_trajectory
    chunks = turn_values["ground_truth_chunk_ids"]
    return Turn(
        0,
        turn_values["input"] or "",
        _NO_MARK,
        question.ground_truth,
        ExpectationFactory().build(question.expected_tools),
        metrics=(MetricSpec(metric, metric.name or metric.base_name(ranks[0]), _NO_MARK, False, ranks[0]),),
        expected_trajectory=None if steps is None else tuple(map(expected_tool, steps)),
        ground_truth_chunk_ids=chunk_gains(None if chunks is None else RetrievalOverlay(ground_truth_chunk_ids=chunks)),
    )


def _names_no_judge(metric: Metric) -> bool:
    panel = panel_of(Policy().judges, metric)
    return metric.own_model is None if panel is None else None in panel.models
