"""The histories of a run's suites, which are read before the run and extended after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holodeck_action.extensions.history.earlier_runs import EarlierLines
from holodeck_action.extensions.history.history_lines import (
    NO_LINES,
    HistoryLines,
    history_line,
    suite_name,
)
from holodeck_action.record.base_results import make_base_results
from holodeck_action.record.disk import Disk
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.run.run import Run
from holodeck_action.suite.checkout import repository_root
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.base_sources import parse_source
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.extensions.history.history_store import HistoryEntry, HistoryStore
    from holodeck_action.github.job import Job

_HistoryId = tuple[str, str]
"""The identity of a history: branch and root of the checkout; both are empty for a folder."""


class Histories:
    """Reads the histories of a run's suites and adds the run to them.

    In a workflow, a run is added only if it was triggered on the default branch by `push`, `schedule` or
    `workflow_dispatch`, and only if it evaluated the commit of that event. Outside of workflows, every run is added to
    a history in a folder, and no run to a history on a branch.
    """

    def __init__(
        self, history_place: GivenPath | str | None, job: Job, disk: Disk, note: Callable[[str], None]
    ) -> None:
        """Store the settings; nothing is read yet.

        Args:
            history_place: a folder or `branch:NAME`; None to use the branch that a suite is compared with, if any.
            job: job of the run.
            disk: writes the files of a history in a folder.
            note: called with a sentence for each history that cannot be read or extended.
        """
        self._given, self._job, self._disk, self._note = history_place, job, disk, note
        self._stores: dict[_HistoryId, HistoryStore] = {}
        self._lines: dict[_HistoryId, HistoryLines] = {}

    def of(self, suite: Run) -> EarlierLines | None:
        """Return the earlier runs of a suite; None if it has no history, or if this run grades stored answers again.

        Raises:
            HistoryError: a folder cannot be read. A branch that cannot be read only causes a note.
        """
        history_id = self._history_id(suite)
        if history_id is None:
            return None
        if history_id not in self._lines:
            self._stores[history_id] = self._open_store(history_id, suite)
            self._lines[history_id] = self._read(history_id)
        return EarlierLines(self._lines[history_id].of_suite(suite_name(suite.repository_folder, suite.suite.file)))

    def add(self, runs: Sequence[tuple[Run, Conclusion]]) -> None:
        """Add runs to their histories, with one write per history. A failure causes a note and changes no verdict."""
        added: dict[_HistoryId, list[Conclusion]] = {}
        for item, run in runs:
            history_id = self._history_id(item)
            if history_id is not None and self._belongs_in_history(run):
                added.setdefault(history_id, []).append(run)
        for history_id, found in added.items():
            try:
                self._stores[history_id].append([_history_entry(run) for run in found])
            except ConfigurationError as error:
                self._note(f"the run was not added to the history: {error}")

    def _history_id(self, suite: Run) -> _HistoryId | None:
        if suite.stored is not None:
            return None
        if isinstance(self._given, GivenPath):
            return "", ""
        source = self._given or suite.settings.baseline.source
        kind, name = ("", "") if source is None else parse_source(source)
        return (name, str(repository_root(suite.suite.folder))) if kind == "branch" else None

    def _open_store(self, history_id: _HistoryId, suite: Run) -> HistoryStore:
        from holodeck_action.extensions.history.branch_history import BranchHistory
        from holodeck_action.extensions.history.history_store import HistoryFolder

        if isinstance(self._given, GivenPath):
            return HistoryFolder(self._given, self._job.pause, self._disk)
        return BranchHistory(self._job, history_id[0], suite.suite.folder)

    def _read(self, history_id: _HistoryId) -> HistoryLines:
        from holodeck_action.extensions.history.history_store import HistoryError

        try:
            found = self._stores[history_id].read()
        except HistoryError as error:
            if isinstance(self._given, GivenPath):
                raise
            if self._given is not None:
                # Otherwise the report gives the same reason for the missing base.
                self._note(f"the history cannot be shown: {error}")
            return NO_LINES
        for notice in found.notices:
            self._note(notice)
        return found

    def _belongs_in_history(self, run: Conclusion) -> bool:
        """Return whether to add a run (see the class); print a note if the workflow runs for another commit."""
        environ = self._job.environ
        if not environ.get("GITHUB_EVENT_NAME", "").strip():
            return isinstance(self._given, GivenPath)
        if not self._job.base.on_default_branch:
            return False
        commit, expected = run.record.provenance.commit, environ.get("GITHUB_SHA", "").strip()
        if commit != expected:
            self._note(
                f"{run.record.suite.name}: not added to the history: commit {str(commit)[:12]} was evaluated, and the "
                f"workflow runs for {expected[:12]}"
            )
        return commit == expected


def _history_entry(run: Conclusion) -> HistoryEntry:
    from holodeck_action.extensions.history.history_store import HistoryEntry

    line = history_line(run.record, run.verdict)
    return HistoryEntry(line, make_base_results(run.record).content if line.is_counted else None)
