"""A run without an output folder: what it found out is kept, and the other commands find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.record.canonical import record_digest
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

LAST = ".holodeck/last"
KEPT = f"note: the results are kept in {LAST} until the next run; --output-dir keeps them elsewhere\n"


@pytest.fixture
def ran(project: Project) -> Project:
    """Four cases, one of them wrong, run without an output folder."""
    project.numbered(4, frozenset({2}))
    finished = project.run("run")
    assert (finished.code, finished.stderr.count(KEPT)) == (1, 1)
    return project


def test_its_record_is_that_of_a_run_with_a_folder_and_is_nothing_to_commit(ran: Project) -> None:
    assert sorted(path.name for path in (ran.folder / LAST).iterdir()) == [
        ".finished.jsonl",
        "results.json",
        "verdict.json",
    ]
    assert (ran.folder / ".holodeck/.gitignore").read_text() == "last/\n"
    _, record = ran.evaluate()
    kept = read_record(ran.folder / LAST / "results.json")
    assert record_digest(kept) == record_digest(record)


def test_commands_without_results_take_it(ran: Project) -> None:
    given = f"{LAST}/results.json"
    assert ran.run("report") == ran.run("report", given)
    assert "3 passed, 1 failed" in ran.run("report").stdout
    assert ran.run("decide", "--min-pass-rate", "0.7") == ran.run("decide", given, "--min-pass-rate", "0.7")
    assert ran.run("compare", given) == ran.run("compare", given, given)
    again = ran.run("run", "-o", "out", "--failed-from")
    assert again.code == 1
    assert [case.name for case in read_record(ran.out / "results.json").cases] == ["case 2"]


def test_the_next_run_replaces_it_and_one_that_cannot_start_does_not(ran: Project) -> None:
    before = (ran.folder / LAST / "results.json").read_bytes()
    assert ran.run("run", "--target", "recorded:none.jsonl").code == 2
    assert (ran.folder / LAST / "results.json").read_bytes() == before
    assert ran.run("run", "--dry-run").code == 0
    assert (ran.folder / LAST / "results.json").read_bytes() == before
    assert ran.run("run", "--case", "case 1").code == 0
    assert " · 1 of 1 passed" in ran.run("report").stdout


def test_an_interrupted_run_can_be_continued(ran: Project) -> None:
    stopped = ran.run("run", "--run-timeout", "1e-9")
    assert (stopped.code, stopped.stderr.count(KEPT)) == (4, 1)
    hint = ran.run("run", "--resume")
    assert (hint.code, f"--output-dir of the interrupted run, or {LAST} if none was given" in hint.stderr) == (2, True)
    assert ran.run("run", "-o", LAST, "--resume").code == 1


def test_without_results_there_is_a_way_out(project: Project) -> None:
    sentence = f"error: no results were given and {LAST} has none; run a suite first, or give a results.json\n"
    for command in ("report", "decide"):
        finished = project.run(command)
        assert (finished.code, finished.stdout, finished.stderr) == (2, "", sentence)


def test_of_several_suites_one_must_be_named(project: Project) -> None:
    for name in ("shop", "bank"):
        Project(project.folder / name).numbered(1)
    assert project.run("run", "shop", "bank").code == 0
    finished = project.run("report")
    assert finished.code == 2
    places = f"{LAST}/shop/results.json, {LAST}/bank/results.json"
    assert finished.stderr == (f"error: the last run evaluated several suites; give one suite's results ({places})\n")
    assert project.run("report", f"{LAST}/bank/results.json").code == 0


@pytest.mark.parametrize("in_the_way", [".holodeck", LAST])
def test_a_run_needs_no_place_for_its_results(project: Project, in_the_way: str) -> None:
    project.numbered(1)
    project.write(in_the_way, "a file")
    finished = project.run("run")
    assert finished.code == 0
    assert f"note: the results are not kept: {LAST}: results cannot be written here: " in finished.stderr
    assert Path(project.folder / in_the_way).read_text() == "a file"


@pytest.mark.races
def test_two_runs_at_once_do_not_mix(ran: Project) -> None:
    before = (ran.folder / LAST / "results.json").read_bytes()
    ran.write("slow.py", "import time\ndef answer(messages):\n    time.sleep(600)\n")
    with ran.start("run", "--target", "python:slow:answer") as process:
        ran.wait_until(lambda: (ran.folder / LAST / "journal.jsonl").exists())
        other = ran.run("run", "--case", "case 1")
        process.terminate()
        process.communicate(timeout=60)
    assert other.code == 0
    assert f"note: the results are not kept: {LAST}: another run is writing into this folder" in other.stderr
    assert (ran.folder / LAST / "previous/results.json").read_bytes() == before
