"""The history on a data branch, with the results that other runs are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holodeck_action.github.data_branch import Addition, BranchError, add_to_branch, read_history
from holodeck_action.github.job import Job
from holodeck_action.github.objects import ApiError
from holodeck_action.github.stored_results import SuitePlace, shown
from holodeck_action.results.history import HistoryLines, dump_line, parse_lines
from holodeck_action.results.history_layout import HISTORY_FILE
from holodeck_action.results.history_store import HistoryEntry, HistoryError


class BranchHistory:
    """A history on a branch of GitHub, see `HistoryStore`."""

    def __init__(self, job: Job, name: str, folder: Path) -> None:
        """Name the branch; `folder` is one in the checkout of its repository."""
        self._job, self._name, self._folder = job, name, folder

    def read(self) -> HistoryLines:
        """Return all lines, see `HistoryStore`."""
        try:
            content = read_history(self._job.api(self._folder), self._name)
        except (ApiError, BranchError) as error:
            raise self._trouble(error, "contents: read") from error
        return parse_lines(content, f"{HISTORY_FILE} of the branch {self._name}")

    def append(self, entries: Sequence[HistoryEntry]) -> None:
        """Add runs in one commit, see `HistoryStore`."""
        additions = [
            Addition(
                entry.line.place,
                SuitePlace(None, entry.line.suite),
                entry.results,
                dump_line(entry.line).decode().rstrip("\n"),
            )
            for entry in entries
        ]
        try:
            add_to_branch(self._job.api(self._folder), self._name, additions, pause=self._job.pause)
        except (ApiError, BranchError) as error:
            raise self._trouble(error, "contents: write") from error

    def _trouble(self, error: ApiError | BranchError, permission: str) -> HistoryError:
        denied = isinstance(error, ApiError) and error.kind == "denied"
        way_out = f": add {permission} to the permissions: of the job" if denied else ""
        return HistoryError(f"the branch {self._name}: {shown(str(error))}{way_out}")
