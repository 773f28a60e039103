"""The earlier runs of which a report tells: those of a history, and those that are kept beside the results of a run."""

from __future__ import annotations

from pathlib import Path

from holodeck_action.decide.decision import decide
from holodeck_action.decide.verdict import Verdict
from holodeck_action.extensions.history.results_history import (
    HistoryLines,
    dump_line,
    history_line,
    in_order,
    parse_lines,
    suite_of,
)
from holodeck_action.extensions.history.trends import history_of
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import EARLIER_FILE, results_place
from holodeck_action.reports.history import History
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import RefusedFileError, read_file
from holodeck_action.text.given_paths import GivenPath

_MOST_RUNS = 50
"""More than a trend shows, as some take no part."""
_MOST_BYTES = 8 * 1024 * 1024


class Earlier(HistoryLines, frozen=True):
    """Runs of a history, see `EarlierRuns`."""

    @property
    def kept(self) -> tuple[bytes, ...]:
        """The lines of the file beside the results, of the newest runs."""
        return tuple(map(dump_line, self.lines[-_MOST_RUNS:]))

    def with_run(self, record: Record, verdict: Verdict, base: Record | None) -> History | None:
        """Return what those of the suite and one more run tell together; see `EarlierRuns`."""
        lines = self.of(suite_of(record))
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


def read_earlier(path: Path | GivenPath) -> Earlier:
    """Return the earlier runs of which the report of a results file tells; what cannot be read is skipped and noted."""
    file = Path(results_place(path)).absolute().with_name(EARLIER_FILE)
    try:
        # An artifact may hold a pipe by that name, or a link to anything.
        if file.is_symlink():
            raise RefusedFileError("is a link")
        content = read_file(file, _MOST_BYTES)
    except FileNotFoundError:
        return Earlier(())
    except OSError as error:
        return Earlier((), (f"{EARLIER_FILE}: is not read: {error.strerror}",))
    found = content.parse(lambda data: parse_lines(data, EARLIER_FILE))
    return Earlier(found.lines, found.notices)
