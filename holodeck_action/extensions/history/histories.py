"""The history of each suite: read before anything runs, and added to when all suites are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holodeck_action.extensions.history.earlier_runs import Earlier
from holodeck_action.extensions.history.results_history import (
    NO_LINES,
    HistoryLines,
    history_line,
    suite_name,
)
from holodeck_action.record.base_results import results_of
from holodeck_action.record.disk import Disk
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.run.bases.baselines import folder_of
from holodeck_action.run.preflight import Prepared
from holodeck_action.suite.checkout import repository_root
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.base_sources import parse_source
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.extensions.history.history_store import HistoryEntry, HistoryStore
    from holodeck_action.github.job import Job

_Place = tuple[str, str]
"""What tells one history from another: its branch, and the root of the checkout (both empty for a folder)."""


class Histories:
    """The histories of the suites of a run.

    In a workflow only runs of the default branch by `push`, `schedule` or `workflow_dispatch` are added, and only if
    they checked out the commit of the event. Outside of one, every run is added to a folder, and none to a branch.
    """

    def __init__(self, given: GivenPath | str | None, job: Job, disk: Disk, note: Callable[[str], None]) -> None:
        """Prepare to read them.

        Args:
            given: a folder or `branch:NAME`; None for the branch that a suite is compared with, if there is one.
            job: that the run is part of.
            disk: what a folder is written with.
            note: takes sentences about what cannot be read or added.
        """
        self._given, self._job, self._disk, self._note = given, job, disk, note
        self._stores: dict[_Place, HistoryStore] = {}
        self._lines: dict[_Place, HistoryLines] = {}

    def of(self, item: Prepared) -> Earlier:
        """Return the earlier runs of a suite; none for stored answers that are graded again.

        Raises:
            HistoryError: a folder cannot be read. A branch that cannot be is noted.
        """
        place = self._place(item)
        if place is None:
            return Earlier(())
        if place not in self._lines:
            self._stores[place] = self._store(place, item)
            self._lines[place] = self._read(place)
        return Earlier(self._lines[place].of(suite_name(folder_of(item), item.suite.file)))

    def add(self, runs: Sequence[tuple[Prepared, Conclusion]]) -> None:
        """Add runs, those of one history together; what cannot be added is noted and changes no verdict."""
        added: dict[_Place, list[Conclusion]] = {}
        for item, run in runs:
            place = self._place(item)
            if place is not None and self._belongs(run):
                added.setdefault(place, []).append(run)
        for place, found in added.items():
            try:
                self._stores[place].append([_entry(run) for run in found])
            except ConfigurationError as error:
                self._note(f"the run was not added to the history: {error}")

    def _place(self, item: Prepared) -> _Place | None:
        if item.stored is not None:
            return None
        if isinstance(self._given, GivenPath):
            return "", ""
        source = self._given or item.settings.baseline.source
        kind, name = ("", "") if source is None else parse_source(source)
        return (name, str(repository_root(item.suite.folder))) if kind == "branch" else None

    def _store(self, place: _Place, item: Prepared) -> HistoryStore:
        from holodeck_action.extensions.history.branch_history import BranchHistory
        from holodeck_action.extensions.history.history_store import HistoryFolder

        if isinstance(self._given, GivenPath):
            return HistoryFolder(self._given, self._job.pause, self._disk)
        return BranchHistory(self._job, place[0], item.suite.folder)

    def _read(self, place: _Place) -> HistoryLines:
        from holodeck_action.extensions.history.history_store import HistoryError

        try:
            found = self._stores[place].read()
        except HistoryError as error:
            if isinstance(self._given, GivenPath):
                raise
            if self._given is not None:
                # Else the report says why there is no base, which is the same.
                self._note(f"the history cannot be shown: {error}")
            return NO_LINES
        for notice in found.notices:
            self._note(notice)
        return found

    def _belongs(self, run: Conclusion) -> bool:
        """Tell whether a run is one that its history is of."""
        environ = self._job.environ
        if not environ.get("GITHUB_EVENT_NAME", "").strip():
            return isinstance(self._given, GivenPath)
        if not self._job.base.own:
            return False
        commit, expected = run.record.provenance.commit, environ.get("GITHUB_SHA", "").strip()
        if commit != expected:
            self._note(
                f"{run.record.suite.name}: not added to the history: commit {str(commit)[:12]} was evaluated, and the "
                f"workflow runs for {expected[:12]}"
            )
        return commit == expected


def _entry(run: Conclusion) -> HistoryEntry:
    from holodeck_action.extensions.history.history_store import HistoryEntry

    line = history_line(run.record, run.verdict)
    return HistoryEntry(line, results_of(run.record).content if line.counts else None)
