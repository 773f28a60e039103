"""Stored trials of coding-agent programs that are graded again, and bases that the checks of the head grade."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.project import Project
from tests.commands.test_against import records
from tests.github.repositories import commit, repository

COMMAND = {"command": {"run": "sh hidden/check.sh", "hidden": "hidden"}}
GOLDEN = {"file": {"path": "notes.txt", "equals": "golden.txt"}}
TARGET = {"agent": "command", "command": "cp AGENTS.md notes.txt -v", "workspace": "work", "confine": "none"}


@pytest.mark.parametrize(
    ("changed", "content", "code", "says"),
    [
        ("AGENTS.md", "Of no check.\n", 0, ""),
        ("hidden/check.sh", "exit 0\n", 3, "the hidden files hidden have changed since sh hidden/check.sh was run"),
        ("hidden/new.sh", "exit 1\n", 3, "the hidden files hidden have changed since sh hidden/check.sh was run"),
        ("hidden/__pycache__/check.pyc", "x", 0, ""),
        # What was left is in the record, and is compared with the file of now.
        ("golden.txt", "Be quick.\n", 1, "notes.txt differs from golden.txt in line 1"),
    ],
)
def test_what_is_graded_again_fits_the_files_of_now(
    project: Project, changed: str, content: str, code: int, says: str
) -> None:
    project.write("work/AGENTS.md", "Be kind.\n")
    project.write("golden.txt", "Be kind.\n")
    project.write("hidden/check.sh", "grep kind notes.txt\n")
    project.suite([{"name": "it", "input": "x", "expect": [COMMAND, GOLDEN]}], evaluations=None)
    project.policy(target=TARGET)
    assert project.run("run", "-o", "out").code == 0
    project.write(changed, content)
    finished = project.run("rejudge", "out/results.json", "-o", "again")
    read = finished.stdout + finished.stderr + (project.folder / "again/results.json").read_text()
    assert finished.code == code, read
    assert says in read


@pytest.mark.full
def test_a_base_is_graded_by_the_checks_and_the_hidden_files_of_the_head(project: Project) -> None:
    shop = repository(project)
    shop.write("work/AGENTS.md", "Be kind.\n")
    case: dict[str, Any] = {"name": "it", "input": "x", "expect": [{"contains": "notes.txt"}]}
    shop.suite([case], evaluations=None)
    shop.policy(target=TARGET)
    shop.write("old/check.sh", "exit 0\n")
    commit(shop)
    # The base has neither the file of the checks nor the hidden files; an old exam of its own would have passed.
    shop.write("work/rules.json", '{"days": 30}\n')
    shop.write("hidden/check.sh", "grep 30 rules.json\n")
    shop.write("old/check.sh", "grep 30 rules.json\n")
    checks = [
        {"file": {"path": "rules.json"}},
        {"file": {"path": "rules.json", "contains": "30"}},
        {"data": {"path": "rules.json", "at": "$.days", "equals": 30}},
        COMMAND,
        {"command": {"run": "sh old/check.sh", "hidden": "old"}},
        {"file": {"path": "rules.json", "exists": False}},
    ]
    shop.suite([{**case, "expect": [*case["expect"], *checks]}], evaluations=None)
    commit(shop, "topic")
    shop.run("run", "-o", "out", "--baseline", "merge-base")
    head, base = ([each for turn in side.turns for each in turn.evaluations] for side in records(shop))
    assert [(each.score, each.error) for each in head] == [(1.0, None)] * 6 + [(0.0, None)]
    assert [(each.score, each.error) for each in base] == [(1.0, None)] + [(0.0, None)] * 5 + [(1.0, None)]
    assert "rules.json does not exist" in (base[1].explanation or "")
