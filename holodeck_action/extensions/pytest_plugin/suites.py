"""Suites as collectors of pytest, with a test for each case and one for the verdict."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.pytest_plugin.shared_run import FinishedRun, SharedRun
from holodeck_action.reports.case_text import turn_lines
from holodeck_action.reports.phrases import gate_line, place
from holodeck_action.reports.report_views import CaseView, Report
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import load_one_suite
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case
from holodeck_action.text.plain import one_line

_FOLDER = "holodeck_folder"


class NotPassedError(Exception):
    """A case or the verdict did not pass; the message is what pytest shows."""


class SuitePlugin:
    """The hooks of pytest for suites. All workers of pytest-xdist share one run of a suite."""

    def __init__(self, config: pytest.Config) -> None:
        """Choose the folder for results: that of the coordinator in a worker of pytest-xdist."""
        shared: str | None = getattr(config, "workerinput", {}).get(_FOLDER)
        self._scope = ExitStack()
        self._folder = shared or self._scope.enter_context(TemporaryDirectory(prefix="holodeck-pytest-"))
        self._output: str | None = config.getoption("holodeck_output")
        self._arguments = shlex.split(config.getoption("holodeck_args"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist the folder of the results."""
        node.workerinput[_FOLDER] = self._folder

    def pytest_unconfigure(self) -> None:
        """Remove the folder, unless it is that of another process."""
        self._scope.close()

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect each agent.yaml, and other YAML files that are named on the command line."""
        named = parent.session.isinitpath(file_path) and file_path.suffix in (".yaml", ".yml")
        if not named and file_path.name != "agent.yaml":
            return None
        start = parent.config.invocation_params.dir
        below = os.path.relpath(file_path, start).replace(os.sep, "_")
        output = Path(self._folder, below) if self._output is None else start / self._output / below
        run = SharedRun(file_path, output, Path(self._folder, f"{below}.run"), self._arguments, start)
        return SuiteFile.of(parent, file_path, run)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Add the verdict of each suite after its cases, whatever `-k` and node ids select, and tell its run which
        cases it has."""
        for suite in {item.parent: None for item in items if isinstance(item, CaseItem | VerdictItem)}:
            assert isinstance(suite, SuiteFile)
            last = max(at for at, item in enumerate(items) if item.parent is suite)
            if not any(isinstance(item, VerdictItem) for item in items if item.parent is suite):
                items.insert(last + 1, suite.verdict())

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell the runs which cases are left after all selections."""
        for item in session.items:
            if isinstance(item, CaseItem):
                item.suite.run.chosen.add(item.case.id)


class SuiteFile(pytest.File):
    """A suite."""

    run: SharedRun
    verdict_name = "verdict"

    @classmethod
    def of(cls, parent: pytest.Collector, path: Path, run: SharedRun) -> SuiteFile:
        """Return the collector of a suite that `run` evaluates."""
        made: SuiteFile = cls.from_parent(parent, path=path)
        made.run = run
        return made

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each case, and one for the verdict."""
        context = Caller(os.environ, self.run.start, StringIO(), sys.stdout, StringIO()).suite_context()
        suite = load_one_suite(str(self.path), context, "a file of pytest is one suite").suite
        self.run.all_cases = len(suite.cases)
        while any(case.id == self.verdict_name for case in suite.cases):
            self.verdict_name += "_"
        for case in suite.cases:
            item: CaseItem = CaseItem.from_parent(self, name=case.id)
            item.suite, item.case = self, case
            item.extra_keyword_matches.update((case.name or "", *case.tags))
            yield item
        yield self.verdict()

    def verdict(self) -> VerdictItem:
        """Return the test of the verdict."""
        item: VerdictItem = VerdictItem.from_parent(self, name=self.verdict_name)
        item.suite = self
        return item

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the problems of a suite that cannot be loaded."""
        if isinstance(excinfo.value, ConfigurationError):
            return "\n".join(one_line(line, 1000) for line in excinfo.value.lines)
        return super().repr_failure(excinfo)


class _SuiteItem(pytest.Item):
    suite: SuiteFile

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the reasons why a test did not pass."""
        if isinstance(excinfo.value, NotPassedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class CaseItem(_SuiteItem):
    """A case."""

    case: Case

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the case is written."""
        mark = self.case.mark
        title = one_line(f"{self.path.name}: {self.case.name or self.case.id}", 200)
        return self.path.parent / mark.file, max(mark.file_line - 1, 0), title

    def runtest(self) -> None:
        """Evaluate the suite, unless another test has, and look at this case."""
        done = self.suite.run.finish()
        report, case = done.report, done.cases.get(self.case.id)
        if report is None:
            raise NotPassedError(f"the suite was not evaluated; see {self.suite.name}::{self.suite.verdict_name}")
        if case is None:
            pytest.skip("not run: the exit code was certain before")
        if case.outcome in ("failed", "error"):
            if report.exit_code == ExitCode.PASSED:
                pytest.xfail(f"the gates tolerate it: {one_line(case.reason)}")
            raise NotPassedError("\n".join(_problem_lines(case, report)))
        if case.outcome != "passed":
            pytest.skip(one_line(case.reason))


class VerdictItem(_SuiteItem):
    """The verdict of a suite on the cases that are chosen: the only test of its gates."""

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the first line of the suite."""
        return self.path, 0, f"{self.path.name}: {self.name}"

    def runtest(self) -> None:
        """Evaluate the suite, unless another test has, and look at its exit code."""
        done = self.suite.run.finish()
        self.add_report_section("call", "holodeck-action", done.output)
        if done.exit_code != ExitCode.PASSED:
            raise NotPassedError("\n".join(_verdict_lines(done)))


def _problem_lines(case: CaseView, report: Report) -> Iterator[str]:
    yield one_line(f"{place(case.source, report.folder)}: {case.reason}", 1000)
    problems: Sequence[str] = [problem for turn in case.turns for problem in turn.problems]
    yield from (one_line(problem, 1000) for problem in (*problems, *case.conversation_problems))
    for turn in case.turns:
        yield from turn_lines(turn, with_number=len(case.turns) > 1)


def _verdict_lines(done: FinishedRun) -> Iterator[str]:
    if done.report is None:
        yield f"holodeck-action ended with exit code {done.exit_code} and without results"
        return
    yield one_line(f"{done.report.outcome}: {done.report.reason} (exit code {done.exit_code})", 1000)
    yield from (one_line(gate_line(gate), 1000) for gate in done.report.gates if gate.state != "passed")
