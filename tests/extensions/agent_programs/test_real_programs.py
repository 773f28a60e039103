"""The real programs of the registry against a scripted server on loopback: `make agents-test`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.extensions.agent_programs.adapters.catalogue import ADAPTERS
from holodeck_action.extensions.agent_programs.scripted_server import serving
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.extensions.agent_programs.scenarios import decide

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
KEY = "sk-scripted-0123456789"
TARGETS: dict[str, dict[str, Any]] = {
    "claude": {"model": "claude-sonnet-4-5", "env": ["CLAUDE_CODE_MAX_RETRIES"]},
    "codex": {
        "model": "scripted",
        "options": {f"model_providers.job.{kind}_max_retries": "1" for kind in ("request", "stream")},
    },
    "copilot": {"model": "scripted"},
    "gemini": {"model": "scripted"},
    "opencode": {"model": "openai/scripted"},
    "pi": {"model": "openai/scripted"},
    "qwen": {"model": "scripted"},
}
SCENARIOS = {
    "work": "",
    "fail": "",
    "skill": "",
    "key": "",
    "401": "infrastructure_error",
    "w500": "infrastructure_error",
    "cut": "infrastructure_error",
    "wcut": "infrastructure_error",
    "half": "infrastructure_error",
    "whalf": "infrastructure_error",
    "empty": "infrastructure_error",
    "max": "cut_off",
    "hang": "timeout",
}
"""The code of the error of each scenario; empty for an answer."""
ENDLESS = {"gemini": ("w500",), "opencode": ("w500", "cut", "wcut", "half", "whalf"), "qwen": ("w500",)}
"""The scenarios in which a program asks the model again until the deadline."""
SKILL = "---\nname: greeter\ndescription: Greets people.\n---\nSay hello.\n"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(decide) as address:
        yield address


def _search(folder: Path) -> list[Path]:
    """Return the folders of the program rg that a package brings along."""
    return [file.parent for file in folder.glob("node_modules/@openai/codex-*/vendor/*/*/rg")]


@pytest.mark.parametrize("program", TARGETS)
def test_each_end_is_told_right(project: Project, server: str, program: str) -> None:
    folder = os.environ.get("AGENTS")
    assert folder, "run: make agents-test"
    for place in (".claude", ".agents"):
        project.write(f"shop/{place}/skills/greeter/SKILL.md", SKILL)
    expect: dict[str, list[Any]] = {
        "work": [{"file": {"path": "notes.txt", "contains": "hello"}}, {"changed": {"only": ["notes.txt"]}}],
        "skill": [{"skill": {"used": "greeter"}}],
    }
    if program == "codex":
        hidden = [{"type": "contains", "value": "no-key-42"}]
        expect["key"] = [{"workspace_text": "{{trajectory}}", "metrics": hidden}]
    cases: list[dict[str, Any]] = [
        {"name": name, "input": f"SCN={name}", "expect": expect.get(name, [{"contains": "e"}])} for name in SCENARIOS
    ]
    second = {"input": "SCN=say", "expect": [{"contains": "Just"}, {"file": {"path": "notes.txt"}}]}
    cases.append({"name": "two turns", "turns": [{"input": "SCN=work"}, second]})
    project.suite(cases, evaluations=None)
    project.policy(
        target={"agent": program, "workspace": "shop", **TARGETS[program]},
        limits={"turn_timeout_s": 60, "concurrency": 3},
    )
    finished = project.run(
        *("run", "-o", "out"),
        PATH=os.pathsep.join(
            [*map(str, [Path(folder, "node_modules", ".bin"), *_search(Path(folder))]), os.environ["PATH"]]
        ),
        CLAUDE_CODE_MAX_RETRIES="1",
        **ADAPTERS[program]().scripted(server, KEY),
    )
    assert finished.code == 3, finished.stderr
    record = read_record(project.out / "results.json")
    found = {case.name: case.trials[0].turns[-1] for case in record.cases}
    codes = {name: turn.error.code if turn.error else "" for name, turn in found.items()}
    assert codes == {**SCENARIOS, "two turns": "", **dict.fromkeys(ENDLESS.get(program, ()), "timeout")}
    graded = {each.score for turn in found.values() if turn.error is None for each in turn.evaluations}
    assert graded == {1.0}, finished.stdout
    usage = found["work"].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (3000, 1200, 150)
    assert KEY not in (project.out / "results.json").read_text(encoding="utf-8")
