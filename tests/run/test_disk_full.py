"""A disk that is full costs files, never the verdict, and is never green when the results are lost."""

from __future__ import annotations

import errno
import io
import os
import resource
import subprocess
from typing import BinaryIO

import pytest

from holodeck_action.cli import main
from holodeck_action.record.disk import Disk
from holodeck_action.record.result_files import read_record
from tests.commands.project import COMMAND, Project

FILES = [".finished.jsonl", "junit.xml", "report.html", "report.md", "results.json", "verdict.json"]


class NoJournal(Disk):
    """A disk without room for a journal after some writes of it."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, file: BinaryIO, data: bytes) -> None:
        if os.readlink(f"/proc/self/fd/{file.fileno()}").endswith("journal.jsonl"):
            self.room -= 1
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(file, data)


def run_on(disk: Disk, project: Project, *arguments: str) -> tuple[int, str]:
    stderr = io.StringIO()
    streams = io.StringIO(), io.StringIO(), stderr
    return main(("run", "-o", "out", *arguments), project.environ(), project.folder, *streams, disk=disk), (
        stderr.getvalue()
    )


def limited(project: Project, size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run with a limit on the size of files, which fails like a full disk."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=project.folder,
        # Or a module that is first imported here would be cut in Python's cache for all later tests.
        env=project.environ(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


@pytest.mark.parametrize(("wrong", "code"), [(frozenset[int](), 0), (frozenset({1}), 1)])
def test_a_journal_that_cannot_be_written_costs_only_itself(project: Project, wrong: frozenset[int], code: int) -> None:
    project.numbered(30, wrong)
    ended, stderr = run_on(NoJournal(3), project)
    assert ended == code
    assert all(len(case.trials) == 1 for case in read_record(project.out / "results.json").cases)
    told = "the journal journal.jsonl could not be written (No space left on device); --resume runs missing cases again"
    assert f"note: {told}\n" in stderr
    assert project.verdict()["exit_code"] == code


def test_a_run_that_cannot_write_its_journal_stops_before_the_first_call(project: Project) -> None:
    project.numbered(3)
    project.policy(target="python:agent:answer")
    asked = project.folder / "asked"
    answer = "def answer(messages):\n    open('asked', 'a').write('one ')\n    return '0'\n"
    project.write("agent.py", answer)
    told = "out/journal.jsonl: the journal cannot be written: No space left on device; nothing was run"
    for arguments in ((), ("--resume",)):
        ended, stderr = run_on(NoJournal(0), project, *arguments)
        assert (ended, asked.exists()) == (2, False), stderr
        assert told in stderr
    assert run_on(NoJournal(2), project)[0] == 1
    # The journal of this run is continued, where it can be.
    (project.out / ".finished.jsonl").rename(project.out / "journal.jsonl")
    asked.unlink()
    ended, stderr = run_on(NoJournal(0), project, "--resume")
    assert (ended, asked.exists()) == (2, False), stderr
    assert told in stderr


@pytest.mark.full
@pytest.mark.parametrize(("wrong", "code"), [(frozenset[int](), 3), (frozenset({1}), 1)])
def test_results_that_cannot_be_written_are_no_pass(project: Project, wrong: frozenset[int], code: int) -> None:
    project.numbered(30, wrong)
    ended = limited(project, 2000, "run", "-o", "out")
    assert ended.returncode == code
    assert (" · 30 of 30 passed" if not wrong else " · 29 of 30 passed") in ended.stdout
    assert "error: out: results could not be written: File too large; the verdict above stands" in ended.stderr
    assert "Traceback" not in ended.stderr
    # Nothing half-written, and nothing of an earlier run; the journal can be continued.
    assert [path.name for path in project.out.iterdir()] == ["journal.jsonl"]
    resumed = project.run("run", "-o", "out", "--resume")
    assert resumed.code == (1 if wrong else 0)
    assert [path.name for path in sorted(project.out.iterdir())] == FILES


@pytest.mark.full
def test_results_of_an_earlier_run_do_not_survive_lost_ones(project: Project) -> None:
    project.numbered(30)
    assert project.run("run", "-o", "out").code == 0
    project.numbered(30, frozenset({0}))
    assert limited(project, 2000, "run", "-o", "out").returncode == 1
    assert not (project.out / "results.json").exists()
    assert not (project.out / "verdict.json").exists()
    assert [path.name for path in sorted((project.out / "previous").iterdir())] == FILES


def test_a_verdict_outlives_lost_results_and_is_no_pass(project: Project) -> None:
    project.numbered(30)
    assert project.run("run", "-o", "out").code == 0
    # Room for the verdict and for the journal, which has no names of cases.
    size = (project.out / "verdict.json").stat().st_size
    assert size < (project.out / "results.json").stat().st_size - 2000
    ended = limited(project, size + 1000, "run", "-o", "out")
    assert ended.returncode == 3
    assert not (project.out / "results.json").exists()
    verdict = project.verdict()
    assert (verdict["outcome"], verdict["exit_code"]) == ("incomplete", 3)
    assert verdict["reason"] == "results.json could not be written"
    assert verdict["results_digest"] is None


@pytest.mark.full
def test_a_journal_survives_results_that_cannot_be_written(project: Project) -> None:
    project.numbered(40)
    # Room for the journal of short trials, one group at a time, but not for the results' longer lines.
    assert project.run("run", "-o", "whole").code == 0
    size = (project.folder / "whole" / "results.json").stat().st_size
    # Durations are written with more or fewer digits from run to run: 2,000 bytes are more than that and less than
    # what the cases' own lines add to the journal.
    ended = limited(project, size - 2000, "run", "-o", "out")
    assert ended.returncode == 3
    assert "the journal is kept for --resume" in ended.stderr
    resumed = project.run("run", "-o", "out", "--resume")
    assert resumed.code == 0
    assert not (project.out / "journal.jsonl").exists()


def test_the_combined_verdict_that_cannot_be_written_is_no_pass(project: Project) -> None:
    project.numbered(1)
    for folder in "abcdefgh":
        for file in ("agent.yaml", "holodeck-action.yaml", "answers.jsonl"):
            project.write(f"{folder}/{file}", (project.folder / file).read_bytes())
    whole = project.run("run", "-o", "whole", *"abcdefgh")
    assert whole.code == 0
    size = (project.folder / "whole/verdict.json").stat().st_size
    ended = limited(project, size - 1, "run", "-o", "out", *"abcdefgh")
    assert ended.returncode == 3
    assert "out/verdict.json: could not be written: File too large" in ended.stderr
    assert "PASSED: tested" in ended.stdout


def test_a_verdict_of_decide_that_cannot_be_written_is_told(project: Project) -> None:
    project.numbered(30)
    project.run("run", "-o", "out")
    ended = limited(project, 100, "decide", "out/results.json", "-o", "again")
    assert ended.returncode == 2
    assert "again/verdict.json: cannot be written: File too large" in ended.stderr
    assert " · 30 of 30 passed" in ended.stdout
