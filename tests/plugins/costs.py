"""Measures the CPU of each test, with the children that it waited for (`python -m scripts.test_costs`).

What a fixture of a module or session makes is shared: the test that makes it has its part alone.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.commands.forked import CPU_SECONDS

OPTION = "--costs"
FIGURES = ("cpu_s", "shared_s")
"""The CPU of the test, and of what it made for others, in seconds."""


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + CPU_SECONDS[0]


@dataclass(eq=False)
class Costs:
    """Collects the cost of each test, and writes them into a file.

    Its form is `{test: {"cpu_s": 0.1, "shared_s": 0.0, "full": false}}`.
    """

    file: Path
    found: dict[str, dict[str, object]] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        figures = {name: value for name, value in report.user_properties if name in FIGURES}
        if figures:
            self.found[report.nodeid] = {**figures, "full": "full" in report.keywords}

    def pytest_sessionfinish(self) -> None:
        self.file.write_text(json.dumps(self.found), encoding="utf-8")


class Stopwatch:
    """Measures where tests run; the report of a test's teardown carries the result."""

    def __init__(self) -> None:
        self._began_s = self._shared_s = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._began_s, self._shared_s = _cpu_s(), 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        began_s = _cpu_s()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                others = sum(
                    fixturedef.argname in getattr(item, "fixturenames", ()) and request.node in item.listchain()
                    for item in request.session.items
                )
                self._shared_s += (_cpu_s() - began_s) * (1 - 1 / max(others, 1))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, Any]:
        report = yield
        if call.when == "teardown":
            figures = (_cpu_s() - self._began_s - self._shared_s, self._shared_s)
            report.user_properties.extend((name, round(value, 4)) for name, value in zip(FIGURES, figures, strict=True))
        return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, help="write the CPU seconds of each test into this file")


def pytest_configure(config: pytest.Config) -> None:
    if file := config.getoption(OPTION):
        config.pluginmanager.register(Stopwatch())
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Costs(Path(file)))
