"""The property of unknown facts for imported suites: no imported check of tool calls passes where none are known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.extensions.importers.promptfoo.toolchecks import TYPES
from tests.commands.project import Project

CHECKS: list[dict[str, Any]] = [
    {"type": "trajectory:tool-used", "value": "find"},
    {"type": "not-trajectory:tool-used", "value": "pay"},
    {"type": "trajectory:tool-used", "value": {"name": "find", "max": 1}},
    {"type": "trajectory:tool-sequence", "value": {"steps": ["find"], "mode": "exact"}},
    {"type": "trajectory:tool-args-match", "value": {"name": "find", "args": {}}},
    {"type": "trajectory:step-count", "value": {"type": "tool", "max": 1}},
    {"type": "tool-call-f1", "value": ["find"]},
]
CALLS = [{"name": "find", "args": {}, "result": "ok"}]


def outcomes(project: Project, **told: Any) -> dict[str, str]:
    names = [f"check {at}" for at in range(len(CHECKS))]
    (project.folder / "new" / "answers.jsonl").write_text(
        "".join(json.dumps({"case": name, "response": "yes", **told}) + "\n" for name in names)
    )
    finished = project.run("run", "new/agent.yaml", "--target", "recorded:new/answers.jsonl", "-o", "out")
    assert finished.code != 2, finished.stderr
    return {case["id"]: case["outcome"] for case in project.verdict()["cases"]}


@pytest.mark.full
def test_no_imported_check_passes_without_the_calls(project: Project) -> None:
    assert {check["type"].removeprefix("not-") for check in CHECKS} == {*TYPES}
    tests = [{"description": f"check {at}", "assert": [check]} for at, check in enumerate(CHECKS)]
    project.write("c.json", json.dumps({"prompts": ["q"], "providers": ["echo"], "tests": tests}))
    assert project.run("import", "promptfoo", "c.json", "-o", "new").code == 0
    assert set(outcomes(project, tool_invocations=CALLS).values()) == {"passed"}
    assert "passed" not in outcomes(project).values()
    # Known to be none, what is not to be called passes.
    assert list(outcomes(project, tool_invocations=[]).values()).count("passed") == 2
