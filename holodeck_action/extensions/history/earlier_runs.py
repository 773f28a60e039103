"""Provides a suite's earlier runs for reports, from a history or from the file next to a run's results."""

from __future__ import annotations

from pathlib import Path

from holodeck_action.decide.decision import decide
from holodeck_action.decide.verdict import Verdict
from holodeck_action.extensions.history.history_lines import (
    HistoryLines,
    dump_line,
    history_line,
    parse_lines,
    sort_lines,
    suite_of,
)
from holodeck_action.extensions.history.trends import history_of
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import EARLIER_FILE, results_path
from holodeck_action.reports.history import History
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import RefusedFileError, read_file
from holodeck_action.text.given_paths import GivenPath

_MOST_RUNS = 50
"""Number of earlier runs to save: more than a trend shows, because trends omit some of the runs."""
_MOST_BYTES = 8 * 1024 * 1024


class EarlierLines(HistoryLines, frozen=True):
    """The lines of earlier runs; implements `EarlierRuns`."""

    @property
    def flaky_ids(self) -> frozenset[str]:
        """Ids of the cases that were flaky in recent runs; the lines must be those of one suite."""
        found = history_of(self.lines) if self.lines else None
        return frozenset() if found is None else frozenset(case.id for case in found.flaky)

    @property
    def saved_lines(self) -> tuple[bytes, ...]:
        """The lines of the newest runs, encoded for the file next to the results."""
        return tuple(map(dump_line, self.lines[-_MOST_RUNS:]))

    def build_trend(self, record: Record, verdict: Verdict, base: Record | None) -> History | None:
        """Return the trend of the suite over its earlier runs and this run; see `EarlierRuns`.

        Args:
            record: record of this run.
            verdict: verdict of this run.
            base: record of the run that this run is compared with; None if there is none.

        Returns:
            None if the suite has no earlier run, or if no run counts in trends.
        """
        lines = self.of_suite(suite_of(record))
        if not lines:
            return None
        run = None if record.baseline is None else record.baseline.base
        # Only a merge-base run is new; other bases are runs of the past.
        again = base is not None and run is not None and run.source == "merge-base"
        try:
            rerun = history_line(base, decide(base)) if base is not None and again else None
            return history_of(sort_lines([*lines, history_line(record, verdict)]), rerun)
        except ConfigurationError:
            # The record was not written by a run: show the earlier runs only.
            return history_of(lines)


def read_earlier(path: Path | GivenPath) -> EarlierLines:
    """Return the earlier runs stored next to a results file; an unreadable file or line is skipped with a notice."""
    file = Path(results_path(path)).absolute().with_name(EARLIER_FILE)
    try:
        # In an artifact this may be a pipe, or a link to any file.
        if file.is_symlink():
            raise RefusedFileError("is a link")
        content = read_file(file, _MOST_BYTES)
    except FileNotFoundError:
        return EarlierLines(())
    except OSError as error:
        return EarlierLines((), (f"{EARLIER_FILE}: is not read: {error.strerror}",))
    found = content.parse(lambda data: parse_lines(data, EARLIER_FILE))
    return EarlierLines(found.lines, found.notices)
