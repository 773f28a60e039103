"""Reads a stored run, and judges it."""

from __future__ import annotations

from holodeck_action.decide.decision import Terms
from holodeck_action.decide.survey import RecordTotals
from holodeck_action.record.base_results import read_base
from holodeck_action.record.result_files import read_results
from holodeck_action.reports.conclusion import Conclusion, conclude
from holodeck_action.run.past import stored_earlier_runs
from holodeck_action.text.given_paths import GivenPath


def read_conclusion(results: GivenPath) -> Conclusion:
    """Read a record and its base, and compute the verdict.

    Raises:
        RecordError: the file is not a record, or the base's results are missing in its folder.
    """
    stored = read_results(results)
    record = stored.record
    base = read_base(results, record)
    surveyed = RecordTotals(record, stored.record_digest)
    return conclude(record, Terms.against(base), survey=surveyed, earlier_runs=stored_earlier_runs(results))
