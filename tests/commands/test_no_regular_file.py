"""Every command refuses what stands at the place of a file and is none: a pipe, a device, a socket, a folder."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from holodeck_action.commands.command_line import cli
from tests.commands.project import Project
from tests.extensions.traces.spans import exchange, request
from tests.extensions.view.test_view import served
from tests.tables import walk

pytestmark = pytest.mark.timeout(60)
"""A command that waits for a pipe would never end."""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    """A link to a device."""
    path.symlink_to("/dev/null")


def bound(path: Path) -> None:
    # The address of a socket has few characters.
    here = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


KINDS: dict[str, Callable[[Path], None]] = {"pipe": pipe, "device": device, "socket": bound}

COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gate": ("out/results.json", ("gate", "out/results.json")),
    "gate a folder": ("out/results.json", ("gate", "out")),
    "gate its base": ("compared/base/results.json", ("gate", "compared")),
    "gate the last run": (".holodeck/last/results.json", ("gate",)),
    "gate --policy": ("other.yaml", ("gate", "good", "--policy", "other.yaml")),
    "report": ("out/results.json", ("report", "out/results.json")),
    "report a folder": ("out/results.json", ("report", "out")),
    "report its base": ("compared/base/results.json", ("report", "compared")),
    "report the last run": (".holodeck/last/results.json", ("report",)),
    "report --template": ("mine.j2", ("report", "good", "--format", "markdown", "--template", "mine.j2")),
    "compare a base": ("out/results.json", ("compare", "out/results.json", "good")),
    "compare a head": ("out/results.json", ("compare", "good", "out/results.json")),
    "compare with the last run": (".holodeck/last/results.json", ("compare", "good")),
    "compare --policy": ("other.yaml", ("compare", "good", "good", "--policy", "other.yaml")),
    "compare --history": ("past/history.jsonl", ("compare", "--history", "past", "--", "good", "-1")),
    "merge": ("out/results.json", ("merge", "out", "-o", "merged")),
    "merge a file": ("out/results.json", ("merge", "out/results.json", "-o", "merged")),
    "publish": ("out/results.json", ("publish", "out", "--pull-request", "7", "--repository", "octo/shop")),
    "publish a file": (
        "out/results.json",
        ("publish", "out/results.json", "--pull-request", "7", "--repository", "octo/shop"),
    ),
    "history show": ("past/history.jsonl", ("history", "show", "past")),
    "history import": ("out/results.json", ("history", "import", "out", "--into", "new")),
    "history import a file": ("out/results.json", ("history", "import", "out/results.json", "--into", "new")),
    "history import --into": ("past/history.jsonl", ("history", "import", "good", "--into", "past")),
    "calibrate": ("labels.csv", ("calibrate", "labels.csv", "--results", "good/results.json")),
    "calibrate --results": ("out/results.json", ("calibrate", "kept.csv", "--results", "out/results.json")),
    "export": ("out/results.json", ("export", "out/results.json", "--format", "honeyhive")),
    "export json": ("out/results.json", ("export", "out/results.json", "--format", "json")),
    "export --card": ("card.json", ("export", "good/results.json", "--format", "honeyhive", "--card", "card.json")),
    "export --labels": (
        "labels.csv",
        ("export", "good/results.json", "--format", "honeyhive", "--labels", "labels.csv"),
    ),
    "export --history": (
        "past/history.jsonl",
        ("export", "good/results.json", "--format", "honeyhive", "--history", "past"),
    ),
    "rejudge": ("out/results.json", ("rejudge", "out/results.json", "-o", "again")),
    "verify": ("out/results.json", ("verify", "out/results.json")),
    "verify a folder": ("out/results.json", ("verify", "out")),
    "view": ("out/results.json", ("view", "out/results.json", "--no-browser")),
    "run --baseline": ("out/results.json", ("run", "--baseline", "file:out/results.json", "-o", "new")),
    "run --baseline a folder": ("out/results.json", ("run", "--baseline", "file:out", "-o", "new")),
    "run --failed-from": ("out/results.json", ("run", "--failed-from", "out/results.json", "-o", "new")),
    "run --resume": ("out/journal.jsonl", ("run", "--resume", "-o", "out")),
    "run --history": ("past/history.jsonl", ("run", "--history", "past", "-o", "new")),
    "run --template": ("mine.j2", ("run", "--template", "mine.j2", "-o", "new")),
    "run --env-file": ("mine.env", ("run", "--env-file", "mine.env", "-o", "new")),
    "drift": ("out/results.json", ("drift", "out/results.json", "--before", "good/results.json")),
    "drift --before": ("out/results.json", ("drift", "good/results.json", "--before", "out/results.json")),
    "cases from-traces": ("night.jsonl", ("cases", "from-traces", "night.jsonl", "-o", "incidents.yaml")),
    "cases from-traces --names": (
        "names.txt",
        ("cases", "from-traces", "good/night.jsonl", "-o", "incidents.yaml", "--names", "names.txt"),
    ),
    "validate a policy": ("holodeck-action.yaml", ("validate",)),
    "validate": ("agent.yaml", ("validate", "agent.yaml")),
}
"""What stands at which place, and the command that would read it."""
OTHERWISE = ("publish a file", "validate", "validate a policy")
"""Commands that refuse a link, or what is no suite, before they ask what it is."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Results in `good`, in `compared` with those of a base, and in a history."""
    project = Project(tmp_path_factory.mktemp("made"))
    project.numbered(2)
    assert project.run("run", "-o", "good", "--history", "past").code == 0
    assert project.run("run", "-o", "compared", "--baseline", "file:good/results.json").code == 0
    project.write("good/night.jsonl", json.dumps(request(exchange("a" * 32, "Where is it?", "In Leeds."))))
    project.write("kept.csv", "case,label\ncase-0,pass\ncase-1,pass\n")
    return project


@pytest.fixture
def scene(made: Project, tmp_path: Path) -> Project:
    """A copy of all that."""
    return made.copy_to(tmp_path / "scene")


@contextmanager
def standing(project: Project, name: str, make: Callable[[Path], None]) -> Iterator[Path]:
    """Put something at a place, in the place of what is there."""
    path = project.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    yield path


@pytest.mark.parametrize("kind", KINDS)
@walk("name", COMMANDS)
def test_what_is_no_file_is_refused_in_one_sentence(made: Project, tmp_path: Path, name: str, kind: str) -> None:
    place, arguments = COMMANDS[name]
    scene = made.copy_to(tmp_path / "scene")
    with standing(scene, place, KINDS[kind]) as path:
        before = path.lstat()
        finished = scene.run(*arguments)
        assert finished.code == 2, finished.stdout + finished.stderr
        assert len(finished.errors) == 1, finished.stderr
        said = finished.errors[0]
        assert Path(place).name in said or Path(place).parent.name in said
        socket_of_a_suite = kind == "socket" and "No such device or address" in said
        # In an output folder a link is refused, wherever it leads.
        link = kind == "device" and "it is a link" in said
        assert "regular file" in said or name in OTHERWISE or socket_of_a_suite or link, said
        assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)


def test_every_command_is_walked() -> None:
    """A command that is new has to be put into the table, or named here: it reads no results, or runs another one."""
    named = {arguments[0] for _, arguments in COMMANDS.values()}
    assert set(cli.list_commands(click.Context(cli))) == named | {
        *("doctor", "import", "init", "optimize", "race", "schema", "test")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_of_runs_shows_the_others(scene: Project, kind: str) -> None:
    """`view` of folders leaves out what cannot be read, and does not wait for it."""
    for name in ("bad/results.json", "several/verdict.json", "going/journal.jsonl"):
        with standing(scene, name, KINDS[kind]):
            pass
    with served(scene, ".") as site:
        outcomes = [outcome for _, outcome in site.runs()]
        assert outcomes.count("passed") >= 2
        assert all(site.get(address)[0] in (200, 409) for address, _ in site.runs())


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_beside_results_and_is_no_file_is_as_if_it_were_not_there(scene: Project, kind: str) -> None:
    with standing(scene, "good/earlier-runs.jsonl", KINDS[kind]), standing(scene, "good/verdict.json", KINDS[kind]):
        assert scene.run("report", "good").code == 0
        assert scene.run("gate", "good").code == 0
        assert scene.run("run", "-o", "good").code == 0


def test_a_run_does_not_write_its_journal_into_a_pipe(scene: Project) -> None:
    """As any other file of an earlier run, what is in the place of the journal is replaced."""
    with standing(scene, "new/journal.jsonl", pipe) as path:
        finished = scene.run("run", "-o", "new")
        assert finished.code == 0, finished.stderr
        assert path.is_file() or not path.exists()
