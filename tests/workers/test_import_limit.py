"""The import of an agent, a grader, a metric class or a function has its own limit."""

from __future__ import annotations

import pytest

from tests.commands.project import Project

NEVER = "import threading\n\nthreading.Event().wait()\n\n\ndef used(*given):\n    return 'yes'\n"


@pytest.mark.parametrize("place", ["agent", "grader", "tool"])
@pytest.mark.proves("Limits: import_timeout_s")
def test_an_import_that_takes_too_long_names_its_limit(project: Project, place: str) -> None:
    project.write("slow.py", NEVER)
    tool = {"name": "t", "type": "function", "description": "d", "file": "slow.py", "function": "used"}
    grader = [{"type": "code", "grader": "slow:used"}]
    project.suite(
        [{"name": "only", "input": "?", "ground_truth": "yes"}],
        grader if place == "grader" else None,
        tools=[tool] if place == "tool" else None,
    )
    project.answers([{"case": "only", "response": "yes"}])
    target = {"agent": "python:slow:used", "grader": "recorded:answers.jsonl"}.get(place)
    project.policy(limits={"import_timeout_s": 0.1}, **({} if target is None else {"target": target}))
    finished = project.run(
        "run", "-o", "out", "--no-html", OPENAI_API_KEY="sk-none", OPENAI_BASE_URL="http://127.0.0.1:9"
    )
    assert finished.code == 2
    assert (
        "importing it took longer than 0.1 s; its process was ended; raise limits.import_timeout_s" in finished.stderr
    )
