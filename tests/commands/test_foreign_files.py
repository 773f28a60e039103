"""Files that commands are given: nothing of them is waited for, and whatever they hold ends in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.project import Project

PIPE = "it is not a regular file (a pipe, a device or a socket)"
DEEP = (150, 300, 500, 900, 5000)
COMMANDS: dict[str, tuple[str, str]] = {
    "judge card": ("export out/results.json --format honeyhive --card FILE", "FILE: "),
    "template": ("report out/results.json --format markdown --template FILE", "FILE: "),
    "variables": ("run --env-file FILE", "FILE: "),
}
NEEDED = {"judge card": "honeyhive"}
TOO_LONG = (
    "no such suite; give the path of an agent.yaml, its folder, or a glob",
    "holds no results.json; give the output folders of all shards",
    "File name too long; give a writable folder with --output-dir",
)
"""What is said of a name that is too long where Python finds no such file instead of raising an error (3.14)."""


def test_a_path_that_no_system_takes_is_told(project: Project) -> None:
    for arguments in (("run", "a" * 300), ("validate", "a" * 300), ("run", "-o", "a" * 300), ("merge", "a" * 300)):
        project.numbered(1)
        finished = project.run(*arguments)
        assert (finished.code, len(finished.errors)) == (2, 1), finished.stderr
        assert finished.errors[0].endswith(("it cannot be a path: File name too long", *TOO_LONG))


@pytest.fixture
def evaluated(project: Project) -> Project:
    """Results of a run in `out`."""
    project.numbered(2)
    assert project.run("run", "-o", "out").code == 0
    return project


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.needs(NEEDED.get(what, "none"))) for what in COMMANDS]
)
@pytest.mark.parametrize(("make", "reason"), [(pipe, PIPE.removeprefix("it ")), (endless, "1,099,511,627,776 bytes")])
def test_a_file_is_neither_waited_for_nor_read_for_ever(
    evaluated: Project, what: str, make: Callable[[Path], None], reason: str
) -> None:
    make(evaluated.folder / "given")
    command, begins = COMMANDS[what]
    finished = evaluated.run(*command.replace("FILE", "given").split())
    assert (finished.code, finished.stdout) == (2, "")
    (error,) = finished.errors
    assert error.startswith(begins.replace("FILE", "given"))
    assert reason in error


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("levels", DEEP)
@pytest.mark.parametrize("name", ["cases.jsonl", "cases.csv", "cases.json"])
def test_cases_that_are_nested_too_deeply_are_told(project: Project, name: str, levels: int) -> None:
    tools = f'[{{"name": "f", "args": {nested(levels)}}}]'
    cell = tools.replace('"', '""')
    content = {
        "cases.jsonl": f'{{"input": "a", "ground_truth": "b", "expected_tools": {tools}}}\n',
        "cases.csv": f'input,ground_truth,expected_tools\na,b,"{cell}"\n',
        "cases.json": f'[{{"input": "a", "ground_truth": "b", "expected_tools": {tools}}}]\n',
    }
    project.write(name, content[name])
    project.suite([], test_cases=None, test_cases_file=name)
    finished = project.run("validate")
    deep = levels > (100 if name == "cases.json" else 200)
    assert (finished.code, "nested" in finished.stderr) == ((2, True) if deep else (0, False)), finished.stderr


@pytest.mark.full
def test_a_key_that_stands_twice_among_many_is_found_at_once(project: Project) -> None:
    keys = ", ".join(f'"{number}": 1' for number in [*range(200_000), 199_999])
    project.suite([], test_cases=None, test_cases_file="cases.jsonl")
    project.write("cases.jsonl", f'{{"input": {{{keys}}}}}\n')
    assert 'the key "199999" occurs twice in one object' in project.run("validate").stderr


TAMPERING = """
import os

def rows():
    yield {"input": "a", "ground_truth": "b"}
    (path,) = (path for path in map(link, os.listdir("/proc/self/fd")) if path.endswith("rows.jsonl"))
    TAMPER

def link(name):
    try:
        return os.readlink("/proc/self/fd/" + name)
    except OSError:
        return ""
"""


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        ("os.unlink(path); os.mkfifo(path)", f"its rows cannot be read: {PIPE}"),
        ("os.unlink(path); os.symlink('/dev/zero', path)", "its rows cannot be read: it is a link"),
        ("os.unlink(path); open(path, 'wb').write(b'\\xff')", "row 1: the row is not UTF-8 text"),
        ("os.unlink(path); open(path, 'wb').write(b'[' * 100_000)", "row 1: the row is not valid JSON"),
        ("os.unlink(path); open(path, 'wb').write(b'[1]')", "row 1: the row must be a JSON object"),
        ("os.unlink(path); os.mkdir(path)", "its rows cannot be read: Is a directory"),
    ],
)
def test_rows_that_code_of_the_suite_has_changed_are_told(project: Project, tamper: str, reason: str) -> None:
    project.suite([], test_cases=None, test_cases_file="python:cases:rows")
    project.write("cases.py", TAMPERING.replace("TAMPER", tamper))
    finished = project.run("validate")
    assert (finished.code, finished.stdout) == (2, "")
    assert reason in finished.stderr


@pytest.mark.needs
@pytest.mark.parametrize("content", [None, b"a = " + b"[" * 100_000, b"\xff", b"project = 1"])
def test_a_repository_with_a_hostile_project_file_gets_a_suite(project: Project, content: bytes | None) -> None:
    file = project.folder / "pyproject.toml"
    if content is None:
        pipe(file)
    else:
        file.write_bytes(content)
    finished = project.run("init", ".", "--framework", "langgraph")
    assert (finished.code, finished.stderr) == (0, "")
    assert "found no requirements.txt, and no dependencies in pyproject.toml" in finished.stdout


@pytest.mark.parametrize("name", ["HEAD", "config", "commondir"])
@pytest.mark.parametrize("make", [pipe, endless])
def test_files_of_git_are_not_waited_for(project: Project, name: str, make: Callable[[Path], None]) -> None:
    project.numbered(1)
    (project.folder / ".git").mkdir()
    make(project.folder / ".git" / name)
    finished, record = project.evaluate()
    assert (finished.code, record.provenance.commit) == (0, None)
