"""Positions that a repository can have: paths within it, lines from 1, and which metrics a case itself lists."""

from __future__ import annotations

import posixpath
from bisect import bisect_right

from holodeck_action.results.views import CaseView, Report
from holodeck_action.suite.marks import SourceMark

_LAST = 2**31 - 1
"""Largest line and column: the API's are 32-bit integers."""
_LONGEST_PATH = 4096
"""Bytes of a path (`PATH_MAX` of Linux)."""


def usable(number: int) -> bool:
    """Tell whether a file can have such a line or column."""
    return 1 <= number <= _LAST


def repository_path(report: Report, source: SourceMark) -> str | None:
    """Return the path of a position's file in the suite's repository; None when no line of it can be meant.

    Args:
        report: the report that the position is of; its folder and files may be invented, as a fork's record is.
        source: the position; its file may lie outside of the suite's folder, but not of the repository.
    """
    folder, file = report.provenance.folder, source.file
    if folder is None or not file or not usable(source.line):
        return None
    written = f"{folder}/{file}"
    if file.startswith("/") or folder.startswith("/") or "\\" in written or not written.isprintable():
        return None
    path = posixpath.normpath(posixpath.join(folder, file))
    if path in (".", "..") or path.startswith("../") or len(path.encode()) > _LONGEST_PATH:
        return None
    return path


class OwnMetrics:
    """Which metrics stand within a case: between its start and that of the next case of the file."""

    def __init__(self, report: Report) -> None:
        cases = (*report.attention, *report.passing, *report.informational)
        starts: dict[str, list[tuple[int, int]]] = {}
        for case in cases:
            starts.setdefault(case.source.file, []).append((case.source.line, case.source.column))
        self._starts = {file: sorted(set(places)) for file, places in starts.items()}
        # The last case has no end: what other cases are graded by, too, is the suite's.
        users: dict[SourceMark, str] = {}
        self._shared: set[SourceMark] = set()
        for case in cases:
            marks = {m.source for trial in case.trials for turn in trial.turns for m in turn.metrics}
            for mark in marks:
                if mark is not None and users.setdefault(mark, case.id) != case.id:
                    self._shared.add(mark)

    def holds(self, case: CaseView, source: SourceMark) -> bool:
        """Tell whether a metric at `source` is listed on the case itself."""
        if source.file != case.source.file or source in self._shared:
            return False
        start, place = (case.source.line, case.source.column), (source.line, source.column)
        starts = self._starts[case.source.file]
        following = bisect_right(starts, start)
        return start <= place and (following == len(starts) or place < starts[following])
