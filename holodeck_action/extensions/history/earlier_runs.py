"""The earlier runs beside the results of a run, which its report tells of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holodeck_action.extensions.history.results_history import (
    NO_LINES,
    HistoryLine,
    HistoryLines,
    dump_line,
    parse_lines,
)
from holodeck_action.record.result_files import EARLIER_FILE, results_place
from holodeck_action.text.foreign import RefusedFileError, read_file
from holodeck_action.text.given_paths import GivenPath

_MOST_RUNS = 50
"""More than a trend shows, as some take no part."""
_MOST_BYTES = 8 * 1024 * 1024


def earlier_lines(runs: Sequence[HistoryLine]) -> tuple[bytes, ...]:
    """Return the lines of the file, of the newest runs."""
    return tuple(map(dump_line, runs[-_MOST_RUNS:]))


def read_earlier(path: Path | GivenPath) -> HistoryLines:
    """Return the earlier runs of which the report of a results file tells; what cannot be read is skipped and noted."""
    file = Path(results_place(path)).absolute().with_name(EARLIER_FILE)
    try:
        # An artifact may hold a pipe by that name, or a link to anything.
        if file.is_symlink():
            raise RefusedFileError("is a link")
        content = read_file(file, _MOST_BYTES)
    except FileNotFoundError:
        return NO_LINES
    except OSError as error:
        return HistoryLines((), (f"{EARLIER_FILE}: is not read: {error.strerror}",))
    return content.parse(lambda data: parse_lines(data, EARLIER_FILE))
