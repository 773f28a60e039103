"""Recorded trials of coding-agent programs, replayed without the programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.commands.test_against import records
from tests.extensions.agent_programs.test_programs import DONE, MODELS, PROGRAMS, install
from tests.github.repositories import commit, repository, responses

CHECKS: list[dict[str, Any]] = [
    {"file": {"path": "notes.txt", "contains": "hello"}},
    {"changed": {"only": ["notes.txt"], "max_lines": 1}},
    {"command": {"run": "cat notes.txt AGENTS.md", "stdout": {"contains": "kind"}}},
    {"command": {"run": "grep hello AGENTS.md"}},
]


def write(project: Project, program: str, prompt: str = "Do it. SCN=work", **target: Any) -> None:
    case = {"name": "notes", "turns": [{"input": prompt, "expect": CHECKS}, {"input": "Again. SCN=work"}]}
    project.suite([case], [{"type": "contains", "value": "e"}])
    project.policy(target={"agent": program, "model": MODELS.get(program), "workspace": "shop", **target})


def canonical(project: Project) -> str:
    return project.run("report", "out", "--canonical").stdout


def replay(project: Project, **environ: str) -> tuple[Finished, str]:
    """Replay without the programs; returns the error of the first turn."""
    finished = project.run("run", "-o", "out", "--replay", "tape", **environ)
    (turn, *_) = read_record(project.out / "results.json").cases[0].trials[0].turns
    return finished, "" if turn.error is None else turn.error.message


@pytest.mark.full
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_replay_needs_no_program_and_checks_again(project: Project, program: str) -> None:
    project.write("shop/AGENTS.md", "Be kind.\n")
    write(project, program)
    secret = "ran one command"
    environ = {**install(project, program), "OPENAI_API_KEY": secret}
    recorded = project.run("run", "-o", "out", "--record", "tape", **environ)
    assert recorded.code == 1, recorded.stderr
    before = canonical(project)
    tape = (project.folder / "tape" / "trials.jsonl").read_text()
    assert secret not in tape
    finished, problem = replay(project, OPENAI_API_KEY=secret)
    assert (finished.code, problem) == (recorded.code, ""), finished.stderr
    planned = project.run("run", "--dry-run", "--replay", "tape")
    assert "answers are replayed from" in planned.stdout + planned.stderr
    assert canonical(project) == before
    (first, second) = read_record(project.out / "results.json").cases[0].trials[0].turns
    assert first.response == DONE.replace(secret, "***")
    assert second.error is None
    assert [each.score for each in first.evaluations] == [1.0, 1.0, 1.0, 1.0, 0.0]


ODD = """mkfifo pipe
mkdir -p .venv/bin
ln -s /bin/sh .venv/bin/python
printf x > "$(printf 'caf\\351')"
ln -s "$(printf '\\351')" link
rm -r folder
echo x > folder
echo Done
"""
"""What a trial may leave: a pipe, a link that leads out, names that are not UTF-8, and a file in place of a folder."""


def test_a_trial_that_leaves_odd_files_is_replayed(project: Project) -> None:
    project.write("shop/folder/one/two.txt", "x\n")
    project.write("odd.sh", ODD)
    checks = [
        {"contains": "Done"},
        {"changed": {"any": ["pipe", ".venv/bin/python", "link", "caf?"], "max_files": 6}},
        {"file": {"path": ".venv/bin/python", "exists": False}},
        {"command": {"run": "test -x .venv/bin/python && test -f folder && ls"}},
    ]
    project.suite([{"name": "odd", "input": "x", "expect": checks}], evaluations=None)
    command = f"sh {project.folder / 'odd.sh'}"
    target = {"agent": "command", "command": command, "workspace": "shop", "confine": "none", "keep": "failed"}
    project.policy(target=target)
    recorded = project.run("run", "-o", "out", "--record", "tape")
    assert recorded.code == 1, recorded.stderr
    before = canonical(project)
    finished, problem = replay(project)
    assert (finished.code, problem) == (1, "")
    assert canonical(project) == before
    (turn,) = read_record(project.out / "results.json").cases[0].trials[0].turns
    assert [each.score for each in turn.evaluations] == [1.0, 1.0, 0.0, 1.0]
    # Whoever reads the run's folder neither waits nor follows a link out of it.
    kept = [path for path in (project.out / "workspaces").rglob("*") if not path.is_dir() or path.is_symlink()]
    assert sorted(os.fsencode(path.name) for path in kept) == [b"caf\xe9", b"folder", b"link"]


@pytest.mark.full
@pytest.mark.proves("AgentTarget.keep")
def test_files_of_failing_trials_are_kept(project: Project) -> None:
    checks = {"wrong": [{"changed": {"max_files": 0}}], "right": [{"changed": {"max_files": 1}}]}
    project.suite([{"name": n, "input": "SCN=work", "expect": each} for n, each in checks.items()], evaluations=None)
    project.policy(target={"agent": "codex", "keep": "failed"})
    many = "i=0; while [ $i -lt 600 ]; do : > $i.txt; i=$((i+1)); done; "
    for begin, kept in (("", "notes.txt"), (many, "not-kept.txt")):
        environ = install(project, "codex")
        player = (project.folder / "bin" / "codex").read_text()
        project.write("bin/codex", player.replace("exec ", f"{begin} exec "))
        assert project.run("run", "-o", "out", OPENAI_API_KEY="hello from", **environ).code == 1
        files = {str(file.relative_to(project.out)): file.read_text() for file in project.out.glob("workspaces/*/*/*")}
        assert [name for name in files if "right" not in name or not begin] == [f"workspaces/wrong/0/{kept}"]
        record = read_record(project.out / "results.json")
        assert (record.cases[0].trials[0].turns[0].metadata or {})["workspace"]["kept"] == "workspaces/wrong/0"
        assert "hello from" not in files[f"workspaces/wrong/0/{kept}"]
        if begin:
            assert "more than 500 changed files" in files[f"workspaces/wrong/0/{kept}"]


@pytest.mark.full
def test_a_replay_refuses_another_question(project: Project) -> None:
    project.write("shop/AGENTS.md", "Be kind.\n")
    write(project, "codex")
    assert project.run("run", "-o", "out", "--record", "tape", **install(project, "codex")).code == 1
    asked: dict[str, Callable[[], object]] = {
        "prompts[0]: 'Do it": lambda: write(project, "codex", "Do it now. SCN=work"),
        "model: nothing → 'fast'": lambda: write(project, "codex", model="fast"),
        "options.effort: nothing → 'high'": lambda: write(project, "codex", options={"effort": "high"}),
        "workspace: '": lambda: project.write("shop/AGENTS.md", "Be quick.\n"),
    }
    for words, change in asked.items():
        project.write("shop/AGENTS.md", "Be kind.\n")
        write(project, "codex")
        change()
        finished, problem = replay(project)
        assert finished.code == 3
        assert words in problem
    rows = (project.folder / "tape" / "trials.jsonl").read_text().splitlines()
    hostile = [json.loads(row) for row in rows]
    for row in hostile:
        row["response"]["json"]["files"] = {"../../../escaped.txt": {"text": "x", "executable": False}}
    project.write("tape/trials.jsonl", "".join(json.dumps(row) + "\n" for row in hostile))
    project.write("shop/AGENTS.md", "Be kind.\n")
    write(project, "codex")
    _, problem = replay(project)
    assert "has a path that leads out of it" in problem


@pytest.mark.full
def test_the_base_works_in_the_workspace_of_its_commit(project: Project) -> None:
    shop = repository(project)
    shop.write("work/AGENTS.md", "Be kind.\n")
    expect = [{"contains": "kind"}, {"command": {"run": "grep kind AGENTS.md"}}]
    shop.suite([{"name": "rule", "input": "x", "expect": expect}], evaluations=None)
    shop.policy(target={"agent": "command", "command": "cat AGENTS.md", "workspace": "work"})
    commit(shop)
    shop.write("work/AGENTS.md", "Be quick.\n")
    commit(shop, "topic")
    finished = shop.run("run", "-o", "out", "--baseline", "merge-base")
    assert finished.code == 1, finished.stderr
    assert responses(shop) == ({"Be quick."}, {"Be kind."})
    _, base = records(shop)
    assert [each.score for turn in base.turns for each in turn.evaluations] == [1.0, 1.0]
