"""A small language for records: what a case's trials did, in letters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.evaluation import Criteria, ErrorInfo, Evaluation
from holodeck_action.record.record import (
    SCHEMA_VERSION,
    CaseRecord,
    Provenance,
    Record,
    RunInfo,
    SuiteIdentity,
    TrialRecord,
    TurnRecord,
)
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.policy import Gates

MARK = SourceMark("agent.yaml", 3, 5)


def evaluation(score: Any, threshold: float | None = 0.5, **changes: Any) -> Evaluation:
    """An evaluation of the metric `bleu`."""
    criteria_fields = {"asserts", "polarity", "fail_on_error", "pass_values", "kind", "metric", "title"}
    criteria = Criteria("standard", "bleu", threshold, True, source=MARK)
    criteria = replace(criteria, **{name: changes.pop(name) for name in criteria_fields & changes.keys()})
    made = Evaluation(
        evaluation_id="eval_1",
        target_event_id="evt_1",
        evaluator_name="bleu",
        evaluator_version="1.0.0",
        score=score,
        explanation="compared",
        criteria=criteria,
        metadata={},
        timestamp="2026-01-01T00:00:00+00:00",
        duration_ms=1.0,
        status="completed",
    )
    return replace(made, **changes)


def turn(*evaluations: Evaluation, **changes: Any) -> TurnRecord:
    """A turn that was answered."""
    return replace(TurnRecord(0, "question", MARK, response="answer", evaluations=evaluations), **changes)


FAILED_EVALUATION = evaluation(None, status="failed", error=ErrorInfo("EvaluationError", "no judge", "judge_failed"))

_LETTERS = {
    "P": turn(evaluation(0.9)),
    "F": turn(evaluation(0.1)),
    "E": turn(
        evaluation(None, status="pending", explanation="not evaluated"),
        response=None,
        error=ErrorInfo("AgentError", "it crashed", "crashed"),
    ),
    # Passes, but one of its two evaluations did not happen.
    "S": turn(evaluation(0.9), FAILED_EVALUATION),
}


def case(trials: str, repeat: int = 1, min_pass: int = 1, **changes: Any) -> CaseRecord:
    """A case whose trials passed (P), failed (F), were in error (E) or passed with a soft error (S)."""
    made = CaseRecord(
        id=changes.pop("id", trials or "not-run"),
        name=None,
        content_hash="0" * 64,
        source=MARK,
        multi_turn=False,
        repeat=repeat,
        min_pass=min_pass,
        planned_evaluations=2 if "S" in trials else 1,
        not_applicable=0,
        asserting=True,
        trials=tuple(TrialRecord(index, (_LETTERS[letter],)) for index, letter in enumerate(trials)),
    )
    return replace(made, **changes)


def case_of(*turns: TurnRecord, **changes: Any) -> CaseRecord:
    """A case with one trial of the given turns."""
    planned = sum(len(item.evaluations) for item in turns)
    made = replace(case(""), planned_evaluations=planned, trials=(TrialRecord(0, turns),))
    return replace(made, **changes)


def conversation(*evaluations: Evaluation, turns: Sequence[TurnRecord], **changes: Any) -> CaseRecord:
    """A case with one trial of the given turns, and evaluations of its whole conversation."""
    made = case_of(*turns, **changes)
    trials = tuple(replace(trial, evaluations=evaluations) for trial in made.trials)
    return replace(made, trials=trials, planned_evaluations=made.planned_evaluations + len(evaluations))


def record(*cases: CaseRecord, gates: Gates | None = None, **changes: Any) -> Record:
    """A record of the given cases, with ids made unique."""
    numbered = tuple(replace(item, id=f"case-{number}") for number, item in enumerate(cases))
    made = Record(
        schema_version=SCHEMA_VERSION,
        suite=SuiteIdentity("suite", "agent.yaml", "digest"),
        provenance=Provenance("1.0.0", "recorded:answers.jsonl"),
        gates=gates or Gates(),
        quarantine=(),
        stop_when_decided=True,
        cases=numbered,
        chosen=chosen_cases(item.id for item in numbered),
        run=RunInfo("run", "2026-11-21T00:00:00+00:00", "2026-11-21T00:00:01+00:00", 1000.0, "3.12.0"),
    )
    return replace(made, **changes)


def resealed(document: dict[str, Any]) -> str:
    """A results file with content of one's own, and with the digests that fit it, as whoever forges one would write."""
    try:
        ids = [str(case["id"]) for case in document["cases"]]
    except (KeyError, TypeError):
        ids = []
    content = {name: value for name, value in document.items() if name != "digest"}
    content["chosen"] = {"cases": len(ids), "digest": chosen_cases(ids).digest}
    text = json.dumps(content).removesuffix("}")
    return f'{text},\n "digest": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'
