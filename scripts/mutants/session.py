"""A pytest plugin that records which tests execute a mutant, or tries mutants in forked processes.

`python -m scripts.mutants` copies this file into the environment that runs the tests, and gives a task as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

MEMORY_BYTES = 4 * 2**30
"""The most memory of a forked process: a changed loop may never end."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# A test hangs when it takes so much longer than without a mutant.
_HANG_S = 40
_HANG_FACTOR = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", required=True, help="a file with the task")


def pytest_configure(config: pytest.Config) -> None:
    task = json.loads(Path(config.getoption("--mutants")).read_bytes())
    switch = import_module(task["switch"])
    if "record" in task:
        config.pluginmanager.register(Recorder(switch, task))
    else:
        config.pluginmanager.register(Trials(switch, task))


class Failures:
    """Notes whether a test failed, by its reports."""

    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


class Recorder(Failures):
    """Writes for each test the CPU seconds of itself and its children, and whether it passed."""

    def __init__(self, switch: Any, task: dict[str, str]) -> None:
        super().__init__()
        self._switch = switch
        self._setting = f"record:{task['record']}"
        self._costs = task["costs"]

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what an interrupted recording has; the processes of xdist start no test before all are here."""
        lines = Path(self._costs).read_text(encoding="utf-8").splitlines() if Path(self._costs).exists() else []
        done = {json.loads(line)[0] for line in lines}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.failed = False
        self._switch.turn(self._setting, item.nodeid)
        start, started = _cpu_s(), time.monotonic()
        done = yield
        cost = [item.nodeid, round(_cpu_s() - start, 3), round(time.monotonic() - started, 3), not self.failed]
        self._switch.append(self._costs, json.dumps(cost))
        return done


@dataclass(frozen=True)
class Ended:
    """How a forked process ended: the index of the test that failed, if any, and how many tests were run.

    `how` is "failed", "hung", "died", or empty.
    """

    failed: int | None
    run: int
    cpu_s: float
    how: str = ""


class Following:
    """What pytest needs of the next test to decide which fixtures end: all of them if this test is the last one.

    Fixtures of modules and of the session may have servers and processes.
    """

    def __init__(self, item: pytest.Item, is_last: Callable[[], bool]) -> None:
        self._item = item
        self._is_last = is_last

    def listchain(self) -> list[Any]:
        """Return the collectors whose fixtures stay."""
        return [] if self._is_last() else self._item.listchain()


class Trials(Failures):
    """Tries each mutant of a task with its tests, instead of running all tests."""

    def __init__(self, switch: Any, task: dict[str, Any]) -> None:
        super().__init__()
        self._switch = switch
        self._mutants: dict[str, list[str]] = task["mutants"]
        self._neighbours: dict[str, list[str]] = task["neighbours"]
        self._walls: dict[str, float] = task["walls"]
        self._seconds: float = task["seconds"]
        self._outcomes: str = task["outcomes"]
        self._passes_without: dict[str, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("not all tests can be imported")
        # Processes that a test leaves behind become children of this one, so that they can be ended.
        _control(_PR_SET_CHILD_SUBREAPER, 1)
        items = {item.nodeid: item for item in session.items}
        for number, names in self._mutants.items():
            chosen, more = (
                [items[name] for name in each if name in items] for each in (names, self._neighbours[number])
            )
            outcome = {"number": int(number), "of": len(chosen), **self._try(number, [*chosen, *more])}
            self._switch.append(self._outcomes, json.dumps(outcome))
        return True

    def _try(self, number: str, items: list[pytest.Item]) -> dict[str, Any]:
        """Return the outcome of a mutant: the test that finds it, how it ended, and how many tests were run."""
        cpu_s, at = 0.0, 0
        while at < len(items) and cpu_s < self._seconds:
            ended = self._run(number, items[at:], self._seconds - cpu_s)
            cpu_s += ended.cpu_s
            if ended.failed is None:
                at += ended.run
                break
            failed = items[at + ended.failed]
            if self._passes(failed):
                return {"found": failed.nodeid, "how": ended.how, "run": at + ended.run, "cpu_s": cpu_s}
            at += ended.run
        return {"found": None, "run": at, "cpu_s": cpu_s}

    def _passes(self, item: pytest.Item) -> bool:
        """Whether a test passes without any mutant."""
        if item.nodeid not in self._passes_without:
            self._passes_without[item.nodeid] = self._run("", [item], self._seconds).failed is None
        return self._passes_without[item.nodeid]

    def _run(self, number: str, items: Sequence[pytest.Item], seconds: float) -> Ended:
        """Run tests in a forked process to the first failure, with a mutant on; a hang is a failure."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                self._run_here(number, items, seconds, writing)
            finally:
                os._exit(0)
        os.close(writing)
        with open(reading, "rb", buffering=0) as lines:
            ended = self._follow(child, lines, items)
        _end_children()
        self._switch.forget(child)
        return ended

    def _run_here(self, number: str, items: Sequence[pytest.Item], seconds: float, writing: int) -> None:
        os.setsid()
        _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        self._switch.turn(number)
        start = _cpu_s()

        def is_last() -> bool:
            return self.failed or _cpu_s() - start > seconds

        for at, item in enumerate(items):
            os.write(writing, b"test\n")
            self.failed = False
            following = Following(items[at + 1], is_last) if at + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                os.write(writing, b"failed\n")
            if is_last():
                break
        os.write(writing, b"end %.3f\n" % (_cpu_s() - start))

    def _follow(self, child: int, lines: Any, items: Sequence[pytest.Item]) -> Ended:
        """Read what a process reports until it ends, and end it if it hangs."""
        said: list[bytes] = []
        unread, since = b"", time.monotonic()
        while True:
            ended = os.waitpid(child, os.WNOHANG)[0] != 0
            while select.select([lines], [], [], 0 if ended else 0.05)[0] and (more := lines.read(4096)):
                *whole, unread = (unread + more).split(b"\n")
                said += whole
                since = time.monotonic()
            run = said.count(b"test")
            if ended:
                break
            wall_s = self._walls.get(items[max(run - 1, 0)].nodeid, 0)
            if time.monotonic() - since > _HANG_S + _HANG_FACTOR * wall_s:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
        cpu_s = float(said[-1].split()[1]) if said and said[-1].startswith(b"end") else None
        if b"failed" in said:
            return Ended(run - 1, run, cpu_s or 0, "failed")
        if cpu_s is None:
            return Ended(max(run - 1, 0), max(run, 1), time.monotonic() - since, "died" if ended else "hung")
        return Ended(None, run, cpu_s)


def _control(operation: int, value: int) -> None:
    """Call prctl, which only Linux has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(operation, value, 0, 0, 0)


def _cpu_s() -> float:
    return sum(os.times()[:4])


def _children() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(folder.name))
    return found


def _end_children() -> None:
    """End and reap all processes that a forked process left behind."""
    while found := _children():
        for child in found:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


if __name__ == "__main__":
    sys.exit("a plugin of pytest: run `python -m scripts.mutants`")
