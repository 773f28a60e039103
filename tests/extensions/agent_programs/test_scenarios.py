"""What users of evaluations of coding agents report: no wrong verdict in any row of `scenarios.yaml`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands.project import Project
from tests.llm.models import KEY, FakeModels

HERE = Path(__file__).parent
TABLE = yaml.load((HERE / "scenarios.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
GIVEN = TABLE["given"]
JUDGED = {
    "type": "geval",
    "name": "quality",
    "criteria": "Is it good?",
    "evaluation_steps": ["Read it."],
    "timeout_ms": 200,
}


def texts(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def install(project: Project, agent: str) -> str:
    """Put a program on a PATH that runs the prompt as a script; returns the PATH."""
    script = f'#!/bin/sh\n. {HERE / "scripted_agent.sh"}\neval "$(cat)"\n'
    project.write(f"bin/{'scripted' if agent == 'command' else agent}", script).chmod(0o755)
    return f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row["name"], marks=[pytest.mark.full] * row.get("full", False))
        for row in TABLE["scenarios"]
    ],
)
def test_a_scenario_has_the_right_verdict(project: Project, row: dict[str, Any], models: FakeModels) -> None:
    agent = row.get("agent", "claude")
    for folder, files in (("shop/", GIVEN["fixture"]), ("", GIVEN["files"])):
        for name, content in {**files, **row.get("fixture" if folder else "files", {})}.items():
            project.write(f"{folder}{name}", content)
    project.write("attempts/.keep", "")
    *earlier, last = [{"input": script} for script in texts(row["does"])]
    last = {**last, "expect": row["expect"]}
    given = {"expect": row["first"]} if "first" in row else {}
    case = {"turns": [*({**turn, **given} for turn in earlier), last]} if earlier else last
    judge = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY}
    models.latency = lambda request: 600.0
    evaluations = {"metrics": [{**JUDGED, "model": judge}]} if row.get("judge") else None
    project.suite([{"name": "it", **case}], evaluations=evaluations)
    command: dict[str, Any] = {"command": "scripted"} if agent == "command" else {"self_check": False}
    target = {
        "agent": agent,
        "workspace": "shop",
        "confine": "none",
        "env": ["SCENARIO"],
        **command,
        **row.get("target", {}),
    }
    project.policy(target=target, **row.get("policy", {}))
    if row.get("git"):
        for words in (("init", "-q"), ("add", "-A")):
            subprocess.run(["git", *words], cwd=project.folder, check=True)
    path = f"{row.get('path', '')}{install(project, agent)}"
    finished = project.run("run", "-o", "out", PATH=path, SCENARIO=str(project.folder))
    files = [file for file in (project.out / "verdict.json", project.out / "results.json") if file.exists()]
    read = "\n".join([finished.stdout, finished.stderr, *(file.read_text(encoding="utf-8") for file in files)])
    assert finished.code == row["exit"], read
    assert [words for words in texts(row.get("says")) if words not in read] == [], read
    assert [words for words in texts(row.get("not")) if words in read] == [], read


@pytest.mark.full
@pytest.mark.parametrize("name", ["hidden/check.sh", "golden.sh"])
def test_an_edited_exam_is_a_changed_term(project: Project, name: str) -> None:
    for place, content in (
        *((f"shop/{file}", text) for file, text in GIVEN["fixture"].items()),
        *GIVEN["files"].items(),
    ):
        project.write(place, content)
    project.write("golden.sh", "refund() { echo yes; }\n")
    project.write(".gitignore", "base/\n")
    checks = [
        {"command": {"run": "sh hidden/check.sh", "hidden": "hidden"}},
        {"file": {"path": "src/refund.sh", "equals": "golden.sh"}},
    ]
    project.suite([{"name": "it", "input": "fix; end Done", "expect": checks}], evaluations=None)
    project.policy(target={"agent": "claude", "workspace": "shop", "self_check": False})
    path = install(project, "claude")
    assert project.run("run", "-o", "base", PATH=path).code == 0
    project.write(name, (project.folder / name).read_text() + "\n# easier\n")
    finished = project.run("run", "-o", "out", "--baseline", "file:base/results.json", PATH=path)
    assert f"changes files of cases ({name})" in finished.stdout + finished.stderr
