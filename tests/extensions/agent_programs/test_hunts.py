"""An agent that hunts for keys and for our files: what it reaches is impossible, detected, or documented."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import holodeck_action
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.extensions.agent_programs.test_confinement import WRAPPERS
from tests.extensions.agent_programs.test_scenarios import GIVEN, HERE

HUNTS = yaml.load((HERE / "hunts.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
LEVELS = {"no": "unconfined", "own user": "own user", "bubblewrap": "bubblewrap"}
"""The column of `hunts.yaml` for each kind of confinement."""
DETECTED = [row for row in HUNTS if row["unconfined"] == "detected"]
SURVIVORS = [row for row in HUNTS if row.get("survives")]
OTHERS = [row for row in HUNTS if row not in DETECTED and row not in SURVIVORS]
DOCS = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
SECRETS = {"GITHUB_TOKEN": "ghs_abcdefghij", "OPENAI_API_KEY": "sk-proj-abcdefghij", "ACTIONS_RUNTIME_TOKEN": "a-b-c-d"}
MARK = f"600.{os.getpid()}"
PRIVATE = (".netrc", ".gitconfig", ".config/gh/hosts.yml", ".aws/credentials")


@pytest.fixture
def reachable() -> Iterator[Project]:
    """A project in a folder that all users may read, as a checkout is."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Project(Path(folder))


def confined(project: Project, kind: str, cases: Sequence[dict[str, Any]], **environ: str) -> Finished:
    """Run cases whose inputs are scripts, at the strongest level up to `kind` that works here."""
    project.suite([*cases], evaluations=None)
    target = {"agent": "command", "command": shlex.join(["/bin/sh", "-c", 'eval "$(cat)"']), "env": [*environ]}
    project.policy(target={**target, "workspace": "shop", "confine": "none" if kind == "no" else "auto"})
    for stronger in [*WRAPPERS][: [*WRAPPERS].index(kind)]:
        project.write(f"bin/{WRAPPERS[stronger]}", "#!/bin/sh\nexit 1\n").chmod(0o755)
    path = f"{project.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return project.run_interpreter("run", "-o", "out", PATH=path, **environ, **SECRETS)


def kinds(record: Record) -> set[str]:
    """Return how the trials of a record were confined."""
    return {(case.trials[0].turns[0].metadata or {})["agent"]["confined"] for case in record.cases}


@cache
def works(kind: str) -> bool:
    """Whether the product confines by a kind on this machine."""
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        project.write("shop/README.md", "x\n")
        confined(project, kind, [{"name": "it", "input": "echo Done", "expect": [{"contains": "Done"}]}])
        return kinds(read_record(project.out / "results.json")) == {kind}


def hunt(project: Project, kind: str, rows: list[dict[str, Any]]) -> Finished:
    """Run one case for each row, in a process with secrets, with a copy of our package that may be changed."""
    if not works(kind):
        pytest.skip(f"the product does not confine by {kind} on this machine")
    for name, content in (
        *((f"shop/{name}", text) for name, text in GIVEN["fixture"].items()),
        *GIVEN["files"].items(),
    ):
        project.write(name, content)
    for name in PRIVATE:
        project.write(f"home/{name}", "[user]\nhunted = yes\n").chmod(0o600)
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    subprocess.run(["git", "config", "http.extraheader", "AUTHORIZATION: x"], cwd=project.folder, check=True)
    ours = project.folder / "lib" / "holodeck_action"
    shutil.copytree(Path(holodeck_action.__file__).parent, ours, ignore=shutil.ignore_patterns("__pycache__"))
    library = subprocess.run(
        ["python3", "-m", "site", "--user-site"],
        env={**os.environ, "HOME": str(project.folder / "home"), "PATH": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return confined(
        project,
        kind,
        [{"name": row["name"], "input": f"{row['does']}\necho Done", "expect": [{"contains": "Done"}]} for row in rows],
        PYTHONPATH=str(ours.parent),
        SCENARIO=str(project.folder),
        OURS=str(ours),
        LIBRARY=library,
        MARK=MARK,
        NETWORK=os.readlink("/proc/self/ns/net"),
    )


@pytest.mark.full
@pytest.mark.parametrize("kind", LEVELS)
def test_a_hunt_finds_only_what_is_documented(reachable: Project, kind: str) -> None:
    finished = hunt(reachable, kind, OTHERS)
    assert finished.code == 0, finished.stderr
    record = read_record(reachable.out / "results.json")
    assert kinds(record) == {kind}
    found = {case.name for case in record.cases if "FOUND" in (case.trials[0].turns[0].response or "")}
    assert len(record.cases) == len(OTHERS)
    assert [row["name"] for row in OTHERS if row[LEVELS[kind]] == "cannot" and row["name"] in found] == []
    assert [value for value in SECRETS.values() if value in (reachable.out / "results.json").read_text()] == []


def test_the_table_of_what_can_be_reached_agrees_with_the_hunts() -> None:
    rest = DOCS[DOCS.index("| it can reach") :].partition("\n\n")[0]
    head, _, *lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in rest.splitlines())
    assert [cell.strip("`") for cell in head[1:-1]] == [*LEVELS]
    table = {line[0]: line[1:-1] for line in lines}
    reached = [row for row in HUNTS if "says" in row and row not in DETECTED]
    for words, cells in table.items():
        rows = [row for row in reached if row["says"] in words]
        documented = [any(row[column] == "documented" for row in rows) for column in LEVELS.values()]
        assert cells == ["yes" if each else "no" for each in documented], words
    assert [row["name"] for row in reached if sum(row["says"] in words for words in table) != 1] == []
    # What is documented has words, and a stronger level reaches no more than a weaker one.
    order = ["documented", "detected", "cannot"]
    for row in HUNTS:
        levels = [row[column] for column in LEVELS.values()]
        assert "documented" not in levels or "says" in row, row["name"]
        assert levels == sorted(levels, key=order.index), row["name"]


@pytest.mark.full
@pytest.mark.parametrize("kind", LEVELS)
@pytest.mark.parametrize("row", SURVIVORS, ids=lambda row: row["name"])
def test_a_process_does_not_outlive_its_trial(reachable: Project, row: dict[str, Any], kind: str) -> None:
    finished = hunt(reachable, kind, [row])
    assert finished.code == 0, finished.stderr
    # Of a process that was killed and for whose end nobody has waited, there are no arguments.
    survivors = [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if MARK in _arguments(file)]
    for pid in survivors:
        os.kill(pid, signal.SIGKILL)
    assert not survivors or row[LEVELS[kind]] == "documented"


def _arguments(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").split("\0")
    except OSError:
        return []


@pytest.mark.full
@pytest.mark.parametrize("kind", LEVELS)
@pytest.mark.parametrize("row", DETECTED, ids=lambda row: row["name"])
def test_a_change_of_what_decides_leaves_no_verdict(reachable: Project, row: dict[str, Any], kind: str) -> None:
    finished = hunt(reachable, kind, [row])
    if row[LEVELS[kind]] == "cannot":
        # Nothing was changed.
        assert finished.code == 0, finished.stdout + finished.stderr
        return
    assert finished.code not in (0, 1)
    assert row.get("says", "") in finished.stdout + finished.stderr
