"""The one way from a record to what is said of it: decide, then report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holodeck_action.results.decision import OWN_TERMS, Terms, decide
from holodeck_action.results.record import Record
from holodeck_action.results.report_building import build_report
from holodeck_action.results.report_views import Report
from holodeck_action.results.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A record, its verdict, and what there is to show of both."""

    record: Record
    verdict: Verdict
    report: Report


def conclude(
    record: Record, terms: Terms = OWN_TERMS, *, folder: str = "", results_digest: str | None = None
) -> Conclusion:
    """Decide and report.

    Args:
        record: what a run wrote.
        terms: what it is judged by.
        folder: the suite's, as the reader would type it.
        results_digest: of the file that holds the record; None for none.
    """
    verdict = replace(decide(record, terms), results_digest=results_digest)
    return Conclusion(record, verdict, build_report(record, verdict, folder))
