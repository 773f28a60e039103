"""Pairs of cases that differ in one field only, and what a run makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holodeck_action.record.record import CaseRecord
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

PASSED, FAILED, ERROR, SHOWN = "passed", "failed", "error", "informational"

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """A case without and with a field, answered alike, and what each is judged to be.

    `overlays` are what the policy file adds to the first and to the second.
    """

    without: Entry
    given: Entry
    outcomes: tuple[str, str]
    response: str = "Paris"
    reply: Entry = field(default_factory=dict)
    overlays: tuple[Entry, Entry] = ({}, {})


GRADERS = """
import pathlib
import time

from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult


def right(ctx):
    return True


def wrong(ctx):
    return False


def good(ctx):
    return "good"


def six_tenths(ctx):
    return 0.6


def seven(ctx):
    return 7


def breaks(ctx):
    raise RuntimeError("no grade today")


def sleeps(ctx):
    time.sleep(5 if ctx.test_case_name.endswith("given") else 0)
    return True


def second_time(ctx):
    seen = pathlib.Path(f"{ctx.test_case_name}.seen")
    if not seen.exists():
        seen.touch()
        raise ConnectionResetError("try again")
    return True


def context_is_given(ctx):
    return list(ctx.retrieval_context or ()) == ["given"]


def config_is_given(ctx):
    return ctx.turn_config == {"a": [1]}
"""


def run_pairs(folder: Path, pairs: Mapping[str, Pair], metrics: Sequence[Entry]) -> dict[str, tuple[str, str]]:
    """Run all pairs in one suite whose own metrics are these; returns what both cases of each are judged to be."""
    project = Project(folder)
    project.write("graders.py", GRADERS)
    cases, rows, overlays = [], [], {}
    for key, pair in pairs.items():
        parts = zip((f"{key} without", f"{key} given"), (pair.without, pair.given), pair.overlays, strict=True)
        for name, entry, overlay in parts:
            cases.append({"name": name, **({} if "turns" in entry else {"input": "?"}), **entry})
            for turn in range(len(entry.get("turns", [None]))):
                rows.append({"case": name, "turn": turn, "response": pair.response, **NO_CALLS, **pair.reply})
            if overlay:
                overlays[name] = overlay
    project.suite(cases, [dict(metric) for metric in metrics])
    project.answers(rows)
    project.policy(target="recorded:answers.jsonl", cases=overlays, ground_truth="unused")
    finished = project.run("run", "-o", "out")
    assert finished.code == 1, finished.stderr
    return judged_pairs(read_record(project.out / "results.json").cases, project.verdict())


def judged_pairs(cases: Sequence[CaseRecord], verdict: Entry) -> dict[str, tuple[str, str]]:
    """What both cases of each pair are judged to be."""
    names = {case.id: str(case.name) for case in cases}
    judged = {names[case["id"]]: case["judged"] for case in verdict["cases"]}
    keys = [name.removesuffix(" given") for name in judged if name.endswith(" given")]
    return {key: (judged[f"{key} without"], judged[f"{key} given"]) for key in keys}


NO_CALLS: dict[str, Any] = {"tool_invocations": []}
"""A reply that says that no tool was called."""


def call(name: str, **args: Any) -> dict[str, Any]:
    """A tool call."""
    return {"name": name, "args": args}


def calls(*made: Entry) -> dict[str, Any]:
    """A reply with tool calls."""
    return {"tool_invocations": [*made]}


def chunks(*ids: str) -> dict[str, Any]:
    """A reply with retrieved chunks."""
    return {"retrieved_chunks": [{"id": found} for found in ids]}
