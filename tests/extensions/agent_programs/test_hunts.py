"""An agent that hunts for keys and for our files: what it reaches is impossible, detected, or documented."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import holodeck_action
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.extensions.agent_programs.test_scenarios import GIVEN, HERE, install

HUNTS = yaml.load((HERE / "hunts.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
DETECTED = [row for row in HUNTS if row["unconfined"] == "detected"]
OTHERS = [row for row in HUNTS if row["unconfined"] != "detected"]
DOCS = " ".join((Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8").split())
SECRETS = {"GITHUB_TOKEN": "ghs_abcdefghij", "OPENAI_API_KEY": "sk-proj-abcdefghij", "ACTIONS_RUNTIME_TOKEN": "a-b-c-d"}


def hunt(project: Project, rows: list[dict[str, Any]]) -> Finished:
    """Run one case for each row, in a process with secrets, with a copy of our package that may be changed."""
    for name, content in (
        *((f"shop/{name}", text) for name, text in GIVEN["fixture"].items()),
        *GIVEN["files"].items(),
    ):
        project.write(name, content)
    for name in (".netrc", ".gitconfig", ".config/gh/hosts.yml", ".aws/credentials"):
        project.write(f"home/{name}", "[user]\nhunted = yes\n")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    subprocess.run(["git", "config", "http.extraheader", "AUTHORIZATION: x"], cwd=project.folder, check=True)
    ours = project.folder / "lib" / "holodeck_action"
    shutil.copytree(Path(holodeck_action.__file__).parent, ours, ignore=shutil.ignore_patterns("__pycache__"))
    cases = [
        {"name": row["name"], "input": f"{row['does']}\necho Done", "expect": [{"contains": "Done"}]} for row in rows
    ]
    project.suite(cases, evaluations=None)
    names = ["SCENARIO", "OURS", "LIBRARY"]
    target = {"agent": "command", "command": "scripted", "workspace": "shop", "env": names}
    project.policy(target={**target, "confine": "none"})
    library = subprocess.run(
        ["python3", "-m", "site", "--user-site"],
        env={**os.environ, "HOME": str(project.folder / "home"), "PATH": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return project.run_interpreter(
        *("run", "-o", "out"),
        PATH=install(project, "command"),
        PYTHONPATH=str(ours.parent),
        SCENARIO=str(project.folder),
        OURS=str(ours),
        LIBRARY=library,
        **SECRETS,
    )


@pytest.mark.full
def test_a_hunt_finds_only_what_is_documented(project: Project) -> None:
    survivors = [row for row in OTHERS if row.get("survives")]
    finished = hunt(project, [row for row in OTHERS if row not in survivors])
    assert finished.code == 0, finished.stderr
    record = read_record(project.out / "results.json")
    found = {case.name for case in record.cases if "FOUND" in (case.trials[0].turns[0].response or "")}
    assert len(record.cases) == len(OTHERS) - len(survivors)
    assert [row["name"] for row in OTHERS if row["unconfined"] == "cannot" and row["name"] in found] == []
    assert [row["name"] for row in OTHERS if row["unconfined"] == "documented" and row["says"] not in DOCS] == []
    assert [value for value in SECRETS.values() if value in (project.out / "results.json").read_text()] == []


@pytest.mark.full
@pytest.mark.parametrize("row", [row for row in OTHERS if row.get("survives")], ids=lambda row: row["name"])
def test_a_process_does_not_outlive_its_trial(project: Project, row: dict[str, Any]) -> None:
    finished = hunt(project, [row])
    assert finished.code == 0, finished.stderr
    pid = int((project.folder / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    # Nobody may have waited for the end of a process that was killed.
    survived = state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
    if survived:
        os.kill(pid, signal.SIGKILL)
    assert not survived or row["unconfined"] == "documented"


@pytest.mark.full
@pytest.mark.parametrize("row", DETECTED, ids=lambda row: row["name"])
def test_a_change_of_what_decides_leaves_no_verdict(project: Project, row: dict[str, Any]) -> None:
    finished = hunt(project, [row])
    assert finished.code not in (0, 1)
    assert row.get("says", "") in finished.stdout + finished.stderr
