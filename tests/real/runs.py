"""What holds for the record of any run that called the model."""

from __future__ import annotations

from holodeck_action.record.canonical import record_digest
from holodeck_action.record.record import ModelCalls, Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

CAPITALS = [{"name": land, "input": f"What is the capital of {land}?"} for land in ("France", "Italy")]
PATIENT = {"turn_timeout_s": 900, "case_timeout_s": 1800}
"""Limits for a model on a machine that has other work, too."""
LONGEST_MS = 900_000
"""Time for the evaluation of one answer."""
ANY_ANSWER = {"type": "length", "max_words": 1000}
"""A metric that every answer passes."""


def calls_of(record: Record) -> ModelCalls:
    """Return the model calls of a run, each of which was answered at once."""
    calls = record.run.model_calls
    assert calls is not None
    assert (calls.failed, calls.cached, calls.requests) == (0, 0, calls.calls)
    return calls


def check_replay(project: Project, *arguments: str) -> None:
    """Answer the run in `out` from its recording: nothing is requested, and the record has the same digest."""
    project.run("run", "-o", "again", "--replay", "tape", *arguments)
    live, again = (read_record(project.folder / name / "results.json") for name in ("out", "again"))
    assert record_digest(again) == record_digest(live)
    assert again.run.model_calls is not None
    assert again.run.model_calls.requests == 0
