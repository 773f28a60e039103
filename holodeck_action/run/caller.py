"""Who calls: everything that a command reads from or writes to the outside, as one value."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from holodeck_action.github.job import Job
    from holodeck_action.record.disk import Disk
    from holodeck_action.reports.terminal.progress import Following, Group
    from holodeck_action.run.loading import Surroundings
    from holodeck_action.run.request import Allowed
    from holodeck_action.text.given_paths import GivenPath
    from holodeck_action.workers.permission import CodeAllowed


@dataclass(frozen=True, slots=True)
class Caller:
    """The outside world of one call.

    Attributes:
        environ: the environment variables.
        cwd: absolute folder at which relative paths start, and in which code of suites runs.
        stdin: what is typed or piped in.
        stdout: takes what the command is asked for.
        stderr: takes progress, notes and errors.
        disk: what results are written with; None for the system's.
        pause: waits so many seconds, between calls to GitHub.
        signals: those that end a run in an orderly way; only a process of our own may catch any.
        group: folds lines of the log; None for what the environment understands.
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

    def following(self) -> Following:
        """Return what shows on standard error how far a command is."""
        from holodeck_action.reports.terminal.progress import following
        from holodeck_action.text.terminal import terminal_of

        group = self.group
        if group is None and self.environ.get("GITHUB_ACTIONS") == "true":
            from holodeck_action.github.runner import grouped

            group = grouped
        return following(self.stderr, terminal_of(self.stderr, self.environ), group)

    def surroundings(
        self,
        env_file: GivenPath | None,
        allowed: Allowed | None = None,
        requirements: tuple[str, ...] = (),
        *,
        permission: Callable[[], CodeAllowed] | None = None,
    ) -> Surroundings:
        """Return what the outside world says to a suite (see `Surroundings`).

        `permission` is None where the event of the job decides, and GitHub where that does not tell.
        """
        from holodeck_action.run.loading import Surroundings
        from holodeck_action.run.request import NOTHING_MORE

        home = self.environ.get("HOME")
        return Surroundings(
            self.environ,
            Path(home) if home else None,
            self.cwd,
            # GitHub may have to be asked.
            permission or cache(self._permission),
            env_file,
            allowed or NOTHING_MORE,
            requirements,
            self.note,
        )

    def _permission(self) -> CodeAllowed:
        with self.job() as job:
            return job.permission(self.cwd)

    def note(self, *sentences: str) -> None:
        """Write notes, each on a line of its own, to standard error."""
        from holodeck_action.text.plain import one_line

        self.stderr.writelines(f"note: {one_line(sentence, 1000)}\n" for sentence in sentences)
        self.stderr.flush()

    def job(self) -> Job:
        """Return the job that a run of this caller is part of, to be closed when the run is done."""
        from holodeck_action.github.job import Job
        from holodeck_action.run.options.action_inputs import accepts_forks, given_token

        environ = self.environ
        return Job(environ, given_token(environ), lambda: accepts_forks(environ), self.pause, lambda: datetime.now(UTC))
