"""A killed run loses nothing that was journaled, and its continuation equals an undisturbed run."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import threading
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from holodeck_action.cli import main
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.disk import Disk
from holodeck_action.record.result_files import read_record
from holodeck_action.run.journal import seal_line
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project

CASES = 120
DEEP = b'{"journal": ' * 100_000 + b"\n"

# Each answer is logged: a journaled trial must not be asked again. From HANG on, no answer comes.
AGENT = """
import os
import time

def answer(messages):
    question = messages[-1]["content"]
    number = question.removeprefix("what is ").removesuffix("?")
    fd = os.open(os.environ["ASKED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, (number + "\\n").encode())
    os.close(fd)
    if int(number) >= int(os.environ.get("HANG", "1000")):
        time.sleep(600)
    return number if int(number) % 7 else "wrong"
"""


def journaled(path: Path) -> list[str]:
    """The cases of the journal's whole lines."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)["case"] for line in lines[1:]]


def asked(path: Path) -> list[str]:
    return [f"case-{line}" for line in path.read_text().split()] if path.exists() else []


@pytest.fixture
def hundreds(project: Project) -> Project:
    project.numbered(CASES)
    project.policy(target="python:agent:answer")
    project.write("agent.py", AGENT)
    return project


def is_far_enough(log: Path, wanted: int, journal: Path | None) -> bool:
    return len(asked(log)) > wanted and (journal is None or bool(journaled(journal)))


@pytest.mark.full
@pytest.mark.races
@pytest.mark.timeout(300)
def test_kill_at_random_moments_then_resume_gives_the_undisturbed_record(hundreds: Project) -> None:
    log = hundreds.folder / "asked"
    # Not one process for each case at once.
    several = ("--concurrency", "4")
    assert hundreds.run("run", "-o", "whole", *several, ASKED=str(log)).code == 1
    undisturbed = canonical_json(read_record(hundreds.folder / "whole" / "results.json"))
    journal = hundreds.out / "journal.jsonl"
    chance = random.Random(7)
    killed_midway = 0
    for quarter in range(4):
        log.unlink(missing_ok=True)
        for file in hundreds.out.glob("*") if hundreds.out.exists() else []:
            file.unlink()
        # A moment in each quarter of the run: the run itself says how far it is, and goes no further.
        wanted = 1 + quarter * CASES // 4 + chance.randrange(CASES // 4)
        environ = {"ASKED": str(log), "HANG": str(wanted)}
        process = hundreds.start("run", "-o", "out", "--concurrency", "4", **environ)
        # Half of the runs have written what they know; the others may be about to.
        hundreds.wait_until(partial(is_far_enough, log, wanted, journal if quarter % 2 else None))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        finished = journaled(journal)
        assert len(finished) < CASES
        # A case is in progress until its answer is scored, and twice as many are as sessions.
        assert len(set(asked(log)) - set(finished)) <= 8
        killed_midway += len(finished) > 0
        log.unlink(missing_ok=True)
        resumed = hundreds.run("run", "-o", "out", "--resume", *several, ASKED=str(log))
        assert resumed.code == 1
        assert not set(asked(log)) & set(finished)
        assert canonical_json(read_record(hundreds.out / "results.json")) == undisturbed
        assert not journal.exists()
    assert killed_midway >= 2


COUNTING = """
import os

def answer(messages):
    number = messages[-1]["content"].removeprefix("what is ").removesuffix("?")
    with open("asked", "a") as file:
        file.write(number + " ")
    if number == os.environ.get("HANG"):
        import time
        time.sleep(600)
    return number
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("killed"))
    project.numbered(5)
    project.policy(target="python:agent:answer")
    project.write("agent.py", COUNTING)
    process = project.start("run", "-o", "out", HANG="4")
    project.wait_until(lambda: len(journaled(project.out / "journal.jsonl")) == 4)
    process.kill()
    process.communicate()
    (project.folder / "asked").unlink()
    return project


@pytest.fixture
def interrupted(killed: Project, tmp_path: Path) -> Project:
    """A run of five cases that was killed while the last one was asked, in another place than it began."""
    return killed.copy_to(tmp_path)


def asked_again(project: Project) -> list[str]:
    path = project.folder / "asked"
    return sorted(path.read_text().split()) if path.exists() else []


@pytest.mark.full
def test_a_torn_last_line_and_a_broken_line_are_run_again(interrupted: Project) -> None:
    journal = interrupted.out / "journal.jsonl"
    header, *lines = journal.read_bytes().splitlines(keepends=True)
    broken = b'{"case": "case-0", "trial": {"index": 0}}\n'
    kept = json.loads(lines[2])["case"]
    journal.write_bytes(header + broken + b"\xff\n" + lines[2] + lines[3][:50])
    resumed = interrupted.run("run", "-o", "out", "--resume")
    assert resumed.code == 0
    assert "note: 2 broken line(s) of journal.jsonl are run again" in resumed.stderr
    assert [f"case-{number}" for number in asked_again(interrupted)] == sorted({f"case-{n}" for n in range(5)} - {kept})
    assert not journal.exists()


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"case": ' * 100_000, b"9" * 5000, b'{"case": NaN}'])
def test_a_line_that_no_parser_takes_is_run_again(interrupted: Project, line: bytes) -> None:
    with (interrupted.out / "journal.jsonl").open("ab") as journal:
        journal.write(line + b"\n")
    resumed = interrupted.run("run", "-o", "out", "--resume")
    assert resumed.code == 0
    assert "note: 1 broken line(s) of journal.jsonl are run again" in resumed.stderr
    assert asked_again(interrupted) == ["4"]


@pytest.mark.parametrize("content", [b"", b'{"journal": {"dig'])
def test_a_journal_without_a_whole_header_starts_anew(interrupted: Project, content: bytes) -> None:
    (interrupted.out / "journal.jsonl").write_bytes(content)
    assert interrupted.run("run", "-o", "out", "--resume").code == 0
    assert asked_again(interrupted) == list("01234")


@pytest.mark.parametrize("content", [b"{}\n", b"[]\n", b"null\n", b"not JSON\n", b'{"journal": 1}\n', b"\xff\n", DEEP])
def test_a_file_that_is_no_journal_is_refused(interrupted: Project, content: bytes) -> None:
    (interrupted.out / "journal.jsonl").write_bytes(content)
    refused = interrupted.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert "the journal's first line is broken; run without --resume to start again" in refused.stderr
    assert (interrupted.out / "journal.jsonl").read_bytes() == content


def change(project: Project, what: str) -> dict[str, str]:
    """Change one thing that the answers or their scores depend on; return the environment to go on with."""
    agent = project.folder / "agent.yaml"
    match what:
        case "case":
            agent.write_text(agent.read_text().replace('"ground_truth": "3"', '"ground_truth": "33"'))
        case "metric":
            agent.write_text(agent.read_text().replace('"metric": "equality"', '"metric": "numeric"'))
        case "policy":
            project.policy(target="python:agent:answer", trials={"repeat": 2})
        case "target":
            project.write("other.py", COUNTING)
            project.policy(target="python:other:answer")
        case "agent's code":
            project.write("agent.py", COUNTING.replace("return number", "return number + '!'"))
    return {}


@pytest.mark.parametrize(
    ("what", "named"),
    [("case", "digest"), ("metric", "digest"), ("policy", "digest"), ("target", "target"), ("agent's code", "code")],
)
def test_a_run_of_something_else_is_not_continued(interrupted: Project, what: str, named: str) -> None:
    before = (interrupted.out / "journal.jsonl").read_bytes()
    change(interrupted, what)
    refused = interrupted.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert "the interrupted run differs from this one (" in refused.stderr
    assert f"{named} was " in refused.stderr
    assert "run without --resume to start again" in refused.stderr
    assert (interrupted.out / "journal.jsonl").read_bytes() == before
    assert asked_again(interrupted) == []


def stopped_by_deadline(project: Project, **environ: str) -> None:
    """A run of a case that is answered and one that never is."""
    project.write("hang.py", "import time\ndef grade(context):\n    time.sleep(600)\n")

    def attempt(seconds: float) -> tuple[Finished, int]:
        finished = project.run("run", "-o", "out", "--run-timeout", f"{seconds}", **environ)
        return finished, (project.out / "journal.jsonl").read_bytes().count(b"\n")

    finished, lines = ever_longer(attempt, lambda ran: ran[1] == 2)
    assert (finished.code, lines) == (4, 2)


def test_other_answers_of_a_transcript_are_not_mixed_in(project: Project) -> None:
    hang = [{"type": "code", "grader": "hang:grade"}]
    project.suite([{"name": "a", "input": "q", "ground_truth": "1"}, {"name": "b", "input": "q", "evaluations": hang}])
    project.answers([{"case": name, "response": "1"} for name in "ab"])
    project.policy(target="recorded:answers.jsonl")
    stopped_by_deadline(project)
    project.answers([{"case": name, "response": "2"} for name in "ab"])
    refused = project.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert "code was " in refused.stderr


def test_another_value_of_a_variable_is_not_mixed_in(project: Project) -> None:
    hang = [{"type": "code", "grader": "hang:grade"}]
    project.suite(
        [{"name": "a", "input": "q", "ground_truth": "${TRUTH}"}, {"name": "b", "input": "q", "evaluations": hang}]
    )
    project.answers([{"case": name, "response": "first"} for name in "ab"])
    project.policy(target="recorded:answers.jsonl")
    stopped_by_deadline(project, TRUTH="first")
    refused = project.run("run", "-o", "out", "--resume", TRUTH="second")
    assert refused.code == 2
    assert "cases was " in refused.stderr
    assert "first" not in refused.stderr.replace("first line", "")


def test_another_commit_is_not_mixed_in(interrupted: Project) -> None:
    (interrupted.folder / ".git").mkdir()
    (interrupted.folder / ".git" / "HEAD").write_text("0123456789" * 4)
    refused = interrupted.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert "commit was None, is '0123456789012345678901234567890123456789'" in refused.stderr


def test_without_resume_the_journal_is_kept_aside(interrupted: Project) -> None:
    before = (interrupted.out / "journal.jsonl").read_bytes()
    finished = interrupted.run("run", "-o", "out")
    assert finished.code == 0
    assert "note: the journal of an interrupted run was kept as journal.previous.jsonl" in finished.stderr
    assert (interrupted.out / "journal.previous.jsonl").read_bytes() == before
    assert asked_again(interrupted) == list("01234")


@pytest.mark.parametrize(("how", "reason"), [("pipe", "it is not a regular file"), ("link", "it is a link")])
def test_what_is_no_file_is_not_resumed(interrupted: Project, how: str, reason: str) -> None:
    journal = interrupted.out / "journal.jsonl"
    other = journal.rename(interrupted.folder / "other")
    before = other.read_bytes()
    if how == "pipe":
        os.mkfifo(journal)
    else:
        journal.symlink_to(other)
    refused = interrupted.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert f"out/journal.jsonl: the journal cannot be read: {reason}" in refused.stderr
    assert (other.read_bytes(), asked_again(interrupted)) == (before, [])


class HeldDisk(Disk):
    """A disk that takes what is written, and is not done with the journal before it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.syncs = 0

    def sync(self, file: BinaryIO) -> None:
        if str(file.name).endswith("journal.jsonl"):
            self.syncs += 1
            if self.syncs > 1:
                self.go.wait()
        super().sync(file)


@pytest.mark.races
def test_a_finished_trial_is_in_the_journal_before_the_disk_is_done_with_it(project: Project) -> None:
    """So a killed process asks nothing again but what was in progress."""
    project.numbered(40)
    disk = HeldDisk()
    arguments = ("run", "-o", "out", "--concurrency", "6")
    streams = io.StringIO(), io.StringIO(), io.StringIO()
    ran = partial(main, arguments, project.environ(), project.folder, *streams, disk=disk)
    running = threading.Thread(target=ran)
    running.start()
    try:
        project.wait_until(lambda: len(journaled(project.out / "journal.jsonl")) == 40)
    finally:
        disk.go.set()
        running.join()


def test_a_finished_run_is_not_asked_again(interrupted: Project) -> None:
    assert interrupted.run("run", "-o", "out", "--resume").code == 0
    whole = canonical_json(read_record(interrupted.out / "results.json"))
    (interrupted.folder / "asked").unlink()
    for _ in range(2):
        again = interrupted.run("run", "-o", "out", "--resume")
        assert (again.code, asked_again(interrupted)) == (0, [])
        assert "note: the run in this folder has ended; its 5 trials are not run again" in again.stderr
        assert canonical_json(read_record(interrupted.out / "results.json")) == whole
    change(interrupted, "case")
    changed = interrupted.run("run", "-o", "out", "--resume")
    assert (changed.code, asked_again(interrupted)) == (1, list("01234"))
    assert "note: the finished run is not used, and all cases are run: out/previous/.finished.jsonl: " in changed.stderr


def test_without_a_journal_everything_is_run(project: Project) -> None:
    project.numbered(3)
    finished = project.run("run", "-o", "out", "--resume")
    assert finished.code == 0
    assert "note: there is no journal.jsonl to resume from; all cases are run" in finished.stderr


def test_a_part_that_is_continued_leaves_the_rest_to_be_continued(interrupted: Project) -> None:
    part = interrupted.run("run", "-o", "out", "--resume", "--case", "case 0", "--case", "case 4")
    assert part.code == 0
    assert asked_again(interrupted) == ["4"]
    whole = interrupted.run("run", "-o", "out", "--resume")
    assert whole.code == 0
    assert asked_again(interrupted) == ["4"]
    assert not (interrupted.out / "journal.jsonl").exists()
    assert len(read_record(interrupted.out / "results.json").cases) == 5


def test_trials_of_an_interrupted_run_beyond_the_deciding_ones_are_dropped(interrupted: Project) -> None:
    resumed = interrupted.run("run", "-o", "out", "--resume", "--repeat", "3", "--min-pass", "2")
    assert resumed.code == 0
    record = read_record(interrupted.out / "results.json")
    assert [[trial.index for trial in case.trials] for case in record.cases] == [[0, 1]] * 5
    assert asked_again(interrupted) == list("012344")


def test_an_edited_line_and_one_of_another_journal_are_run_again(interrupted: Project) -> None:
    journal = interrupted.out / "journal.jsonl"
    header, *lines = journal.read_bytes().splitlines(keepends=True)
    edited = lines[0].replace(b'"score":true', b'"score":false').replace(b'"score":1.0', b'"score":0.0')
    # A line of a journal of the same cases at another commit.
    foreign = seal_line(lines[1].rpartition(b', "digest"')[0], header.replace(b'"commit": null', b'"commit": "x"'))
    assert edited != lines[0]
    assert foreign != lines[1]
    journal.write_bytes(header + edited + foreign + lines[2] + lines[3])
    resumed = interrupted.run("run", "-o", "out", "--resume")
    assert resumed.code == 0
    assert "note: 2 broken line(s) of journal.jsonl are run again" in resumed.stderr
    lost = {json.loads(line)["case"] for line in lines[:2]} | {"case-4"}
    assert {f"case-{number}" for number in asked_again(interrupted)} == lost


def test_an_edited_header_is_refused(interrupted: Project) -> None:
    journal = interrupted.out / "journal.jsonl"
    header, _, rest = journal.read_bytes().partition(b"\n")
    journal.write_bytes(header.replace(b"{", b"{ ", 1) + b"\n" + rest)
    refused = interrupted.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert "the journal's first line was edited; run without --resume to start again" in refused.stderr


@pytest.mark.full
@pytest.mark.races
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_in_a_partial_record_that_can_be_resumed(project: Project, number: signal.Signals) -> None:
    project.numbered(5)
    project.policy(target="python:agent:answer")
    project.write("agent.py", COUNTING.replace('== os.environ.get("HANG")', '>= os.environ.get("HANG", "9")'))
    process = project.start("run", "-o", "out", "--concurrency", "2", HANG="3")
    project.wait_until(lambda: len(journaled(project.out / "journal.jsonl")) == 3)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 4, stderr
    assert f"{number.name} was received" in stdout
    partial = read_record(project.out / "results.json")
    assert partial.stopped == f"{number.name} was received"
    assert [len(case.trials) for case in partial.cases] == [1, 1, 1, 0, 0]
    finished = project.run("run", "-o", "out", "--resume")
    assert finished.code == 0, finished.stdout
    assert read_record(project.out / "results.json").run.resumed_trials == 3


IMPORTING = """
import os, time
import prices

def answer(messages):
    number = messages[-1]["content"].removeprefix("what is ").removesuffix("?")
    with open("asked", "a") as file:
        file.write(number + " ")
    if number == "2":
        from lazy import rounding
    if number == os.environ.get("HANG"):
        time.sleep(600)
    return str(prices.of(int(number)))
"""


@pytest.fixture(scope="module")
def killed_importing(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("importing"))
    project.numbered(5)
    project.policy(target="python:agent:answer", metrics=[{"type": "code", "grader": "checks:grade"}])
    project.write("agent.py", IMPORTING)
    project.write("prices.py", "def of(number):\n    return number\n")
    project.write("lazy/__init__.py", "")
    project.write("lazy/rounding.py", "DIGITS = 2\n")
    project.write("checks.py", "import rules\n\ndef grade(context):\n    return rules.PASS\n")
    project.write("rules.py", "PASS = True\n")
    project.write("unused.py", "NUMBER = 1\n")
    process = project.start("run", "-o", "out", "--concurrency", "1", HANG="4")
    project.wait_until(lambda: (project.out / "journal.jsonl").exists() and len(finished_trials(project)) == 4)
    process.kill()
    process.communicate()
    (project.folder / "asked").unlink()
    return project


def finished_trials(project: Project) -> list[str]:
    lines = (project.out / "journal.jsonl").read_bytes().split(b"\n")[1:-1]
    return [entry["case"] for line in lines if "case" in (entry := json.loads(line))]


@pytest.mark.parametrize("edited", ["prices.py", "lazy/rounding.py", "rules.py"])
def test_a_run_is_not_continued_by_other_code_than_was_imported(
    killed_importing: Project, tmp_path: Path, edited: str
) -> None:
    project = killed_importing.copy_to(tmp_path)
    before = (project.out / "journal.jsonl").read_bytes()
    project.write(edited, (project.folder / edited).read_text() + "# edited\n")
    refused = project.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert f"code that the interrupted run imported has changed since ({edited}); run without --resume" in (
        refused.stderr
    )
    assert (project.out / "journal.jsonl").read_bytes() == before
    assert asked_again(project) == []


def test_files_that_nobody_imported_change_nothing(killed_importing: Project, tmp_path: Path) -> None:
    project = killed_importing.copy_to(tmp_path)
    project.write("unused.py", "NUMBER = 2\n")
    resumed = project.run("run", "-o", "out", "--resume")
    assert resumed.code == 0, resumed.stderr
    assert asked_again(project) == ["4"]
