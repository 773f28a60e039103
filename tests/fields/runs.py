"""Suites whose cases pass, fail or cannot be answered, trial by trial, as letters say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

Entry = Mapping[str, Any]

LENGTH = {"type": "length", "max_characters": 1000}
EQUALITY = {"type": "standard", "metric": "equality"}
ANSWERS = {"P": "Paris", "F": "Lyon"}


def lettered(project: Project, letters: str, policy: Entry | None = None) -> None:
    """Write a suite with a case per word of `letters`, called `case 0` and so on, answered from a transcript.

    A letter is a trial: P passes, F fails, E is missing from the transcript. Every answer scores 1 as `length`, and 1
    or 0 as `equality`.
    """
    words = letters.split()
    project.suite(
        [{"name": f"case {at}", "input": "?", "ground_truth": "Paris"} for at in range(len(words))], [EQUALITY, LENGTH]
    )
    project.answers(
        [
            {"case": f"case {at}", "trial": trial, "response": ANSWERS[letter], "duration_ms": 1}
            for at, word in enumerate(words)
            for trial, letter in enumerate(word)
            if letter in ANSWERS
        ]
    )
    project.policy(target="recorded:answers.jsonl", **(policy or {}))


def run_all(root: Path, suites: Mapping[str, Callable[[Project], None]]) -> dict[str, Ran]:
    """Write every suite in a folder of its own, run them all in one process, and return what became of each."""
    project = Project(root)
    folders = {f"{at:03}": name for at, name in enumerate(suites)}
    for folder, name in folders.items():
        inner = Project(root / folder)
        inner.folder.mkdir()
        suites[name](inner)
    finished = project.run("run", "*/agent.yaml", "-o", "out")
    verdict = json.loads((project.out / "verdict.json").read_bytes())
    assert [suite["folder"] for suite in verdict["suites"]] == [*folders], finished.stderr
    return {
        name: Ran(suite["exit_code"], project.out / folder, finished.stdout)
        for (folder, name), suite in zip(folders.items(), verdict["suites"], strict=True)
    }


@dataclass(frozen=True)
class Ran:
    """A suite that was run: its exit code, the folder with its results, and all that its process printed."""

    code: int
    out: Path
    stdout: str

    def record(self) -> Record:
        return read_record(self.out / "results.json")

    def verdict(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.out / "verdict.json").read_bytes())
        return loaded


@dataclass(frozen=True)
class Change:
    """A setting of the policy file that changes the exit code of a suite, and the flags that do the same.

    `without` is the policy without the setting, `given` with it; `codes` are the exit codes of both.
    """

    letters: str
    without: Entry
    given: Entry
    codes: tuple[int, int]
    flags: tuple[str, ...] = ()


def gates(**gates: Any) -> dict[str, Any]:
    """A policy of gates."""
    return {"gates": gates}


def summary(method: str, minimum: float, **weights: float) -> dict[str, Any]:
    """A policy with a bound on the summary, which is the only gate."""
    entry = {"method": method, "min": minimum, **({"weights": weights} if weights else {})}
    return gates(min_pass_rate=None, summary=entry)


def quarantine(expires: str, **more: Any) -> dict[str, Any]:
    """A policy that quarantines the second case."""
    return {
        "quarantine": [
            {"case": "case 1", "reason": "upstream search", "owner": "@team-search", "expires": expires, **more}
        ]
    }


LAX = {"min_completeness": 0.1}
MOSTLY = "P P P P P P P P P F"
GATES = {
    "Gates.min_pass_rate": Change(
        "P F", gates(min_pass_rate=1.0), gates(min_pass_rate=0.5), (1, 0), ("--min-pass-rate", "0.5")
    ),
    "Gates.min_pass_rate_lower_bound": Change(
        "P P P F",
        gates(min_pass_rate=0.5, min_pass_rate_lower_bound=0.1),
        gates(min_pass_rate=0.5, min_pass_rate_lower_bound=0.5),
        (0, 1),
        ("--min-pass-rate-lower-bound", "0.5"),
    ),
    "Gates.min_completeness": Change(
        "P E", gates(min_completeness=1.0), gates(**LAX), (3, 0), ("--min-completeness", "0.1")
    ),
    "Gates.max_errors": Change(
        "P E", gates(**LAX, max_errors=1), gates(**LAX, max_errors=0), (0, 1), ("--max-errors", "0")
    ),
    "Gates.max_flaky": Change(
        "FP",
        {"trials": {"repeat": 2, "min_pass": 1}, **gates(max_flaky=1)},
        {"trials": {"repeat": 2, "min_pass": 1}, **gates(max_flaky=0)},
        (0, 1),
        ("--max-flaky", "0"),
    ),
    "Gates.p95_latency_ms": Change("P", gates(p95_latency_ms=1e6), gates(p95_latency_ms=1e-6), (0, 1)),
    "GateMetric.min_lower_bound": Change(
        MOSTLY,
        gates(min_pass_rate=0.5, metrics={"equality": {"min_lower_bound": 0.59}}),
        gates(min_pass_rate=0.5, metrics={"equality": {"min_lower_bound": 0.6}}),
        (0, 1),
    ),
    "GateMetric.min_p10": Change(
        MOSTLY,
        gates(min_pass_rate=0.5, metrics={"equality": {"min_p10": 0}}),
        gates(min_pass_rate=0.5, metrics={"equality": {"min_p10": 0.1}}),
        (0, 1),
    ),
    "Gates.metrics": Change(
        "P F", gates(min_pass_rate=0.5), gates(min_pass_rate=0.5, metrics={"equality": {"min_mean": 0.9}}), (0, 1)
    ),
    "GateMetric.min_mean": Change(
        "P F",
        gates(min_pass_rate=0.5, metrics={"equality": {"min_mean": 0.5}}),
        gates(min_pass_rate=0.5, metrics={"equality": {"min_mean": 0.6}}),
        (0, 1),
    ),
    "Gates.summary": Change("P F", gates(min_pass_rate=0.5), summary("minimum", 0.6), (0, 1)),
    "GateSummary.method": Change("P F", summary("simple_average", 0.7), summary("minimum", 0.7), (0, 1)),
    "GateSummary.weights": Change(
        "P F",
        summary("weighted_average", 0.9, equality=1, length=9),
        summary("weighted_average", 0.9, equality=9, length=1),
        (0, 1),
    ),
    "GateSummary.min": Change("P F", summary("simple_average", 0.7), summary("simple_average", 0.8), (0, 1)),
}
CASES = {
    "CaseOverlay.weight": Change(
        "P F", gates(min_pass_rate=0.7), {**gates(min_pass_rate=0.7), "cases": {"case 0": {"weight": 3}}}, (1, 0)
    ),
    "Policy.quarantine": Change("P F", {}, quarantine("2999-01-31"), (1, 0)),
    "QuarantineEntry.case": Change("P F", quarantine("2999-01-31", case="case 0"), quarantine("2999-01-31"), (1, 0)),
    "QuarantineEntry.expires": Change("P F", quarantine("2020-01-31"), quarantine("2999-01-31"), (1, 0)),
    "Trials.repeat": Change("PF", {"trials": {"repeat": 1}}, {"trials": {"repeat": 2}}, (0, 1), ("--repeat", "2")),
    "Trials.min_pass": Change(
        "FP",
        {"trials": {"repeat": 2}},
        {"trials": {"repeat": 2, "min_pass": 1}},
        (1, 0),
        ("--min-pass", "1"),
    ),
}

CHANGES = {**GATES, **CASES}
