"""Suites that take their time, and bounds on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.commands.project import Project
from tests.fields.runs import Entry

SLOW = """
import pathlib
import time


def answer(messages):
    if messages[-1]["content"] == "slow" and not pathlib.Path("hurry").exists():
        time.sleep({seconds})
    return "Paris"
"""


def unhurried(
    project: Project, seconds: float, policy: Entry | None = None, *, cases: tuple[str, ...] = ("slow",), **top: Any
) -> None:
    """Write a suite with a case for each of these questions; the agent takes its seconds for the question `slow`.

    A file called `hurry` makes it quick.
    """
    project.suite([{"name": case, "input": case, "ground_truth": "Paris"} for case in cases], **top)
    project.write("agent.py", SLOW.replace("{seconds}", str(seconds)))
    project.policy(target="python:agent:answer", **(policy or {}))


@dataclass(frozen=True)
class Bound:
    """A bound on what a run may take, by the policy file and by a flag, and how a run that breaks it ends.

    The agent takes `seconds` to answer. `wider` is a bound that is not broken.
    """

    policy: Entry
    flag: tuple[str, ...]
    wider: Entry
    code: int
    says: str
    seconds: float = 8


BOUNDS = {
    "Limits.turn_timeout_s": Bound(
        {"limits": {"turn_timeout_s": 0.4}},
        ("--turn-timeout", "0.4"),
        {"limits": {"turn_timeout_s": 100}},
        3,
        "the agent did not answer within 0.4 s",
    ),
    "Limits.case_timeout_s": Bound(
        {"limits": {"case_timeout_s": 0.8}},
        ("--case-timeout", "0.8"),
        {"limits": {"case_timeout_s": 100}},
        3,
        "the case took longer than 0.8 s",
    ),
    "Limits.run_timeout_s": Bound(
        {"limits": {"run_timeout_s": 0.8}},
        ("--run-timeout", "0.8"),
        {"limits": {"run_timeout_s": 100}},
        4,
        "the run deadline of 0.8 s was reached",
    ),
    "Budget.max_minutes": Bound({"budget": {"max_minutes": 0.01}}, (), {}, 4, "the run deadline of 0.6 s was reached"),
    "Limits.max_response_bytes": Bound(
        {"limits": {"max_response_bytes": 3}},
        ("--max-response-bytes", "3"),
        {"limits": {"max_response_bytes": 50}},
        3,
        "more than 3 bytes",
        seconds=0,
    ),
}

OVERLAPPING = """
import json, os, sys, time
for line in sys.stdin:
    running = len(os.listdir("running"))
    mark = os.path.join("running", str(os.getpid()))
    open(mark, "w").close()
    time.sleep(0.25)
    print(json.dumps({"response": str(running)}), flush=True)
    os.unlink(mark)
"""


def overlapping(project: Project, **top: Any) -> None:
    """Write a suite of four cases that pass when no other is answered at the same time."""
    cases = [{"name": f"case {at}", "input": "?", "ground_truth": "0"} for at in range(4)]
    project.suite(cases, **top)
    project.write("agent.py", OVERLAPPING)
    (project.folder / "running").mkdir()
