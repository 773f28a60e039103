"""The caller of a command: environment, folder, streams and other resources, as one value."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from holodeck_action.github.job import Job
    from holodeck_action.record.disk import Disk
    from holodeck_action.reports.terminal.progress import Group, ProgressDisplay
    from holodeck_action.run.loading import SuiteContext
    from holodeck_action.run.options.action_inputs import Flags
    from holodeck_action.workers.permission import CodeAllowed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Caller:
    """The environment, folder, streams and other resources of one call of the program.

    Attributes:
        environ: the environment variables.
        cwd: absolute path of the folder that relative paths start from and in which suites' code runs.
        stdin: the standard input.
        stdout: takes the output of the command.
        stderr: takes progress, notes and errors.
        disk: writes results; None to use the file system directly.
        pause: function that waits for a number of seconds, between requests to GitHub.
        signals: signals that end a run in an orderly way; empty if another program owns the process.
        group: makes a group of log lines collapsible; None to choose by the CI system.
    """

    environ: Mapping[str, str]
    cwd: Path
    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    disk: Disk | None = None
    pause: Callable[[float], None] = time.sleep
    signals: Sequence[Signals] = ()
    group: Group | None = None

    def redact(self, text: str) -> str:
        """Return a text without the secrets of the environment, and without what looks like a key."""
        from holodeck_action.text.redaction import Redactor
        from holodeck_action.text.secrets import environment_secrets

        return Redactor(environment_secrets(self.environ)).text(text)

    def progress_display(self) -> ProgressDisplay:
        """Return the progress display on standard error."""
        from holodeck_action.reports.terminal.progress import progress_display
        from holodeck_action.text.terminal import terminal_of

        group = self.group
        if group is None and self.environ.get("GITHUB_ACTIONS") == "true":
            from holodeck_action.github.runner import fold_lines

            group = fold_lines
        return progress_display(self.stderr, terminal_of(self.stderr, self.environ), group)

    def suite_context(
        self, flags: Flags | None = None, permission: Callable[[tuple[Path, ...]], CodeAllowed] | None = None
    ) -> SuiteContext:
        """Return the environment, folders and permissions of suites; `flags` has the options of the command, if any.

        If `permission` is None, the job's event decides whether code may run; if the event does not suffice, GitHub is
        queried.
        """
        from holodeck_action.run.loading import SuiteContext
        from holodeck_action.run.options.action_inputs import Flags

        given = flags or Flags()
        # Cached: it may call GitHub.
        permission = permission or cache(partial(self._permission, accepted=given.allow_unsafe_forks))
        return SuiteContext(self.environ, self.cwd, permission, given, self.note)

    def _permission(self, folders: Sequence[Path], *, accepted: bool) -> CodeAllowed:
        with self.job() as job:
            return job.permission(folders, accepted=accepted)

    def note(self, *sentences: str) -> None:
        """Write notes, each on its own line, to standard error."""
        from holodeck_action.text.plain import one_line

        self.stderr.writelines(f"note: {one_line(sentence, 1000)}\n" for sentence in sentences)
        self.stderr.flush()

    def job(self) -> Job:
        """Return the CI job of the caller's run, which must be closed after the run."""
        from holodeck_action.github.job import Job
        from holodeck_action.run.options.input_values import github_token

        return Job(self.environ, github_token(self.environ), self.pause, lambda: datetime.now(UTC))
