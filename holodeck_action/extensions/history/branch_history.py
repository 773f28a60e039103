"""A history stored on a branch on GitHub, together with the results that later runs are compared with.

A new commit becomes the branch's head only if the branch has not advanced since it was read (compare-and-set). So
concurrent runs do not overwrite each other.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holodeck_action.extensions.history.data_branch import MOST_PACKED
from holodeck_action.extensions.history.history_layout import HISTORY_FILE, RECORDS_FOLDER
from holodeck_action.extensions.history.history_lines import (
    HistoryLine,
    HistoryLines,
    dump_line,
    new_lines,
    outdated_folders,
    parse_lines,
)
from holodeck_action.extensions.history.history_store import HistoryEntry, HistoryError, pack
from holodeck_action.github.bases import branches
from holodeck_action.github.bases.stored_results import short_text
from holodeck_action.github.job import Job
from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError

if TYPE_CHECKING:
    from github.GitRef import GitRef

MOST_ATTEMPTS = 20
"""Maximum number of attempts to add runs while other writers add runs, too."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 4.0, 60.0
"""First and longest pause between attempts, in seconds; each pause is twice as long as the previous one.
20 concurrent writers need 700 of the 1,000 requests that GitHub allows."""


class BranchHistory:
    """A history on a branch on GitHub; implements `HistoryStore`."""

    def __init__(self, job: Job, name: str, folder: Path) -> None:
        """Store the settings; nothing is read yet.

        Args:
            job: job of the run, which provides access to GitHub's API.
            name: name of the branch.
            folder: any folder in a checkout of the repository that has the branch.
        """
        self._job, self._name, self._folder = job, name, folder

    def read(self) -> HistoryLines:
        """Return all lines; no lines if the branch does not exist. See `HistoryStore`."""
        try:
            api = self._job.api(self._folder)
            content = self._content(api, self._job.branch_entries(api, self._name) or ())
        except ApiError as error:
            raise self._history_error(error.with_remedy("contents: read")) from error
        return parse_lines(content, f"{HISTORY_FILE} of the branch {self._name}")

    def append(self, entries: Sequence[HistoryEntry]) -> None:
        """Add runs in one commit; create the branch if needed. See `HistoryStore`."""
        try:
            self._append(self._job.api(self._folder), entries)
        except ApiError as error:
            raise self._history_error(error.with_remedy("contents: write")) from error

    def _append(self, api: Api, entries: Sequence[HistoryEntry]) -> None:
        packed = {
            entry.line.record_path: branches.create_blob(api, pack(entry.results))
            for entry in entries
            if entry.results is not None
        }
        lines = [entry.line for entry in entries]
        head = branches.head_of(api, self._name)
        for attempt in range(1, MOST_ATTEMPTS + 1):
            try:
                self._commit_lines(api, head, packed, lines)
            except ApiError as error:
                if error.kind != "invalid" and not error.accepted:
                    raise
                refused = error
            else:
                return
            # A random pause keeps writers from colliding again; each collision costs requests, which are limited.
            self._job.pause(random.uniform(0.0, min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**attempt)))
            before, head = head, branches.head_of(api, self._name)
            # `invalid` means that the branch moved, or that a rule forbids the change; then the branch has not moved.
            if branches.head_hash(head) == branches.head_hash(before) and not refused.accepted:
                raise refused
        raise self._history_error(
            f"it changed {MOST_ATTEMPTS} times while the run was being added; run fewer jobs at once"
        )

    def _commit_lines(
        self, api: Api, head: GitRef | None, packed: Mapping[str, str], added_lines: Sequence[HistoryLine]
    ) -> None:
        """Commit new lines and results on top of `head`; create the branch if `head` is None.

        Args:
            head: reference of the branch, with its latest commit.
            packed: ids of the blobs with compressed results, by path.
            added_lines: lines to add; lines that the history already has are not added again.

        Raises:
            ApiError: a request failed; its kind is `invalid` if `head` is no longer the branch's latest commit.
            HistoryError: the branch is not a history, or its history is too large.
        """
        tree = None if head is None else branches.tree_of(api, head.object.sha)
        entries = () if tree is None else branches.entries_of(tree)
        content = self._content(api, entries)
        known = parse_lines(content, HISTORY_FILE).lines
        # An earlier attempt may have succeeded although its answer was lost.
        added = tuple(new_lines(known, added_lines))
        if not added:
            return
        changes = {**dict.fromkeys(_outdated_paths(entries, (*known, *added))), **packed}
        # A truncated last line stays a separate line.
        before = content if not content or content.endswith(b"\n") else content + b"\n"
        changes[HISTORY_FILE] = branches.create_blob(api, b"".join((before, *map(dump_line, added))))
        message = f"Results of {', '.join(sorted({line.results_folder[:12] for line in added}))}"
        branches.commit_files(api, self._name, head, tree, changes, message)

    def _content(self, api: Api, entries: Sequence[branches.TreeEntry]) -> bytes:
        """Return the content of a branch's history file; empty if the branch has no files.

        Raises:
            HistoryError: the file is too large, or the branch has only other files.
        """
        found = next((item for item in entries if item.path == HISTORY_FILE), None)
        if found is not None and found.size > MOST_PACKED:
            raise self._history_error(f"{HISTORY_FILE} is larger than {MOST_PACKED:,} bytes; begin another branch")
        if found is None and any(not item.path.startswith(RECORDS_FOLDER) for item in entries):
            raise self._history_error(
                f"it has other files and no {HISTORY_FILE}; name a branch that holds only results"
            )
        return b"" if found is None else branches.blob(api, found.sha)

    def _history_error(self, sentence: str) -> HistoryError:
        return HistoryError(f"the branch {self._name}: {short_text(sentence)}")


def _outdated_paths(entries: Sequence[branches.TreeEntry], lines: Sequence[HistoryLine]) -> Iterator[str]:
    """Yield the paths of the results that the history no longer keeps; see `outdated_folders`."""
    places = outdated_folders(lines)
    for entry in entries:
        parts = entry.path.split("/")
        if entry.type == "blob" and len(parts) == 3 and parts[0] == RECORDS_FOLDER and parts[1] in places:
            yield entry.path
