"""Which metrics a case itself lists."""

from __future__ import annotations

from bisect import bisect_right

from holodeck_action.results.positions import usable
from holodeck_action.results.views import CaseView, Report
from holodeck_action.suite.errors import SourceMark


class OwnMetrics:
    """Which metrics stand within a case: between its start and its last value, or else the next case of the file."""

    def __init__(self, report: Report) -> None:
        cases = (*report.attention, *report.passing, *report.informational)
        starts: dict[str, list[tuple[int, int]]] = {}
        for case in cases:
            starts.setdefault(case.source.file, []).append((case.source.line, case.source.column))
        self._starts = {file: sorted(set(places)) for file, places in starts.items()}
        # What other cases are graded by, too, is the suite's: older records do not tell where a case ends.
        users: dict[SourceMark, str] = {}
        self._shared: set[SourceMark] = set()
        for case in cases:
            marks = {m.source for trial in case.trials for turn in trial.turns for m in turn.metrics}
            for mark in marks:
                if mark is not None and users.setdefault(mark, case.id) != case.id:
                    self._shared.add(mark)

    def holds(self, case: CaseView, source: SourceMark) -> bool:
        """Tell whether a metric at `source` is listed on the case itself."""
        if source.file != case.source.file or not usable(case.source.line) or source in self._shared:
            return False
        start, place = (case.source.line, case.source.column), (source.line, source.column)
        if case.last is not None and place > (case.last.line, case.last.column):
            return False
        starts = self._starts[case.source.file]
        following = bisect_right(starts, start)
        return start <= place and (following == len(starts) or place < starts[following])
