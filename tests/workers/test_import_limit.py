"""The import of an agent, a grader, a metric class or a function has its own limit."""

from __future__ import annotations

import pytest

from tests.commands.project import Project

NEVER = """
import threading


threading.Event().wait()

from deepeval.metrics import BaseMetric


def used(*given):
    return "yes"


class Used(BaseMetric):
    pass
"""


@pytest.mark.needs
@pytest.mark.parametrize("place", ["agent", "grader", "metric class", "tool"])
@pytest.mark.proves("Limits: import_timeout_s")
def test_an_import_that_takes_too_long_names_its_limit(project: Project, place: str) -> None:
    project.write("slow.py", NEVER)
    tool = {"name": "t", "type": "function", "description": "d", "file": "slow.py", "function": "used"}
    grader: list[dict[str, object]] = [{"type": "code", "grader": "slow:used"}]
    own: list[dict[str, object]] = [{"type": "deepeval", "metric": "slow:Used", "required_params": ["input"]}]
    metrics: dict[str, list[dict[str, object]]] = {"grader": grader, "metric class": own}
    project.suite(
        [{"name": "only", "input": "?", "ground_truth": "yes"}],
        metrics.get(place),
        tools=[tool] if place == "tool" else None,
    )
    project.answers([{"case": "only", "response": "yes"}])
    target = {"agent": "python:slow:used", "tool": None}.get(place, "recorded:answers.jsonl")
    project.policy(limits={"import_timeout_s": 0.1}, **({} if target is None else {"target": target}))
    finished = project.run(
        "run", "-o", "out", "--no-html", OPENAI_API_KEY="sk-none", OPENAI_BASE_URL="http://127.0.0.1:9"
    )
    # Nothing is wrong with the suite: another machine may be fast enough.
    assert finished.code == 3
    assert "has a defect" not in finished.stderr
    assert (
        "importing it took longer than 0.1 s; its process was ended; raise limits.import_timeout_s" in finished.stderr
    )
