"""A branch that holds results and their history: read for the results that other runs are compared with.

It shares no commit with the code. `holodeck_action.extensions.history.history_layout` says what is where, and
`holodeck_action.extensions.history.branch_history` adds to it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from holodeck_action.extensions.history.history_layout import (
    RECORD_ENDING,
    RECORDS_FOLDER,
    VARIANT_LENGTH,
    record_path,
    suite_key,
    variant_of,
)
from holodeck_action.extensions.history.history_store import HistoryError, unpack
from holodeck_action.github.bases.stored_results import (
    Ancestry,
    Candidate,
    NoResultsError,
    Search,
    StoredResults,
    SuitePlace,
    checked,
    found_results,
    reading,
    shown,
)
from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.stored_objects import TreeEntry
from holodeck_action.record.result_files import BaseResults
from holodeck_action.record.stored_cases import RecordError

MOST_PACKED = 32 * 1024 * 1024
"""Bytes of one packed record, and of the history."""
MOST_READ = 30
"""Results that are read for one suite; each is a request."""
_VARIANT = rf"(-[0-9a-f]{{{VARIANT_LENGTH}}})?{re.escape(RECORD_ENDING)}"


class BranchResults:
    """The results on a data branch."""

    def __init__(
        self, api: Api, name: str, entries: Callable[[], Sequence[TreeEntry] | None], now: Callable[[], datetime]
    ) -> None:
        """Prepare to look; `entries` gives what stands on the branch, see `entries_of`."""
        self._api, self._name, self._entries, self._now = api, name, entries, now

    def find(self, suite: SuitePlace, ancestry: Ancestry) -> StoredResults:
        """Return the results of a suite at the wanted commit, or at the nearest commit before it.

        Raises:
            NoResultsError: there are none, or GitHub did not give them.
        """
        with reading(f"the branch {self._name}", "contents: read"):
            return self._nearest(suite, ancestry)

    def _nearest(self, suite: SuitePlace, ancestry: Ancestry) -> StoredResults:
        entries = self._entries()
        if entries is None:
            raise NoResultsError(f"there is no branch {self._name} yet: {_ADDED}")
        folders: defaultdict[str, list[TreeEntry]] = defaultdict(list)
        for entry in entries:
            if entry.type == "blob":
                folders[entry.path.rpartition("/")[0]].append(entry)
        problems: list[str] = []
        search = Search()
        read = 0
        for commit in sorted(ancestry.distances, key=lambda sha: ancestry.distances[sha]):
            for entry in _of_suite(folders[f"{RECORDS_FOLDER}/{commit}"], commit, suite):
                if search.done(commit) or read == MOST_READ:
                    break
                read += 1
                try:
                    found = self._read(entry, commit, suite)
                except (RecordError, HistoryError) as error:
                    problems.append(shown(str(error)))
                    continue
                if found is not None:
                    search.add(Candidate(found, commit, suite.fit(found.results.record)))
        best = search.best
        if best is not None:
            return found_results(search, best, ancestry, self._now(), problems)
        if read == MOST_READ:
            problems.append(f"only the nearest {MOST_READ} results were read")
        if problems:
            raise NoResultsError(f"no results on the branch {self._name} can be used: {problems[0]}")
        raise NoResultsError(f"the branch {self._name} has no results of this suite for {ancestry.named}: {_ADDED}")

    def _read(self, entry: TreeEntry, commit: str, suite: SuitePlace) -> BaseResults | None:
        if entry.size > MOST_PACKED:
            raise RecordError(f"{entry.path}: is larger than {MOST_PACKED:,} bytes")
        return checked(unpack(self._api.blob(entry.sha), entry.path), entry.path, suite, commit)


def _of_suite(entries: Sequence[TreeEntry], commit: str, suite: SuitePlace) -> Iterator[TreeEntry]:
    """Yield the results that the folder of a commit has of a suite, those of the same job and target first."""
    key = suite_key(suite.folder, suite.file)
    own = record_path(commit, key, variant_of(suite.target, suite.asker))
    form = re.compile(re.escape(record_path(commit, key)[: -len(RECORD_ENDING)]) + _VARIANT)
    named = [entry for entry in entries if form.fullmatch(entry.path)]
    yield from sorted(named, key=lambda entry: (entry.path != own, entry.path))


_ADDED = "a run of a push to the default branch with the same baseline and `contents: write` adds them"
