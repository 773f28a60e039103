"""Reports of suites whose cases stand on lines that a test chooses."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import CaseRecord, Provenance, TurnRecord
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from holodeck_action.suite.errors import SourceMark
from tests.record.records import case_of, evaluation, record, turn

GLOBAL = SourceMark("agent.yaml", 1, 1)
"""Where the suite's own metrics stand: before its cases."""


def at(line: int, column: int = 5, file: str = "agent.yaml") -> SourceMark:
    """A position."""
    return SourceMark(file, line, column)


def metric(score: Any, threshold: float | None = 0.5, source: SourceMark | None = GLOBAL, **changes: Any) -> Evaluation:
    """A metric of the suite, or of the case when its source lies in it."""
    made = evaluation(score, threshold, **changes)
    return replace(made, criteria=replace(made.criteria, source=source))


def case_at(line: int, *evaluations: Evaluation, file: str = "agent.yaml", **changes: Any) -> CaseRecord:
    """A case of one turn that stands on a line."""
    asked: dict[str, Any] = {key: changes.pop(key) for key in ("input", "response", "ground_truth") if key in changes}
    return placed(line, turn(*evaluations, source=at(line, file=file), **asked), file=file, **changes)


def placed(line: int, *turns: TurnRecord, file: str = "agent.yaml", **changes: Any) -> CaseRecord:
    """A case of the given turns that stands on a line."""
    return case_of(*turns, source=at(line, file=file), **changes)


def report_of(*cases: CaseRecord, folder: str | None = "shop", **changes: Any) -> Report:
    """The report of a suite in a folder of its repository."""
    made = record(*cases, provenance=Provenance("1.0.0", "recorded:answers.jsonl", folder=folder), **changes)
    return build_report(made, decide(made))
