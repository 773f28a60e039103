"""Measures the CPU of each test, with the children that it waited for (`python -m scripts.test_costs`)."""

from __future__ import annotations

import json
import resource
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.commands.forked import CPU_SECONDS

OPTION = "--costs"
CPU_S = "cpu_s"
_STARTED = pytest.StashKey[float]()


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + CPU_SECONDS[0]


@dataclass(eq=False)
class Costs:
    """Collects the cost of each test, and writes them into a file as `{test: {"cpu_s": 0.1, "full": false}}`."""

    file: Path
    found: dict[str, dict[str, float | bool]] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if isinstance(cost := dict(report.user_properties).get(CPU_S), float):
            self.found[report.nodeid] = {CPU_S: cost, "full": "full" in report.keywords}

    def pytest_sessionfinish(self) -> None:
        self.file.write_text(json.dumps(self.found), encoding="utf-8")


class Stopwatch:
    """Measures where tests run; the report of a test's teardown carries the result."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[_STARTED] = _cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            report.user_properties.append((CPU_S, round(_cpu_s() - item.stash[_STARTED], 4)))
        return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, help="write the CPU seconds of each test into this file")


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption(OPTION):
        config.pluginmanager.register(Stopwatch())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Costs(Path(file)))
