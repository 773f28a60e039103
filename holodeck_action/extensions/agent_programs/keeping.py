"""Keeps the files that failing trials changed in the run's folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holodeck_action.decide.case_verdicts import judge_trial
from holodeck_action.extensions.agent_programs.workspace import (
    Snapshot,
    WorkspaceError,
    restore,
    snapshot,
    stored_changes,
)
from holodeck_action.record.disk import check_links, make_folder, write_new
from holodeck_action.record.record import TrialRecord
from holodeck_action.text.foreign import Redact
from holodeck_action.text.given_paths import GivenPath

_MOST_BYTES = 200_000_000
"""Maximum bytes of all files that the folder of a run keeps."""


class LeftFiles:
    """The changed files of trials that have ended and are not yet graded."""

    def __init__(self, redact: Redact) -> None:
        """Create the instance; `redact` removes secrets from contents and names of folders."""
        self._redact = redact
        self._left: dict[tuple[str, int], Mapping[str, Any] | str] = {}
        self._room = _MOST_BYTES

    def place(self, case_id: str, trial: int) -> str:
        """Return the folder of a trial's files, relative to the run's folder."""
        return f"workspaces/{self._redact(case_id)}/{trial}"

    def hold(self, case_id: str, trial: int, workspace: Path, before: Snapshot) -> None:
        """Read the files that changed in a workspace since a snapshot."""
        try:
            left: Any = stored_changes(workspace, before, snapshot(workspace), self._redact)
        except WorkspaceError as error:
            left = str(error)
        self._left[case_id, trial] = left

    def keep(self, case_id: str, trial: TrialRecord, folder: GivenPath) -> None:
        """Write the files of a trial to the run's folder, if the trial did not pass."""
        left = self._left.pop((case_id, trial.index), None)
        if left is None:
            return
        passed = judge_trial(trial).outcome == "passed"
        self._room -= 0 if passed else len(str(left))
        if self._room < 0:
            left = f"was not kept, because those of a run may have {_MOST_BYTES:,} bytes"
        place = folder / self.place(case_id, trial.index)
        try:
            check_links(place)
            shutil.rmtree(place.path, ignore_errors=True)
            if passed:
                return
            make_folder(place)
            if isinstance(left, str):
                write_new(place.path / "not-kept.txt", [f"The workspace {left}\n".encode("utf-8", "replace")])
            else:
                restore(place.path, left, everything=False)
        except (OSError, WorkspaceError):
            # The verdict does not depend on these files.
            return
