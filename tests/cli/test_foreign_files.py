"""Files that commands are given: nothing of them is waited for, and whatever they hold ends in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.project import Project

PIPE = "it is no regular file (a pipe, a device or a socket)"
DEEP = (150, 300, 500, 900, 5000)
COMMANDS: dict[str, tuple[str, str]] = {
    "judge card": ("export out/results.json --format honeyhive --card FILE", "FILE: "),
    "template": ("report out/results.json --format markdown --template FILE", "FILE: "),
    "variables": ("run --env-file FILE", "FILE: "),
}


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


@pytest.mark.timeout(30)
@pytest.mark.parametrize("what", COMMANDS)
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


@pytest.mark.timeout(20)
def test_a_key_that_stands_twice_among_many_is_found_at_once(project: Project) -> None:
    keys = ", ".join(f'"{number}": 1' for number in [*range(200_000), 199_999])
    project.suite([], test_cases=None, test_cases_file="cases.jsonl")
    project.write("cases.jsonl", f'{{"input": {{{keys}}}}}\n')
    assert 'the key "199999" stands twice in one object' in project.run("validate").stderr
