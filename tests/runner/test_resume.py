"""A killed run loses nothing that was journaled, and its continuation equals an undisturbed run."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from holodeck_action.results.canonical import canonical_json
from holodeck_action.results.files import read_record
from tests.cli.project import Project

CASES = 1000

# Each answer is logged: a journaled trial must not be asked again.
AGENT = """
import os

def answer(messages):
    question = messages[-1]["content"]
    number = question.removeprefix("what is ").removesuffix("?")
    fd = os.open(os.environ["ASKED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, (number + "\\n").encode())
    os.close(fd)
    return number if int(number) % 7 else "wrong"
"""


def journaled(path: Path) -> list[str]:
    """The cases of the journal's whole lines."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line)["case"] for line in lines[1:]]


def asked(path: Path) -> list[str]:
    return [f"case-{line}" for line in path.read_text().split()] if path.exists() else []


@pytest.fixture
def thousand(project: Project) -> Project:
    project.numbered(CASES)
    project.policy(target="python:agent:answer")
    project.write("agent.py", AGENT)
    return project


def test_kill_at_random_moments_then_resume_gives_the_undisturbed_record(thousand: Project) -> None:
    log = thousand.folder / "asked"
    assert thousand.run("run", "-o", "whole", ASKED=str(log)).code == 1
    undisturbed = canonical_json(read_record(thousand.folder / "whole" / "results.json"))
    journal = thousand.out / "journal.jsonl"
    chance = random.Random(7)
    killed_midway = 0
    for _ in range(20):
        log.unlink(missing_ok=True)
        for file in thousand.out.glob("*") if thousand.out.exists() else []:
            file.unlink()
        process = thousand.start("run", "-o", "out", "--concurrency", "4", ASKED=str(log))
        # Moments between the first answers and the last: the run itself says how far it is.
        wanted = chance.randrange(1, CASES)
        limit = time.monotonic() + 60
        while len(asked(log)) < wanted and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        finished = journaled(journal)
        killed_midway += 0 < len(finished) < CASES
        log.unlink(missing_ok=True)
        resumed = thousand.run("run", "-o", "out", "--resume", ASKED=str(log))
        assert resumed.code == 1
        assert not set(asked(log)) & set(finished)
        assert canonical_json(read_record(thousand.out / "results.json")) == undisturbed
        assert not journal.exists()
    assert killed_midway >= 5


def test_a_torn_last_line_and_a_broken_line_are_run_again(project: Project) -> None:
    project.numbered(5)
    _, whole = project.evaluate()
    process = project.start("run", "-o", "out", "--target", "command:sleep 60")
    limit = time.monotonic() + 60
    while not (project.out / "journal.jsonl").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    # The journal of that run names another target.
    refused = project.run("run", "-o", "out", "--resume")
    assert refused.code == 2
    assert "target was 'command:sleep'" in refused.stderr or "target was" in refused.stderr
    assert "run without --resume to start anew" in refused.stderr
    assert whole.cases


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_in_a_partial_record_that_can_be_resumed(project: Project, number: signal.Signals) -> None:
    project.numbered(40)
    project.policy(target="python:agent:answer")
    project.write(
        "agent.py",
        "import time\n"
        "def answer(messages):\n"
        "    time.sleep(0.1)\n"
        "    return messages[-1]['content'].removeprefix('what is ').removesuffix('?')\n",
    )
    process = project.start("run", "-o", "out", "--concurrency", "2")
    journal = project.out / "journal.jsonl"
    limit = time.monotonic() + 60
    while len(journaled(journal)) < 3 and time.monotonic() < limit:
        time.sleep(0.02)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 4, stderr
    assert f"{number.name} was received" in stdout
    partial = read_record(project.out / "results.json")
    assert partial.stopped == f"{number.name} was received"
    done = sum(len(case.trials) for case in partial.cases)
    assert 3 <= done < 40
    finished = project.run("run", "-o", "out", "--resume")
    assert finished.code == 0, finished.stdout
    assert read_record(project.out / "results.json").run.resumed_trials >= done
