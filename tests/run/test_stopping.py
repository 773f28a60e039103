"""Deadlines and signals: what is finished is kept, what is not says why, and nothing is green that is not."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import Record, TrialRecord
from holodeck_action.record.result_files import read_record
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Process, Project
from tests.workers.support import running

SLOW = """
import time

def answer(messages):
    question = messages[-1]["content"]
    number = int(question.removeprefix("what is ").removesuffix("?"))
    time.sleep(float(open("delay").read()) if number >= 2 else 0)
    return str(number)
"""


@pytest.fixture
def slow(project: Project) -> Project:
    """Four cases, of which the agent answers the last two slowly."""
    project.numbered(4)
    project.policy(target="python:agent:answer")
    project.write("agent.py", SLOW)
    project.write("delay", "600")
    return project


def journaled(project: Project) -> int:
    path = project.out / "journal.jsonl"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


def test_a_turn_deadline_is_the_case_s_error(slow: Project) -> None:
    def errors_of(record: Record) -> list[ErrorInfo | None]:
        return [case.trials[0].turns[0].error for case in record.cases]

    finished, record = ever_longer(
        lambda seconds: slow.evaluate("--turn-timeout", f"{seconds}"),
        lambda ran: errors_of(ran[1])[:2] == [None, None],
    )
    assert finished.code == 3
    errors = errors_of(record)
    assert [error and (error.type, error.code) for error in errors] == [
        None,
        None,
        ("AgentTimeout", "timeout"),
        ("AgentTimeout", "timeout"),
    ]
    assert finished.stdout.count("the agent did not answer within ") >= 2


def test_a_case_deadline_is_the_case_s_error(slow: Project) -> None:
    turns = [{"input": f"what is {n}?", "ground_truth": str(n)} for n in (0, 2, 1)]
    slow.suite([{"name": "talk", "turns": turns}, {"name": "quick", "input": "what is 1?", "ground_truth": "1"}])

    def attempt(seconds: float) -> tuple[Finished, str, TrialRecord, TrialRecord]:
        finished, record = slow.evaluate("--case-timeout", f"{seconds}")
        talk, quick = (case.trials[0] for case in record.cases)
        return finished, f"the case took longer than {seconds} s", talk, quick

    finished, reason, talk, quick = ever_longer(
        attempt, lambda ran: ran[2].turns[0].response == "0" and ran[3].error is None
    )
    assert finished.code == 3
    assert talk.error is not None
    assert (talk.error.code, talk.error.message) == ("case_timeout", reason)
    assert [turn.response for turn in talk.turns] == ["0", None, None]
    assert [turn.error for turn in talk.turns] == [None, talk.error, None]
    assert [turn.skipped for turn in talk.turns] == [None, None, f"not run: {reason}"]
    assert quick.turns[0].response == "1"


def both_quick_ones_are_done(ran: tuple[Finished, Record, str]) -> bool:
    return all(case.trials for case in ran[1].cases[:2])


@pytest.mark.full
@pytest.mark.parametrize("given", ["flag", "run_timeout_s", "max_minutes"])
def test_the_run_deadline_ends_in_a_partial_report(slow: Project, given: str) -> None:
    def attempt(seconds: float) -> tuple[Finished, Record, str]:
        arguments = ["--run-timeout", f"{seconds}"] if given == "flag" else []
        if given == "run_timeout_s":
            slow.policy(target="python:agent:answer", limits={"run_timeout_s": seconds})
        if given == "max_minutes":
            slow.policy(target="python:agent:answer", budget={"max_minutes": seconds / 60})
        return *slow.evaluate(*arguments), f"the run deadline of {seconds} s was reached"

    finished, record, reason = ever_longer(attempt, both_quick_ones_are_done)
    assert finished.code == 4
    assert record.stopped == reason
    assert [len(case.trials) for case in record.cases] == [1, 1, 0, 0]
    assert "2 passed, 0 failed, 0 in error, 2 not run" in finished.stdout
    # What was journaled is continued.
    slow.write("delay", "0")
    resumed = slow.run("run", "-o", "out", "--resume")
    assert resumed.code == 0
    assert read_record(slow.out / "results.json").run.resumed_trials == 2
    assert journaled(slow) == 0


def test_a_violation_stays_one_when_the_run_is_stopped(slow: Project) -> None:
    slow.write("agent.py", SLOW.replace("return str(number)", "return 'wrong'"))
    finished, _, _ = ever_longer(
        lambda seconds: (*slow.evaluate("--run-timeout", f"{seconds}"), ""), both_quick_ones_are_done
    )
    assert finished.code == 1


def start_and_wait(project: Project, finished: int, *arguments: str) -> Process:
    process = project.start("run", "-o", "out", "--concurrency", "4", *arguments)
    project.wait_until(lambda: journaled(project) >= finished or process.poll() is not None)
    return process


@pytest.mark.full
@pytest.mark.races
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_and_loses_no_journaled_trial(slow: Project, second: signal.Signals) -> None:
    # An agent that ignores SIGTERM and the end of its input does not keep the orderly stop waiting.
    slow.policy(target="command:python3 stubborn.py")
    slow.write(
        "stubborn.py",
        "import json, os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "number = json.loads(sys.stdin.readline())['input'].split()[2].rstrip('?')\n"
        "if number < '2':\n"
        "    print(json.dumps(number), flush=True)\n"
        "else:\n"
        "    open(f'hangs-{os.getpid()}', 'w').close()\n"
        "    time.sleep(600)\n",
    )
    process = start_and_wait(slow, 2)
    slow.wait_until(lambda: len([*slow.folder.glob("hangs-*")]) == 2)
    hanging = [int(file.name.removeprefix("hangs-")) for file in slow.folder.glob("hangs-*")]
    process.send_signal(signal.SIGINT)
    # The first signal has been handled once the agents that hang have ended.
    slow.wait_until(lambda: not any(map(running, hanging)))
    process.send_signal(second)
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stdout + stderr
    assert process.returncode in (4, -second), stderr
    if process.returncode == -second:
        assert journaled(slow) == 2
    slow.policy(target="command:python3 stubborn.py")
    resumed = slow.run("run", "-o", "out", "--resume", "--turn-timeout", "1")
    assert resumed.code == 3
    assert read_record(slow.out / "results.json").run.resumed_trials == 2


@pytest.mark.races
@pytest.mark.parametrize("gap_s", [0, 0.002, 0.01])
def test_a_second_signal_at_any_moment_of_the_stop_ends_the_process(slow: Project, gap_s: float) -> None:
    slow.write("agent.py", "import time\ndef answer(messages):\n    open('asked', 'w').close()\n    time.sleep(600)\n")
    process = slow.start("run", "-o", "out")
    slow.wait_until(lambda: (slow.folder / "asked").exists())
    process.send_signal(signal.SIGINT)
    time.sleep(gap_s)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stdout + stderr
    assert process.returncode == 4, stderr


@pytest.mark.races
def test_a_signal_before_anything_finished_is_told(slow: Project) -> None:
    slow.write("agent.py", "import time\ndef answer(messages):\n    open('asked', 'w').close()\n    time.sleep(600)\n")
    process = slow.start("run", "-o", "out")
    slow.wait_until(lambda: (slow.folder / "asked").exists())
    process.send_signal(signal.SIGTERM)
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "no verdict: the run stopped early: SIGTERM was received" in stdout
    assert read_record(slow.out / "results.json").stopped == "SIGTERM was received"


def two_suites(project: Project) -> None:
    """One suite that is done at once, and one that hangs."""
    project.numbered(2)
    for folder, delay in (("first", "0"), ("second", "600")):
        for file in ("agent.yaml", "holodeck-action.yaml"):
            project.write(f"{folder}/{file}", (project.folder / file).read_bytes())
        project.write(f"{folder}/holodeck-action.yaml", '{"target": "python:slow:answer"}')
        project.write(
            f"{folder}/slow.py",
            "import os, time\n"
            "def answer(messages):\n"
            f"    with open('asked', 'a') as file: file.write('{folder}\\n')\n"
            f"    time.sleep({delay} if not os.path.exists('go') else 0)\n"
            "    return messages[-1]['content'].removeprefix('what is ').removesuffix('?')\n",
        )


def asked(project: Project) -> list[str]:
    path = project.folder / "asked"
    return path.read_text().split() if path.exists() else []


@pytest.mark.full
@pytest.mark.races
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "deadline"])
def test_an_interrupted_run_of_several_suites_is_continued_without_asking_again(project: Project, how: str) -> None:
    two_suites(project)
    if how == "deadline":

        def attempt(seconds: float) -> Finished:
            (project.folder / "asked").unlink(missing_ok=True)
            return project.run("run", "-o", "out", "first", "second", "--run-timeout", f"{seconds}")

        finished = ever_longer(attempt, lambda ran: asked(project).count("second") == 2)
        code, stdout = finished.code, finished.stdout
    else:
        process = project.start("run", "-o", "out", "first", "second")
        project.wait_until(lambda: asked(project).count("second") == 2)
        process.send_signal(getattr(signal, how))
        stdout, _ = process.communicate(timeout=60)
        code = process.returncode
    if how != "SIGKILL":
        assert code == 4
        assert "PASSED: tested" in stdout
        assert "STOPPED: tested" in stdout
        assert json.loads((project.out / "verdict.json").read_bytes())["exit_code"] == 4
    else:
        assert not (project.out / "verdict.json").exists()
    project.write("go", "")
    (project.folder / "asked").unlink()
    resumed = project.run("run", "-o", "out", "--resume", "first", "second")
    assert resumed.code == 0, resumed.stdout + resumed.stderr
    assert asked(project) == ["second", "second"]
    assert not list(project.out.rglob("journal*"))
    combined = json.loads((project.out / "verdict.json").read_bytes())
    assert [suite["exit_code"] for suite in combined["suites"]] == [0, 0]


@pytest.mark.races
def test_suites_after_an_interrupted_one_are_named_as_not_run(project: Project) -> None:
    two_suites(project)
    process = project.start("run", "-o", "out", "second", "first")
    project.wait_until(lambda: asked(project).count("second") == 2)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "not run: first/agent.yaml" in stdout
    combined = json.loads((project.out / "verdict.json").read_bytes())
    assert combined["not_run"] == ["first/agent.yaml"]
    assert combined["exit_code"] == 4
    assert not Path(project.out / "first" / "results.json").exists()
