"""Where a run shows and writes what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from holodeck_action.record.disk import DISK, Disk
from holodeck_action.record.folder import Claims
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.terminal.progress import ProgressDisplay
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

if TYPE_CHECKING:
    from holodeck_action.reports.custom import CustomTemplate


class Ui(Struct, frozen=True):
    """Where a run shows and writes its results: reports go to `stdout`, progress and problems to `stderr`, files to
    `folder` (if not None).

    `caller` is whoever started the run, and `flags` has the options. `claims` keep other runs from writing to the
    folders. `template` renders report.md; None to use the built-in template. `reports` is whether reports are written
    in addition to the results. `on_conclusion` is called with the conclusion of each suite.
    """

    caller: Caller
    flags: Flags
    claims: Claims
    progress: ProgressDisplay
    folder: GivenPath | None
    template: CustomTemplate | None = None
    reports: bool = True
    on_conclusion: Callable[[Conclusion], None] = lambda concluded: None

    @property
    def stdout(self) -> TextIO:
        """The stream for reports."""
        return self.caller.stdout

    @property
    def stderr(self) -> TextIO:
        """The stream for progress, notes and problems."""
        return self.progress.stream

    @property
    def disk(self) -> Disk:
        """Writes the files."""
        return self.caller.disk or DISK

    def note(self, sentence: str) -> None:
        """Write a note of one sentence to standard error."""
        self.stderr.write(f"note: {one_line(sentence, 1000)}\n")
