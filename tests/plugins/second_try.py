"""A few failed tests run once more, each alone, so that a busy machine is told from a defect.

Tests that pass then are listed, and the run succeeds if no other failed. The list is there to be emptied.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

MOST = 3
"""How many failed tests run again; more are no accident."""
TITLE = "failed beside others, passed alone"
_PHASES = ("setup", "call", "teardown")
# A line of a traceback in the product, also within the representation of a string.
_PRODUCT_LINE = re.compile(r"""holodeck_action/[\w/]+\.py(?::\d+|\\*"\\?, line \d+)""")


def _blames_the_product(report: pytest.TestReport) -> bool:
    # What a time limit prints of the threads that wait is no traceback.
    texts = (report.longreprtext, *(text for _, text in report.sections if "~ Stack of " not in text))
    return any(_PRODUCT_LINE.search(text) for text in texts)


def may_run_again(reports: Iterable[pytest.TestReport]) -> bool:
    """Whether all failures are of few tests, of no race, without a traceback of the product or a lost process."""
    reports = list(reports)
    return 0 < len({report.nodeid for report in reports}) <= MOST and all(
        report.when in _PHASES and "races" not in report.keywords and not _blames_the_product(report)
        for report in reports
    )


def _passes_alone(config: pytest.Config, nodeid: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "--no-second-try"]
    done = subprocess.run(
        [*command, "-m", config.option.markexpr, nodeid],
        cwd=config.rootpath,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    # A skipped test ends with the same code.
    return done.returncode == pytest.ExitCode.OK and b"1 passed" in done.stdout


@dataclass(eq=False)
class SecondTry:
    """The failures of a run, and those that did not repeat."""

    config: pytest.Config
    failures: list[pytest.TestReport] = field(default_factory=list)
    passed_alone: list[pytest.TestReport] = field(default_factory=list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failures.append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not may_run_again(self.failures):
            return
        passed = {nodeid for nodeid in {report.nodeid for report in self.failures} if self._passes(nodeid)}
        self.passed_alone = [report for report in self.failures if report.nodeid in passed]
        self._move_reports()
        if len(self.passed_alone) == len(self.failures):
            session.exitstatus = pytest.ExitCode.OK

    def _move_reports(self) -> None:
        """Count what passed alone apart from failures and errors."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and self.passed_alone:
            for category in ("failed", "error"):
                kept = [report for report in terminal.stats.pop(category, []) if report not in self.passed_alone]
                terminal.stats.update({category: kept} if kept else {})
            terminal.stats["passed alone"] = self.passed_alone

    def _passes(self, nodeid: str) -> bool:
        return _passes_alone(self.config, nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.passed_alone:
            return
        terminalreporter.section(TITLE, yellow=True)
        for report in self.passed_alone:
            terminalreporter.write_line(f"{report.nodeid} ({report.when})\n{report.longreprtext}\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-second-try", action="store_true", help="a test that failed beside others has failed")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if not is_worker and not config.getoption("--no-second-try"):
        config.pluginmanager.register(SecondTry(config))
