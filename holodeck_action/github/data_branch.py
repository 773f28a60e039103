"""A branch that holds results and their history: read for the results to compare with, and added to after a run.

It shares no commit with the code. `holodeck_action.results.history_layout` says what is where. It is added to by
compare-and-set: a commit on top of what was read becomes the branch only if the branch has not moved meanwhile.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

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
from holodeck_action.results.history_layout import (
    HISTORY_FILE,
    RECORD_ENDING,
    RECORDS_FOLDER,
    kept_commits,
    record_path,
    suite_key,
)
from holodeck_action.results.result_files import BaseResults, RecordError

MOST_PACKED = 32 * 1024 * 1024
"""Bytes of one packed record, and of the history."""
MOST_UNPACKED = 256 * 1024 * 1024
MOST_ATTEMPTS = 20
"""Times that an addition is tried while others add, too."""
LONGEST_PAUSE_S = 30.0


class BranchError(Exception):
    """The branch could not be added to; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Addition:
    """What a run adds.

    Attributes:
        commit: that was evaluated.
        suite: which suite.
        results: the bytes of its results.json; None where they are not to be kept.
        line: its line of the history, JSON without a line's end.
    """

    commit: str
    suite: SuitePlace
    results: bytes | None
    line: str


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
            except RecordError as error:
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
            head = _head(self._api, self._name)
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
        return checked(_unpacked(self._api.blob(entry.sha), path), path, suite, commit)


def read_history(api: Api, name: str) -> bytes:
    """Return the lines of the history on a data branch; nothing where there is no branch.

    Raises:
        BranchError: the branch is not one of ours.
        ApiError: GitHub did not give it.
    """
    head = _head(api, name)
    return b"" if head is None else b"\n".join(_history(api, name, api.tree_of(head)))


def add_to_branch(api: Api, name: str, additions: Sequence[Addition], *, pause: Callable[[float], None]) -> None:
    """Add runs to a data branch, in one commit; the branch is made when there is none.

    Args:
        api: of the repository.
        name: of the branch.
        additions: what is added, in order.
        pause: waits for seconds, before a further attempt.

    Raises:
        BranchError: the branch is not one of ours, or others were always faster.
        ApiError: GitHub refused it.
    """
    packed = {
        record_path(item.commit, suite_key(item.suite.folder, item.suite.file)): api.create_blob(_packed(item.results))
        for item in additions
        if item.results is not None
    }
    for attempt in range(1, MOST_ATTEMPTS + 1):
        head = _head(api, name)
        try:
            _add_on(api, name, head, packed, additions)
        except ApiError as error:
            # What does not follow is `invalid`. So is what a rule of the repository forbids, where the branch stays.
            moved = error.kind == "invalid" and _head(api, name) != head
            if not moved and not error.accepted:
                raise
        else:
            return
        # Writers that met once must not meet again.
        pause(random.uniform(0.0, min(LONGEST_PAUSE_S, 2.0**attempt)))
    raise BranchError(f"the branch {name} moved {MOST_ATTEMPTS} times while it was added to: run fewer jobs at once")


def _add_on(api: Api, name: str, head: str | None, packed: Mapping[str, str], additions: Sequence[Addition]) -> None:
    """Put a commit on top of what the branch named when it was read.

    Raises:
        ApiError: `invalid` where the branch has moved.
    """
    tree = None if head is None else api.tree_of(head)
    lines = [] if tree is None else _history(api, name, tree)
    # An answer may have been lost of an attempt that was carried out.
    new = [line for item in additions if (line := item.line.encode()) not in lines]
    if not new:
        return
    lines += new
    outdated = () if tree is None else _outdated(api, tree, lines)
    changes = {**dict.fromkeys(outdated), **packed}
    changes[HISTORY_FILE] = api.create_blob(b"".join(line + b"\n" for line in lines))
    commits = sorted({item.commit[:12] for item in additions})
    message = f"Results of {', '.join(commits)}"
    commit = api.create_commit(api.create_tree(tree, changes), () if head is None else (head,), message)
    if head is None:
        api.create_branch(name, commit)
    else:
        api.advance_branch(name, commit)


def _head(api: Api, name: str) -> str | None:
    """Return the commit that the branch names; None where there is no branch."""
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


def _history(api: Api, name: str, tree: str) -> list[bytes]:
    """Return the lines of the history.

    Raises:
        BranchError: it is too large, or the branch is another one than a data branch.
    """
    entries = api.tree(tree)
    found = next((item for item in entries if item.path == HISTORY_FILE), None)
    if found is None:
        if any(item.path != RECORDS_FOLDER for item in entries):
            raise BranchError(
                f"the branch {name} has other files, and no {HISTORY_FILE}: name a branch for results alone"
            )
        return []
    if found.size > MOST_PACKED:
        raise BranchError(f"{HISTORY_FILE} of the branch {name} is larger than {MOST_PACKED:,} bytes: begin another")
    return [line for line in api.blob(found.sha).split(b"\n") if line]


def _outdated(api: Api, tree: str, lines: Sequence[bytes]) -> Iterator[str]:
    """Yield the paths of results that are not kept any longer."""
    times = dict(_times(lines))
    kept = kept_commits(times)
    for commit, folder in _record_folders(api, tree).items():
        # What the history does not name, somebody else has put there.
        if commit in times and commit not in kept:
            yield from (f"{RECORDS_FOLDER}/{commit}/{entry.path}" for entry in api.tree(folder.sha))


def _times(lines: Sequence[bytes]) -> Iterator[tuple[str, datetime]]:
    """Yield commits with their times, a later run of the same after an earlier one."""
    for line in lines:
        try:
            entry = json.loads(line)
            moment = datetime.fromisoformat(entry["time"])
            commit = entry["commit"]
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if isinstance(commit, str):
            yield commit, moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _unpacked(content: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"{name}: is no gzip file") from error
    if len(found) > MOST_UNPACKED:
        raise RecordError(f"{name}: unpacks to more than {MOST_UNPACKED:,} bytes")
    return found


_ADDED = "a run of a push to the default branch with the same baseline and `contents: write` adds them"
