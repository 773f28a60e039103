"""A copy of the checkout with all mutants, the recording of its tests, and the trial of each mutant."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from pathlib import Path, PurePosixPath
from typing import Any

import click

from scripts.mutants.places import Place, write_mutants
from scripts.products import copy_checkout, interpreter

HERE = Path(__file__).parent
SWITCH = "_mutant_switch"
PLUGIN = "mutant_session"
_SHOWN_LINES = 60
_CHEAP_S = 0.05
_LEAST_S = 0.01
_NEIGHBOURS_S = 10.0
_ALL_RUN = (0, 1)
"""Exit codes of pytest after all tests: none failed, or some."""


@dataclass(frozen=True)
class Cost:
    """What a test took when no mutant was on."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class Recording:
    """The tests that execute each mutant, by its number, and the costs of all tests that passed."""

    tests: Mapping[int, Sequence[str]]
    costs: Mapping[str, Cost]

    @cached_property
    def breadth(self) -> Mapping[str, int]:
        """The number of mutants that each test executes."""
        return Counter(name for tests in self.tests.values() for name in tests)


@dataclass(frozen=True)
class Copy:
    """A copy of the checkout below a folder, with the recording of its tests.

    `package` is the name of what is changed. `processes` is the number of processors for the tests.
    """

    folder: Path
    package: str
    processes: int

    @property
    def tree(self) -> Path:
        """The copied files."""
        return self.folder / "tree"

    @property
    def switch(self) -> str:
        """The module that knows which mutant is on."""
        return f"{self.package}.{SWITCH}"

    def build(self, root: Path, places: Sequence[Place]) -> None:
        """Copy the checkout at `root`, with mutants."""
        copy_checkout(root, self.tree)
        interpreter(self.tree, self.folder / "environment")
        write_mutants(self.tree, places, self.switch)

    def start(self, name: str, task: Mapping[str, Any], *arguments: str) -> subprocess.Popen[bytes]:
        """Start pytest with a task of the plugin; `NAME.log` gets its output."""
        environment = self.folder / "environment"
        packages = next(environment.glob("lib/python3*/site-packages"))
        (packages / f"{PLUGIN}.py").write_bytes((HERE / "session.py").read_bytes())
        (self.tree / self.package / f"{SWITCH}.py").write_bytes((HERE / "switch.py").read_bytes())
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({"switch": self.switch, **task}), encoding="utf-8")
        command = [
            *(str(environment / "bin" / "python"), "-m", "pytest", "-p", PLUGIN, f"--mutants={file}"),
            *(f"--basetemp={self.folder / name}", "-p", "no:cacheprovider", "--tb=short", *arguments),
        ]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self.tree,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def finish(self, started: Mapping[str, subprocess.Popen[bytes]]) -> None:
        """Wait for started runs of pytest, by their names; end them when this process is interrupted.

        Raises:
            click.ClickException: one ends before all tests were run.
        """
        try:
            for name, process in started.items():
                if process.wait() not in _ALL_RUN:
                    said = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
                    shown = "\n".join(said[-_SHOWN_LINES:])
                    raise click.ClickException(f"pytest ends with exit code {process.returncode}:\n{shown}")
        finally:
            for process in started.values():
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait()

    def record(self, tests: Sequence[str], expression: str | None) -> None:
        """Run tests without any mutant, and write which of them execute which mutant; continue an interrupted run."""
        task = {"record": str(self.folder / "executed"), "costs": str(self.folder / "costs")}
        marked = () if expression is None else ("-m", expression)
        # Tests wait for processes and servers, too.
        workers = self.processes * 3 // 2 if self.processes > 1 else 0
        self.finish({"recording": self.start("recording", task, f"-n{workers}", *marked, *tests)})

    def recording(self) -> Recording:
        """Return the recorded tests and costs; a test that failed is left out."""
        costs = {}
        for line in _lines(self.folder / "costs"):
            name, cpu_s, wall_s, passed = json.loads(line)
            if passed:
                costs[name] = Cost(cpu_s, wall_s)
        tests: dict[int, dict[str, None]] = defaultdict(dict)
        for line in _lines(self.folder / "executed"):
            number, _, name = line.partition("\t")
            if name in costs:
                tests[int(number)][name] = None
        return Recording({number: [*names] for number, names in tests.items()}, costs)

    def try_all(self, places: Sequence[Place], seconds: float) -> dict[int, dict[str, Any]]:
        """Try each mutant that a test executes, and return its outcome by its number; continue an interrupted run."""
        recording = self.recording()
        outcomes = self.folder / f"outcomes-{seconds:g}"
        done = _outcomes(outcomes)
        ordered = {
            number: order(tests, recording, room_of(places[number - 1]))
            for number, tests in sorted(recording.tests.items())
            if number not in done
        }
        costs = _costs_by_file(recording)
        started = {}
        for process in range(self.processes):
            mutants = {number: ordered[number] for number in list(ordered)[process :: self.processes]}
            if not mutants:
                continue
            more = {number: _neighbours(tests, costs) for number, tests in mutants.items()}
            names = {name for tests in (*mutants.values(), *more.values()) for name in tests}
            task = {
                "mutants": mutants,
                "neighbours": more,
                "walls": {name: recording.costs[name].wall_s for name in names},
                "seconds": seconds,
                "outcomes": str(outcomes),
            }
            files = sorted({name.partition("::")[0] for name in names})
            # The recording chose by marks.
            started[f"t{process}"] = self.start(f"t{process}", task, "-n0", "-m", "", *files)
        self.finish(started)
        return _outcomes(outcomes)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _outcomes(file: Path) -> dict[int, dict[str, Any]]:
    found = [json.loads(line) for line in _lines(file)]
    return {outcome["number"]: outcome for outcome in found}


def _costs_by_file(recording: Recording) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name, cost in recording.costs.items():
        found[name.partition("::")[0]][name] = cost.cpu_s
    return found


def _neighbours(tests: Sequence[str], costs: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return other tests of the files of these tests, the cheapest ones.

    A process that keeps a result executes its code in one test only; alone, others execute it, too.
    """
    files = dict.fromkeys(name.partition("::")[0] for name in tests)
    others = {name: cpu_s for file in files for name, cpu_s in costs[file].items()}
    known, found, left = {*tests}, [], _NEIGHBOURS_S
    for name, cpu_s in sorted(others.items(), key=lambda pair: (pair[1], pair[0])):
        if name in known:
            continue
        left -= max(cpu_s, _LEAST_S)
        if left < 0:
            break
        found.append(name)
    return found


def order(tests: Sequence[str], recording: Recording, room: str) -> list[str]:
    """Return tests from cheap to expensive; of about the same cost, first one of each file, then the next of each.

    Tests of the room whose code is changed come earlier. Of a file, those come first that execute the fewest places.
    """
    files: Counter[str] = Counter()
    keys = {}
    for name in sorted(tests, key=lambda name: (recording.breadth[name], name)):
        file, cpu_s = name.partition("::")[0], recording.costs[name].cpu_s
        doublings = int(log2(max(cpu_s / _CHEAP_S, 1)))
        is_same_room = room in PurePosixPath(file).parts
        keys[name] = (doublings - 2 * is_same_room, files[file], recording.breadth[name], cpu_s, name)
        files[file] += 1
    return sorted(keys, key=lambda name: keys[name])


def room_of(place: Place) -> str:
    """Return the name of the folder or module below the package."""
    return PurePosixPath(place.file).parts[1].removesuffix(".py")
