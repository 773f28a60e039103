"""One run of a suite for all tests of a session, also if several processes have them."""

from __future__ import annotations

import fcntl
import glob
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from holodeck_action.record.disk import open_lock, write_atomically
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.reports.report_views import CaseView, Report, cases_in_suite_order
from holodeck_action.run.viewed import read_conclusion
from holodeck_action.text.foreign import read_file
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.workers.permission import NO_CODE
from holodeck_action.workers.processes import KillableProcess

_MOST_OUTPUT = 64 * 1024 * 1024


class FinishedRun(Struct, frozen=True):
    """A run that has ended.

    Attributes:
        exit_code: exit code of holodeck-action.
        output: what it printed.
        report: the report; None if there are no results.
        cases: the cases of the report by id.
    """

    exit_code: int
    output: str
    report: Report | None
    cases: Mapping[str, CaseView]


class SharedRun:
    """The run of a suite. `chosen` has the ids of the cases to run, `all_cases` is how many the suite has."""

    def __init__(self, suite: Path, output: Path, state: Path, arguments: Sequence[str], start: Path) -> None:
        """Store where the suite is, where its results go, and in which folder `holodeck-action run` starts.

        Args:
            suite: path of the suite.
            output: folder for the results.
            state: folder of the files by which processes share the run.
            arguments: further arguments of `holodeck-action run`.
            start: folder in which it starts.
        """
        self.start = start
        self.chosen: set[str] = set()
        self.all_cases = 0
        self._suite, self._output, self._state, self._arguments = suite, output, state, arguments
        self._finished: FinishedRun | None = None

    def finish(self) -> FinishedRun:
        """Return the run; if no process has begun it, run it, and else wait for its end."""
        if self._finished is None:
            self._state.mkdir(exist_ok=True)
            ended = self._state / "exit-code"
            lock = open_lock(self._state / "lock")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not ended.exists():
                    write_atomically(ended, [str(self._run()).encode()])
            finally:
                os.close(lock)
            self._finished = self._read(int(read_file(ended).text()))
        return self._finished

    def _run(self) -> int:
        """Run the suite, and return the exit code."""
        chosen = [] if len(self.chosen) in (0, self.all_cases) else sorted(self.chosen)
        command = [
            *(sys.executable, "-m", "holodeck_action.cli", "run", str(self._suite), "-o", str(self._output)),
            *(f"--case={glob.escape(case)}" for case in chosen),
            *self._arguments,
        ]
        output = open_lock(self._state / "output")
        try:
            process = KillableProcess(
                command, os.environ, code=NO_CODE, folder=self.start, stdout=output, stderr=output
            )
            try:
                return process.reap()
            except BaseException:
                process.terminate()
                process.reap()
                raise
        finally:
            os.close(output)

    def _read(self, exit_code: int) -> FinishedRun:
        output = read_file(self._state / "output", _MOST_OUTPUT).lossy_text()
        try:
            report = read_conclusion(GivenPath(self._output, self.start)).report
        except RecordError:
            return FinishedRun(exit_code, output, None, {})
        return FinishedRun(exit_code, output, report, {case.id: case for case in cases_in_suite_order(report)})
