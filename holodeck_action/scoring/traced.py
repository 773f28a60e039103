"""Evaluations as spans, in the names of the conventions for generative AI."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from holodeck_action.metrics.base import EvaluationResult
from holodeck_action.results.case_verdicts import judge_evaluation
from holodeck_action.results.evaluation import Evaluation
from holodeck_action.results.record import ToolAssertion
from holodeck_action.scoring.computing import Done
from holodeck_action.tracing.spans import NO_SPAN, Span, current

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
