"""A stored run as its page shows it."""

from __future__ import annotations

from holodeck_action.decide.decision import Terms
from holodeck_action.decide.survey import Survey
from holodeck_action.record.base_results import read_base
from holodeck_action.record.result_files import read_results
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.page.viewer_index import ViewedSuite
from holodeck_action.run.past import earlier_beside
from holodeck_action.text.given_paths import GivenPath


def read_viewed(results: GivenPath) -> ViewedSuite:
    """Read a record with what it is compared with, and judge it.

    Raises:
        RecordError: the file is no record, or its base is not beside it.
    """
    stored = read_results(results)
    record = stored.record
    base = read_base(results, record)
    surveyed = Survey(record, stored.record_digest)
    concluded = conclude(record, Terms.against(base), surveyed=surveyed, earlier=earlier_beside(results))
    return ViewedSuite(concluded, None if base is None else base.record)
