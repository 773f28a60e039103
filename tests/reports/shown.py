"""Reports to test with."""

from __future__ import annotations

from datetime import date
from typing import Any

from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import (
    CaseRecord,
    ModelUsage,
    Record,
    RetrievedChunk,
    Timing,
    ToolAssertion,
    ToolInvocation,
    Usage,
)
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer import PageView, render_page
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from holodeck_action.suite.model.policy import Gates, QuarantineEntry
from tests.record.records import case, case_of, evaluation, record, turn

LARGE = 2**60 + 1
"""A number that browsers round."""
VOTES: tuple[dict[str, Any], ...] = (
    {"model": "openai/a", "score": 0.9, "passed": True, "reason": "fine", "error": None, "fallback": True},
    {"model": "openai/b", "score": None, "passed": None, "reason": "", "error": {"message": "late"}},
)


def report_of(made: Record, folder: str = "") -> Report:
    return build_report(made, decide(made), folder)


def page(made: Record, folder: str = "", **changes: Any) -> str:
    """The viewer's page of a record, with changes of its report."""
    concluded = conclude(made, folder=folder)
    concluded = replace(concluded, report=replace(concluded.report, **changes))
    view = PageView([concluded], concluded.report.exit_code, results="results.json")
    return b"".join(render_page(view)).decode()


def varied(**changes: Any) -> Record:
    """One case of every outcome, and one with trials."""
    return record(
        case("P", name="passes", tags=("fast",)),
        case("F", name="fails"),
        case("E", name="crashes"),
        case("", name="was not run"),
        case("F", name="is quarantined"),
        case_of(turn(evaluation(0.9, asserts=False)), name="only informs", asserting=False),
        case("FPP", repeat=3, min_pass=2, name="flaky"),
        case_of(
            turn(
                evaluation(0.2, 0.5, polarity="minimize", evaluator_name="toxicity"),
                evaluation("good", None, evaluator_name="tone", pass_values=("good",)),
                evaluation(None, status="skipped", explanation="no ground truth", evaluator_name="rouge"),
                tool_invocations=(ToolInvocation("search", {"q": "x"}, {"hits": 2}, duration_ms=3.0),),
                usage=Usage(10, 5, 0.01),
            ),
            turn(evaluation(0.1), index=1, response="", ground_truth="expected"),
            name="two turns",
        ),
        gates=Gates(min_pass_rate=0.9, max_errors=0),
        quarantine=(QuarantineEntry(case="case-4", reason="known", owner="me", expires=date(2027, 1, 1)),),
        **changes,
    )


def failing(count: int, answer: str, **changes: Any) -> list[CaseRecord]:
    return [
        case_of(turn(evaluation(0.1), response=answer), name=f"failing {number}", **changes) for number in range(count)
    ]


def passing(count: int) -> list[CaseRecord]:
    return [case("P", name=f"passing {number}") for number in range(count)]


DIFFERENCE = """--- a/app.py
+++ b/app.py
@@ -1,3 +1,3 @@
 def refund():
--- a/notes.md
+++ b/notes.md
+    pass
--- a/notes.md
+++ b/notes.md
@@ -0,0 +1 @@
+Paid back."""
WORKSPACE = {
    "changed": [
        {"path": "app.py", "change": "modified"},
        {"path": "app.pyc", "change": "added", "ignored": True},
        {"path": "logo.png", "change": "added"},
        {"path": "notes.md", "change": "added"},
    ],
    "difference": DIFFERENCE,
    "difference_cut": False,
    "kept": "workspaces/case-0/0",
}
"""What a coding agent changed; its first file has lines like the header of another."""


def full_record() -> Record:
    """A turn with something of everything that a record can hold."""
    judged = {"panel": {"verdicts": [*VOTES]}, "judge": "openai/a", "steps": ["one"]}
    full = turn(
        evaluation(0.4, evaluator_name="quality", cost_usd=0.002, metadata=judged),
        evaluation("bad", None, evaluator_name="tone", pass_values=("good",)),
        response="got",
        ground_truth="wanted",
        tool_invocations=(ToolInvocation("search", {"q": "x"}, {"id": LARGE}, duration_ms=3.04, error="slow"),),
        tool_assertions=(ToolAssertion("find(q=1)", False, -1, "find was not called"),),
        retrieved_chunks=(RetrievedChunk("a.md#1", "found", 0.7),),
        retrieval_context=("found", "found before"),
        context=("a file",),
        usage=Usage(10, 5, 0.01, models=(ModelUsage("m1"), ModelUsage("m2"))),
        timing=Timing("2026-11-21T00:00:00+00:00", 120.0, model_ms=80.04, first_token_ms=9.0),
        error=ErrorInfo("AgentError", "it broke", "broke", {"stderr": "trace"}),
        finish_reason="length",
        metadata={"route": "b", "workspace": WORKSPACE},
    )
    return record(case_of(full, multi_turn=True))
