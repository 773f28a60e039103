"""The one way from a record to what is said of it: decide, then report."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.decision import OWN_TERMS, Terms, decide
from holodeck_action.decide.survey import Survey
from holodeck_action.decide.verdict import Verdict
from holodeck_action.extensions.history.results_history import (
    NO_LINES,
    HistoryLine,
    HistoryLines,
    history_line,
    in_order,
    suite_of,
)
from holodeck_action.extensions.history.trends import History, history_of
from holodeck_action.record.record import Record
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from holodeck_action.suite.configuration_errors import ConfigurationError


class Conclusion(Struct, frozen=True):
    """A record, its verdict, and what there is to show of both."""

    record: Record
    verdict: Verdict
    report: Report


def conclude(
    record: Record,
    terms: Terms = OWN_TERMS,
    *,
    folder: str = "",
    results_digest: str | None = None,
    surveyed: Survey | None = None,
    earlier: HistoryLines = NO_LINES,
) -> Conclusion:
    """Decide and report.

    Args:
        record: what a run wrote.
        terms: what it is judged by.
        folder: the suite's, as the reader would type it.
        results_digest: of the file that holds the record; None for none.
        surveyed: what its cases came to, where that is known already.
        earlier: runs of a history, in any order; its notices become those of the report.
    """
    surveyed = Survey(record) if surveyed is None else surveyed
    verdict = replace(decide(record, terms, surveyed), results_digest=results_digest)
    history = _history(record, verdict, terms.base, earlier.lines)
    report = build_report(record, verdict, folder, history, surveyed)
    return Conclusion(record, verdict, replace(report, notices=(*report.notices, *earlier.notices)))


def _history(record: Record, verdict: Verdict, base: Record | None, earlier: Sequence[HistoryLine]) -> History | None:
    """Return what the earlier runs of the suite and this one tell together; None without earlier ones."""
    suite = suite_of(record)
    lines = [line for line in earlier if line.suite == suite]
    if not lines:
        return None
    run = None if record.baseline is None else record.baseline.base
    # Only that base has just been run; any other is itself a run of the past.
    again = base is not None and run is not None and run.source == "merge-base"
    try:
        rerun = history_line(base, decide(base)) if base is not None and again else None
        return history_of(in_order([*lines, history_line(record, verdict)]), rerun)
    except ConfigurationError:
        # Of a record that no run has written the report tells what it can.
        return history_of(lines)
