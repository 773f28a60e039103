"""Files that commands are given: nothing of them is waited for, and whatever they hold ends in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.project import Project

PIPE = "it is no regular file (a pipe, a device or a socket)"
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
