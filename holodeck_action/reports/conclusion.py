"""Judges a record and builds its report."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.decision import OWN_TERMS, Terms, decide_with_totals
from holodeck_action.decide.survey import RecordTotals
from holodeck_action.decide.verdict import Verdict
from holodeck_action.record.record import Record
from holodeck_action.reports.history import NO_RUNS, EarlierRuns
from holodeck_action.reports.report_building import build_report
from holodeck_action.reports.report_views import Report
from holodeck_action.text.given_paths import GivenPath


class Conclusion(Struct, frozen=True):
    """A suite that was judged.

    Attributes:
        record: its record.
        verdict: the verdict on the record.
        report: the report of both.
        base: the record that it was compared with; None if there is none.
        folder: the folder of its files; None if there are no files.
        written: whether the files could be written.
    """

    record: Record
    verdict: Verdict
    report: Report
    base: Record | None = None
    folder: GivenPath | None = None
    written: bool = True


def conclude(
    record: Record,
    terms: Terms = OWN_TERMS,
    *,
    folder: str = "",
    results_digest: str | None = None,
    survey: RecordTotals | None = None,
    earlier_runs: EarlierRuns = NO_RUNS,
) -> Conclusion:
    """Judge a record and build its report.

    Args:
        record: the record of a run.
        terms: the terms by which the record is judged.
        folder: the suite's folder as the reader would type it.
        results_digest: digest of the record's file; None if there is no file.
        survey: counts and sums over the record's cases; None to compute them.
        earlier_runs: earlier runs in a history; their notices are added to the report's.
    """
    verdict, totals = decide_with_totals(record, terms, survey)
    verdict = replace(verdict, results_digest=results_digest)
    report = build_report(record, verdict, folder, earlier_runs.build_trend(record, verdict, terms.base), totals)
    report = replace(report, notices=(*report.notices, *earlier_runs.notices))
    return Conclusion(record, verdict, report, terms.base)
