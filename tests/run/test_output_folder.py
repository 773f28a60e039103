"""The folder of a run: nothing of an earlier run passes for this one's, and one run at a time writes into it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from holodeck_action.record.folder import Claims, FolderError
from holodeck_action.record.result_files import read_record
from holodeck_action.text.given_paths import GivenPath
from tests.commands.project import Project

FILES = [".finished.jsonl", "junit.xml", "report.html", "report.md", "results.json", "verdict.json"]
BUSY = "another run is writing into this folder; wait until it ends, or choose another --output-dir"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def green(project: Project) -> Project:
    """Results of a run that passed in `out`."""
    project.numbered(2)
    assert project.run("run", "-o", "out").code == 0
    assert names(project.out) == FILES
    return project


def broken(project: Project, how: str) -> list[str]:
    """Let the next run be refused; return its arguments."""
    match how:
        case "suite":
            project.suite([])
        case "policy":
            project.policy(gates={"min_pass_rate": 2})
        case "gates":
            project.policy(target="recorded:answers.jsonl", gates={"min_pass_rate": 0})
        case "target":
            project.policy(target="recorded:none.jsonl")
        case "no such suite":
            return ["nowhere"]
        case "filter":
            return ["--case", "nothing"]
        case "flags":
            return ["--repeat", "1", "--min-pass", "2"]
        case "template":
            return ["--template", "none.j2"]
        case "resume":
            project.write("out/journal.jsonl", '{"journal": {"digest": "of something else"}}\n')
            return ["--resume"]
    return []


WAYS = ["suite", "policy", "gates", "target", "no such suite", "filter", "flags", "template", "resume"]


@pytest.mark.parametrize("how", WAYS)
def test_green_results_do_not_survive_a_run_that_is_refused(green: Project, how: str) -> None:
    before = {name: (green.out / name).read_bytes() for name in FILES}
    assert green.run("run", "-o", "out", *broken(green, how)).code == 2
    assert names(green.out) == ["journal.jsonl", "previous"] if how == "resume" else ["previous"]
    assert {path.name: path.read_bytes() for path in (green.out / "previous").iterdir()} == before


def test_results_of_the_run_before_the_last_are_gone(green: Project) -> None:
    green.numbered(3, frozenset({1}))
    assert green.run("run", "-o", "out").code == 1
    assert names(green.out) == sorted([*FILES, "previous"])
    assert len(read_record(green.out / "previous" / "results.json").cases) == 2
    green.numbered(4)
    assert green.run("run", "-o", "out").code == 0
    assert names(green.out / "previous") == FILES
    assert len(read_record(green.out / "previous" / "results.json").cases) == 3


def test_failed_cases_are_read_before_their_results_move(green: Project) -> None:
    green.numbered(3, frozenset({1}))
    assert green.run("run", "-o", "out").code == 1
    assert green.run("run", "-o", "out", "--failed-from", "out/results.json").code == 1
    assert [case.name for case in read_record(green.out / "results.json").cases] == ["case 1"]


@pytest.mark.parametrize("command", ["run --dry-run -o out", "validate", "rejudge out/results.json -o out"])
def test_what_runs_nothing_moves_nothing(green: Project, command: str) -> None:
    green.run(*command.split())
    assert names(green.out) == FILES


def test_each_of_several_suites_has_its_own(project: Project) -> None:
    for folder in "ab":
        inner = Project(project.folder / folder)
        inner.folder.mkdir()
        inner.numbered(1)
    assert project.run("run", "a", "b", "-o", "out").code == 0
    (project.folder / "a" / "agent.yaml").write_text("name: [")
    # Also where nothing tells the suites.
    for arguments in (["a", "b"], ["nowhere"]):
        assert project.run("run", *arguments, "-o", "out").code == 2
        assert names(project.out) == ["a", "b", "previous"]
        assert names(project.out / "previous") == ["report.html", "verdict.json"]
        for folder in "ab":
            assert names(project.out / folder) == ["previous"]
        for file in (project.out / "a", project.out / "b", project.out):
            for moved in (file / "previous").iterdir():
                moved.replace(file / moved.name)


def test_previous_results_are_not_published(green: Project) -> None:
    green.numbered(3, frozenset({1}))
    green.run("run", "-o", "out", *broken(green, "suite"))
    finished = green.run("publish", "out", "--repository", "o/r", "--pull-request", "7", GITHUB_TOKEN="ghs_0123456789")
    assert finished.code == 2
    assert "out: holds no results.json" in finished.stderr


def test_a_link_in_the_way_is_refused(green: Project) -> None:
    (green.folder / "elsewhere").mkdir()
    (green.out / "previous").symlink_to(green.folder / "elsewhere")
    finished = green.run("run", "-o", "out")
    assert finished.code == 2
    assert "previous: cannot be replaced: a symbolic link is in the way" in finished.stderr
    assert names(green.folder / "elsewhere") == []


@pytest.mark.parametrize("name", ["verdict.json", "results.json", "journal.jsonl", "earlier-runs.jsonl"])
@pytest.mark.parametrize("what", ["pipe", "link to a file", "link to nothing", "deep", "large"])
def test_nothing_in_the_folder_is_waited_for_or_followed(project: Project, name: str, what: str) -> None:
    project.numbered(2)
    project.out.mkdir()
    other, place = project.folder / "other", project.out / name
    match what:
        case "pipe":
            os.mkfifo(place)
        case "link to a file":
            other.write_bytes(b"")
            place.symlink_to(other)
        case "link to nothing":
            place.symlink_to(other)
        case "deep":
            place.write_bytes(b'{"suites": ' * 100_000)
        case "large":
            place.touch()
            os.truncate(place, 1 << 40)
    finished = project.run("run", "-o", "out")
    assert finished.code == 0, finished.stderr
    assert [file for file in names(project.out) if not file.startswith(("previous", "journal.previous"))] == FILES
    assert all((project.out / file).is_file() and not (project.out / file).is_symlink() for file in FILES)
    assert not other.exists() or other.read_bytes() == b""


def test_the_verdict_of_the_last_run_is_not_waited_for(project: Project) -> None:
    (project.folder / ".holodeck" / "last").mkdir(parents=True)
    os.mkfifo(project.folder / ".holodeck" / "last" / "verdict.json")
    finished = project.run("report")
    assert (finished.code, finished.errors) == (
        2,
        ["no results were given and .holodeck/last has none; run a suite first, or give a results.json"],
    )


# -- one at a time


@pytest.mark.races
@pytest.mark.parametrize("command", ["run -o out", "run -o ./out/../out --resume", "decide kept.json -o out"])
def test_a_folder_into_which_another_run_writes_is_refused(green: Project, command: str) -> None:
    arguments = command.split()
    green.write("kept.json", (green.out / "results.json").read_bytes())
    with Claims() as claims:
        claims.claim(GivenPath(Path("out"), green.folder))
        before = {path: path.read_bytes() for path in green.out.iterdir()}
        finished = green.run(*arguments)
        assert (finished.code, finished.stdout) == (2, "")
        assert BUSY in finished.stderr
        assert {path: path.read_bytes() for path in green.out.iterdir()} == before
    assert names(green.out) == FILES
    assert green.run(*arguments).code == 0


@pytest.mark.races
def test_a_run_that_is_under_way_keeps_its_folder(project: Project) -> None:
    project.numbered(2)
    project.policy(target="python:agent:answer")
    project.write(
        "agent.py",
        "import os, time\n"
        "def answer(messages):\n"
        "    open('asked', 'w').close()\n"
        "    while not os.path.exists('go'):\n"
        "        time.sleep(0.01)\n"
        "    return messages[-1]['content'].removeprefix('what is ').removesuffix('?')\n",
    )
    process = project.start("run", "-o", "out")
    project.wait_until(lambda: (project.folder / "asked").exists())
    second = project.run("run", "-o", "out")
    assert (second.code, BUSY in second.stderr) == (2, True)
    project.write("go", "")
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert names(project.out) == FILES
    assert len(read_record(project.out / "results.json").cases) == 2


@pytest.mark.races
def test_a_killed_run_keeps_no_lock(project: Project) -> None:
    project.numbered(1)
    project.policy(target="python:agent:answer")
    project.write(
        "agent.py", "import time\ndef answer(messages):\n    open('asked', 'w').close()\n    time.sleep(600)\n"
    )
    process = project.start("run", "-o", "out")
    project.wait_until(lambda: (project.folder / "asked").exists())
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert ".lock" in names(project.out)
    project.write("agent.py", "def answer(messages):\n    return '0'\n")
    assert project.run("run", "-o", "out").code == 0
    assert ".lock" not in names(project.out)


@pytest.mark.races
def test_a_lock_is_held_once_and_given_back(tmp_path: Path) -> None:
    folder = GivenPath(Path(), tmp_path)
    with Claims() as mine, Claims() as other:
        mine.claim(folder)
        mine.claim(folder)
        with pytest.raises(FolderError):
            other.claim(folder)
    with Claims() as later:
        later.claim(folder)
    assert names(tmp_path) == []


def test_the_verdict_of_a_forged_combined_one_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "results.json").write_text("mine")
    (tmp_path / "out" / "verdict.json").write_text(json.dumps({"suites": [{"folder": ".."}, {"folder": "/"}, {}, 3]}))
    with Claims() as claims:
        claims.clear(GivenPath(Path("out"), tmp_path))
    assert names(tmp_path) == ["out", "results.json"]
