"""Generates records of any size with given scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from random import Random

from bench.suites import TEXT
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.evaluation import Criteria, Evaluation
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    CaseRecord,
    Provenance,
    Record,
    RunInfo,
    SuiteIdentity,
    Timing,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Gates

METRICS = ("faithfulness", "geval", "rouge")
_STARTED = "2026-01-01T00:00:00+00:00"
_MARK = SourceMark("agent.yaml", 3, 5)

Scores = Callable[[int, int, int, str], float]
"""Returns the score for a case, trial, turn and metric."""


def random_record(cases: int, *, seed: int = 0) -> Record:
    """Return a record with one turn per case and three metrics with random scores."""
    random = Random(seed)
    return record_of(cases, lambda *_: round(random.betavariate(6, 1), 4))


def record_of(
    cases: int,
    score: Scores,
    *,
    trials: int = 1,
    turns: int = 1,
    metrics: Sequence[str] = METRICS,
    threshold: float = 0.5,
) -> Record:
    """Return a record with a score for every metric of every turn; all trials run, and half of them must pass."""
    criteria = {name: Criteria("standard", name, threshold, True, source=_MARK) for name in metrics}

    def turn_of(case: int, trial: int, index: int) -> TurnRecord:
        evaluations = tuple(
            _evaluation(name, criteria[name], score(case, trial, index, name), f"{case}-{trial}-{index}")
            for name in metrics
        )
        return TurnRecord(
            index,
            f"What is the rule for order {case}?",
            _MARK,
            ground_truth=f"{TEXT}, says rule {case}.",
            response=f"{TEXT}, says rule {case}.",
            tool_invocations=(),
            usage=Usage(300, 60, 0.001),
            evaluations=evaluations,
            timing=Timing(_STARTED, 800.0, 700.0),
        )

    made = tuple(
        CaseRecord(
            id=f"case-{case}",
            name=f"case {case}",
            content_hash=hashlib.sha256(str(case).encode()).hexdigest(),
            source=_MARK,
            multi_turn=turns > 1,
            repeat=trials,
            min_pass=(trials + 1) // 2,
            planned_evaluations=len(metrics) * turns,
            not_applicable=0,
            asserting=True,
            trials=tuple(
                TrialRecord(trial, tuple(turn_of(case, trial, index) for index in range(turns)))
                for trial in range(trials)
            ),
        )
        for case in range(cases)
    )
    return Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity("bench", "agent.yaml", "0" * 64),
        provenance=Provenance("bench", "recorded:answers.jsonl"),
        gates=Gates(),
        quarantine=(),
        stop_when_decided=False,
        cases=made,
        run=RunInfo("bench", _STARTED, _STARTED, 1000.0, "3.12"),
        chosen=chosen_cases(case.id for case in made),
    )


def _evaluation(name: str, criteria: Criteria, score: float, place: str) -> Evaluation:
    return Evaluation(
        evaluation_id=f"eval_{place}-{name}",
        target_event_id=f"evt_{place}",
        evaluator_name=name,
        evaluator_version="1.0.0",
        score=score,
        explanation=f"{name} found {score:.4g} of what the answer says in its sources, statement by statement",
        criteria=criteria,
        metadata={"statements": 5, "usage": {"prompt_tokens": 900, "completion_tokens": 80}},
        timestamp=_STARTED,
        duration_ms=900.0,
        status="completed",
        cost_usd=0.002,
    )
