"""A branch that holds results and their history: read for the results that other runs are compared with.

It shares no commit with the code. `holodeck_action.results.history_layout` says what is where, and
`holodeck_action.github.branch_history` adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from holodeck_action.github.api import Api
from holodeck_action.github.objects import ApiError
from holodeck_action.github.stored_objects import TreeEntry
from holodeck_action.github.stored_results import (
    Ancestry,
    NoResultsError,
    StoredResults,
    SuitePlace,
    checked,
    found_results,
    shown,
)
from holodeck_action.results.history_layout import RECORD_ENDING, RECORDS_FOLDER, suite_key
from holodeck_action.results.history_store import HistoryError, unpack
from holodeck_action.results.result_files import BaseResults, RecordError

MOST_PACKED = 32 * 1024 * 1024
"""Bytes of one packed record, and of the history."""


class BranchResults:
    """The results on a data branch."""

    def __init__(self, api: Api, name: str, now: Callable[[], datetime]) -> None:
        self._api, self._name, self._now = api, name, now
        self._folders: Mapping[str, TreeEntry] | None = None

    def find(self, suite: SuitePlace, ancestry: Ancestry) -> StoredResults:
        """Return the results of a suite at the wanted commit, or at the nearest commit before it.

        Raises:
            NoResultsError: there are none, or GitHub did not give them.
        """
        try:
            return self._nearest(suite, ancestry)
        except ApiError as error:
            sentence = f"the branch {self._name} cannot be read: {error.needing('contents: read')}"
            raise NoResultsError(sentence) from error

    def _nearest(self, suite: SuitePlace, ancestry: Ancestry) -> StoredResults:
        problems: list[str] = []
        folders = self._commits()
        for commit in sorted(folders.keys() & ancestry.distances.keys(), key=lambda sha: ancestry.distances[sha]):
            try:
                found = self._in(folders[commit], commit, suite)
            except (RecordError, HistoryError) as error:
                problems.append(shown(str(error)))
                continue
            if found is not None:
                return found_results(found, commit, ancestry, self._now(), problems)
        if problems:
            raise NoResultsError(f"no results on the branch {self._name} can be used: {problems[0]}")
        raise NoResultsError(f"the branch {self._name} has no results of this suite for {ancestry.named}: {_ADDED}")

    def _commits(self) -> Mapping[str, TreeEntry]:
        """Return the folders of the branch that have the results of a commit."""
        if self._folders is None:
            head = head_of(self._api, self._name)
            if head is None:
                raise NoResultsError(f"there is no branch {self._name} yet: {_ADDED}")
            self._folders = _record_folders(self._api, self._api.tree_of(head))
        return self._folders

    def _in(self, folder: TreeEntry, commit: str, suite: SuitePlace) -> BaseResults | None:
        name = suite_key(suite.folder, suite.file) + RECORD_ENDING
        entry = next((item for item in self._api.tree(folder.sha) if item.path == name), None)
        if entry is None:
            return None
        path = f"{RECORDS_FOLDER}/{commit}/{name}"
        if entry.type != "blob" or entry.size > MOST_PACKED:
            raise RecordError(f"{path}: is no file of at most {MOST_PACKED:,} bytes")
        return checked(unpack(self._api.blob(entry.sha), path), path, suite, commit)


def head_of(api: Api, name: str) -> str | None:
    """Return the commit that a branch names; None where there is no branch.

    Raises:
        ApiError: GitHub did not tell.
    """
    try:
        return api.branch(name)
    except ApiError as error:
        if error.kind == "not_found":
            return None
        raise


def _record_folders(api: Api, tree: str) -> dict[str, TreeEntry]:
    records = next((item for item in api.tree(tree) if item.path == RECORDS_FOLDER and item.type == "tree"), None)
    entries = () if records is None else api.tree(records.sha)
    return {entry.path: entry for entry in entries if entry.type == "tree"}


_ADDED = "a run of a push to the default branch with the same baseline and `contents: write` adds them"
