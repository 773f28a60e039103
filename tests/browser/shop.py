"""Two runs of a small shop's assistant with something of everything that a record can hold, and pages of them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import (
    CaseRecord,
    ModelUsage,
    Record,
    RetrievedChunk,
    Timing,
    ToolAssertion,
    ToolInvocation,
    TrialRecord,
    TurnRecord,
    Usage,
)
from holodeck_action.suite.model.policy import Gates, QuarantineEntry
from tests.commands.project import Project
from tests.record.records import case, case_of, evaluation, record, turn
from tests.reports.shown import WORKSPACE

PLAIN = 30
"""Cases that pass, beside those that have something to show."""
LONG = "The parcel leaves tomorrow. " * 700
_PANEL = {
    "aggregation": "majority_vote",
    "verdicts": [
        {"model": "openai/alpha", "score": 0.9, "passed": True, "reason": "polite", "error": None, "fallback": False},
        {"model": "openai/beta", "score": 0.2, "passed": False, "reason": "too curt", "error": None, "fallback": False},
    ],
}


def _plain(number: int) -> CaseRecord:
    score = 0.5 + number / (2 * PLAIN)
    asked = turn(
        evaluation(score),
        input=f"Where is order {number}?",
        response=f"Order {number} arrives on day {number}.",
        timing=Timing("2026-11-21T00:00:00+00:00", 100.0 + 10 * number, 90.0 + 10 * number, first_token_ms=20.0),
        usage=Usage(100 + number, 10, 0.0001 * (number + 1), models=(ModelUsage("openai/gpt-4o"),)),
    )
    return case_of(asked, name=f"order {number}", tags=("orders", "even" if number % 2 == 0 else "odd"))


def _refund(better: bool) -> CaseRecord:
    said = "You get the money back within 14 days."
    asked = turn(
        evaluation(0.95 if better else 0.2),
        evaluation(0.8, 0.5, evaluator_name="tone", metadata={"panel": _PANEL, "judge": "openai/alpha"}),
        input="When do I get my money back?",
        response=said if better else "You get the money back within 30 days, I guess.",
        ground_truth=said,
        tool_invocations=(
            ToolInvocation("find_order", {"id": "A-17"}, {"state": "returned"}, duration_ms=12.0),
            ToolInvocation("refund", {"id": "A-17", "days": 14}, None, error="the till is closed"),
        ),
        tool_assertions=() if better else (ToolAssertion("refund(days=30)", False, -1, "no call has days=30"),),
        retrieved_chunks=(RetrievedChunk("terms.md#3", "Refunds take 14 days.", 0.71),),
        context=("A letter from the customer.",),
    )
    return case_of(asked, name="refund", tags=("money",))


def _talk() -> CaseRecord:
    first = turn(evaluation(0.9), input="Hello", response="Good day!")
    second = turn(
        evaluation(0.1), index=1, input="I want a kettle", response="We sell no tents.", ground_truth="Which kettle?"
    )
    return case_of(first, second, name="two turns", multi_turn=True)


def run_of_shop(*, better: bool = False) -> Record:
    """A run with a case of every outcome; the better one passes the refund, and lacks a case that the other has."""
    long = turn(evaluation(0.9), response=LONG, ground_truth=None, input="Tell me all of it")
    cases = [
        _refund(better),
        _talk(),
        case("FPP", repeat=3, min_pass=2, name="flaky greeting"),
        case("P" if not better else "F", name="gift card"),
        replace(case("E", name="unreachable"), trials=(TrialRecord(0, (_broken(),)),)),
        case("F", name="known to fail"),
        case_of(turn(evaluation(0.9, asserts=False)), name="only informs", asserting=False),
        case_of(long, name="long answer"),
        *(_plain(number) for number in range(PLAIN)),
    ]
    if not better:
        cases.append(case("P", name="voucher"))
    made = record(*cases, gates=Gates(min_pass_rate=0.95))
    quarantine = (QuarantineEntry(case="case-5", reason="the till", owner="me", expires=date(2099, 1, 1)),)
    return replace(made, quarantine=quarantine, suite=replace(made.suite, name="shop"))


def _broken() -> TurnRecord:
    return turn(
        evaluation(None, status="pending", explanation="not evaluated"),
        response=None,
        error=ErrorInfo("AgentError", "the service answered 503", "agent_error"),
        metadata={"workspace": WORKSPACE},
    )


def written(folder: Path, name: str, made: Record) -> Path:
    """Write a record with its verdict into a folder below."""
    (folder / name).mkdir()
    write_results(folder / name, made, decide(made))
    return folder / name / "results.json"


def page_of(folder: Path, made: Record, name: str = "run") -> Path:
    """The page that the command makes of a record."""
    written(folder, name, made)
    finished = Project(folder).run("report", f"{name}/results.json", "--format", "html", "-o", f"{name}.html")
    assert (finished.code, finished.stderr) == (0, "")
    return folder / f"{name}.html"


def compared_page(folder: Path, before: Record, after: Record) -> Path:
    """The page that the command makes of two records."""
    written(folder, "before", before)
    written(folder, "after", after)
    finished = Project(folder).run("compare", "before", "after", "--format", "html")
    page = folder / "compared.html"
    page.write_text(finished.stdout, encoding="utf-8")
    return page
