"""Reads the results with which a run is compared from a data branch.

The branch has no commit in common with the branches of the code. `holodeck_action.extensions.history.history_layout`
defines its paths, and `holodeck_action.extensions.history.branch_history` adds runs.
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
    job_variant,
    record_path,
    suite_key,
)
from holodeck_action.extensions.history.history_store import HistoryError, unpack
from holodeck_action.github.bases.branches import TreeEntry, blob
from holodeck_action.github.bases.stored_results import (
    Ancestry,
    Candidate,
    NoResultsError,
    Search,
    StoredResults,
    WantedSuite,
    check_results,
    explain_api_errors,
    short_text,
    to_stored_results,
)
from holodeck_action.github.rest.api import Api
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import BaseResults

MOST_PACKED = 32 * 1024 * 1024
"""Size limit of a packed record, and of the history, in bytes."""
MOST_READ = 30
"""Maximum number of results to read for one suite; reading each takes a request."""
_VARIANT = rf"(-[0-9a-f]{{{VARIANT_LENGTH}}})?{re.escape(RECORD_ENDING)}"


class BranchResults:
    """The stored results on a data branch."""

    def __init__(
        self, api: Api, name: str, entries: Callable[[], Sequence[TreeEntry] | None], now: Callable[[], datetime]
    ) -> None:
        """Store the branch; `entries` returns the entries of its tree, or None if the branch does not exist."""
        self._api, self._name, self._entries, self._now = api, name, entries, now

    def find(self, suite: WantedSuite, ancestry: Ancestry) -> StoredResults:
        """Return a suite's results at the wanted commit, or at the nearest earlier commit that has results.

        Raises:
            NoResultsError: there are no such results, or GitHub cannot be read.
        """
        with explain_api_errors(f"the branch {self._name}", "contents: read"):
            return self._find_nearest(suite, ancestry)

    def _find_nearest(self, suite: WantedSuite, ancestry: Ancestry) -> StoredResults:
        entries = self._entries()
        if entries is None:
            raise NoResultsError(f"there is no branch {self._name} yet: {_HOW_ADDED}")
        folders: defaultdict[str, list[TreeEntry]] = defaultdict(list)
        for entry in entries:
            if entry.type == "blob":
                folders[entry.path.rpartition("/")[0]].append(entry)
        problems: list[str] = []
        search = Search()
        read = 0
        for commit in sorted(ancestry.distances, key=lambda sha: ancestry.distances[sha]):
            for entry in _suite_entries(folders[f"{RECORDS_FOLDER}/{commit}"], commit, suite):
                if search.is_done(commit) or read == MOST_READ:
                    break
                read += 1
                try:
                    found = self._read(entry, commit, suite)
                except (RecordError, HistoryError) as error:
                    problems.append(short_text(str(error)))
                    continue
                if found is not None:
                    search.add(Candidate(found, commit, suite.fit(found.results.record)))
        best = search.best
        if best is not None:
            return to_stored_results(search, best, ancestry, self._now(), problems)
        if read == MOST_READ:
            problems.append(f"only the nearest {MOST_READ} results were read")
        if problems:
            raise NoResultsError(f"no results on the branch {self._name} can be used: {problems[0]}")
        raise NoResultsError(
            f"the branch {self._name} holds no results of this suite for {ancestry.phrase}: {_HOW_ADDED}"
        )

    def _read(self, entry: TreeEntry, commit: str, suite: WantedSuite) -> BaseResults | None:
        if entry.size > MOST_PACKED:
            raise RecordError(f"{entry.path}: is larger than {MOST_PACKED:,} bytes")
        return check_results(unpack(blob(self._api, entry.sha), entry.path), entry.path, suite, commit)


def _suite_entries(entries: Sequence[TreeEntry], commit: str, suite: WantedSuite) -> Iterator[TreeEntry]:
    """Yield the tree entries of a suite's results at a commit, starting with the results of the same job and target."""
    key = suite_key(suite.folder, suite.file)
    own = record_path(commit, key, job_variant(suite.target, suite.own_job))
    form = re.compile(re.escape(record_path(commit, key)[: -len(RECORD_ENDING)]) + _VARIANT)
    named = [entry for entry in entries if form.fullmatch(entry.path)]
    yield from sorted(named, key=lambda entry: (entry.path != own, entry.path))


_HOW_ADDED = "results are added by a run on a push to the default branch with the same baseline and `contents: write`"
