"""The history on a data branch, with the results that other runs are compared with.

It is added to by compare-and-set: a commit on top of what was read becomes the branch only if the branch has not moved
meanwhile. So runs that end at the same time lose nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holodeck_action.extensions.history.data_branch import MOST_PACKED
from holodeck_action.extensions.history.history_layout import HISTORY_FILE, RECORDS_FOLDER
from holodeck_action.extensions.history.history_store import HistoryEntry, HistoryError, pack
from holodeck_action.extensions.history.results_history import (
    HistoryLine,
    HistoryLines,
    dump_line,
    lines_after,
    outdated_places,
    parse_lines,
)
from holodeck_action.github.bases.branches import head_of
from holodeck_action.github.bases.stored_results import shown
from holodeck_action.github.job import Job
from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.rest.stored_objects import TreeEntry

MOST_ATTEMPTS = 20
"""Times that an addition is tried while others add, too."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 4.0, 60.0
"""Seconds between attempts, doubled each time: 20 writers at once need 700 requests, of 1,000 that GitHub allows."""


class BranchHistory:
    """A history on a branch of GitHub, see `HistoryStore`."""

    def __init__(self, job: Job, name: str, folder: Path) -> None:
        """Name the branch; `folder` is one in the checkout of its repository."""
        self._job, self._name, self._folder = job, name, folder

    def read(self) -> HistoryLines:
        """Return all lines, see `HistoryStore`; there are none where there is no branch."""
        try:
            api = self._job.api(self._folder)
            content = self._content(api, self._job.branch_entries(api, self._name) or ())
        except ApiError as error:
            raise self._trouble(error.needing("contents: read")) from error
        return parse_lines(content, f"{HISTORY_FILE} of the branch {self._name}")

    def append(self, entries: Sequence[HistoryEntry]) -> None:
        """Add runs in one commit, see `HistoryStore`; the branch is made when there is none."""
        try:
            self._append(self._job.api(self._folder), entries)
        except ApiError as error:
            raise self._trouble(error.needing("contents: write")) from error

    def _append(self, api: Api, entries: Sequence[HistoryEntry]) -> None:
        packed = {
            entry.line.record_path: api.create_blob(b"".join(pack(entry.results)))
            for entry in entries
            if entry.results is not None
        }
        lines = [entry.line for entry in entries]
        head = head_of(api, self._name)
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                self._put(api, head, packed, lines)
            except ApiError as error:
                if error.kind != "invalid" and not error.accepted:
                    raise
                refused = error
            else:
                return
            # Writers that met once must not meet again: each costs the others requests, of which there are not many.
            self._job.pause(random.uniform(0.0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**attempt)))
            before, head = head, head_of(api, self._name)
            # What does not follow is `invalid`. So is what a rule forbids, but then the branch stays.
            if head == before and not refused.accepted:
                raise refused
        raise self._trouble(f"it moved {MOST_ATTEMPTS} times while it was added to; run fewer jobs at once")

    def _put(self, api: Api, head: str | None, packed: Mapping[str, str], new: Sequence[HistoryLine]) -> None:
        """Put a commit on top of what the branch named when it was read.

        Raises:
            ApiError: `invalid` where the branch has moved.
        """
        tree = None if head is None else api.tree_of(head)
        entries = () if tree is None else api.tree(tree)
        content = self._content(api, entries)
        known = parse_lines(content, HISTORY_FILE).lines
        # An answer may have been lost of an attempt that was carried out.
        added = tuple(lines_after(known, new))
        if not added:
            return
        changes = {**dict.fromkeys(_outdated(entries, (*known, *added))), **packed}
        # A line that was cut short stays a line of its own.
        before = content if not content or content.endswith(b"\n") else content + b"\n"
        changes[HISTORY_FILE] = api.create_blob(b"".join((before, *map(dump_line, added))))
        message = f"Results of {', '.join(sorted({line.place[:12] for line in added}))}"
        commit = api.create_commit(api.create_tree(tree, changes), () if head is None else (head,), message)
        if head is None:
            api.create_branch(self._name, commit)
        else:
            api.advance_branch(self._name, commit)

    def _content(self, api: Api, entries: Sequence[TreeEntry]) -> bytes:
        """Return what the history's file holds, of a branch with these entries.

        Raises:
            HistoryError: it is too large, or the branch is another one than a data branch.
        """
        found = next((item for item in entries if item.path == HISTORY_FILE), None)
        if found is not None and found.size > MOST_PACKED:
            raise self._trouble(f"{HISTORY_FILE} is larger than {MOST_PACKED:,} bytes; begin another branch")
        if found is None and any(not item.path.startswith(RECORDS_FOLDER) for item in entries):
            raise self._trouble(f"it has other files, and no {HISTORY_FILE}; name a branch for results alone")
        return b"" if found is None else api.blob(found.sha)

    def _trouble(self, sentence: str) -> HistoryError:
        return HistoryError(f"the branch {self._name}: {shown(sentence)}")


def _outdated(entries: Sequence[TreeEntry], lines: Sequence[HistoryLine]) -> Iterator[str]:
    """Yield the paths of results that are not kept any longer."""
    places = outdated_places(lines)
    for entry in entries:
        parts = entry.path.split("/")
        if entry.type == "blob" and len(parts) == 3 and parts[0] == RECORDS_FOLDER and parts[1] in places:
            yield entry.path
