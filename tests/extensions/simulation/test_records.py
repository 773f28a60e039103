"""Simulated conversations are recorded, replayed, judged again, resumed and compared like any other."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.extensions.simulation.shop import AGENT, USER, customer, ended, said, shop
from tests.llm.models import KEY, FakeModels, Reply, Request

EIGHT: list[dict[str, Any]] = [
    {"simulate": USER},
    {"simulate": {**USER, "persona": "Ada, in a hurry."}},
    {"simulate": {**USER, "knows": ["The order is A-17."], "check_user": True}},
    {"simulate": {**USER, "opening": "My kettle leaks."}},
    {"simulate": {**USER, "user_script": ["My kettle leaks.", "Please help."]}},
    {"simulate": {**USER, "max_turns": 1}},
    {"simulate": {**USER, "stop": [{"contains": "refunded"}]}},
    {"simulate": {**USER, "check_user": True}, "expected_tools": ["refund"]},
]
"""Eight users; the one with a single turn never gets its money."""


def everyone(request: Request) -> Reply:
    """Play the customers, and judge them: whoever tells the number without knowing it has left its role."""
    if "Judge the messages of the user alone" not in request.text:
        return customer(request)
    knows = "What the person knows" in request.text
    return {"reason": "It names A-17.", "verdict": "yes" if knows else "no"}


def run(project: Project, models: FakeModels, *arguments: str) -> tuple[Finished, Record]:
    return project.evaluate(*arguments, OPENAI_BASE_URL=models.openai_url, OPENAI_API_KEY=KEY)


def canonical(path: Path) -> bytes:
    return canonical_json(read_record(path))


@pytest.mark.models(answer=everyone)
@pytest.mark.proves("Simulate: check_user", "SimulatedUserMetric: type")
@pytest.mark.parametrize("checked", [True, False])
def test_a_user_that_is_checked_has_a_score(project: Project, models: FakeModels, checked: bool) -> None:
    shop(project, {"simulate": {**USER, "check_user": checked}})
    _, record = run(project, models)
    kinds = [each.criteria.kind for each in record.cases[0].trials[0].turns[-1].evaluations]
    assert kinds.count("simulated_user") == checked


@pytest.mark.full
@pytest.mark.models(answer=everyone)
@pytest.mark.proves("Simulate: check_user", "SimulatedUserMetric: type model")
def test_eight_conversations_are_replayed_byte_by_byte(project: Project, models: FakeModels) -> None:
    shop(project, *EIGHT, trials={"repeat": 2})
    recorded, record = run(project, models, "--record", "cassette")
    assert recorded.code == 1
    assert [len(case.trials[0].turns) for case in record.cases] == [2, 2, 2, 2, 3, 1, 2, 2]
    outcomes = [case["outcome"] for case in project.verdict()["cases"]]
    assert outcomes == ["passed"] * 5 + ["failed"] + ["passed"] * 2
    # Reported, and no reason to fail.
    checks = [
        each.score
        for case in record.cases
        for trial in case.trials
        for each in trial.turns[-1].evaluations
        if each.criteria.kind == "simulated_user"
    ]
    assert checks == [1.0, 1.0, 0.0, 0.0]
    asked, written = len(models.requests), canonical(project.out / "results.json")
    tape = (project.folder / "cassette" / "cassette.jsonl").read_bytes()

    # Without a key.
    replayed = project.run("run", "-o", "again", "--replay", "cassette", OPENAI_BASE_URL=models.openai_url)
    assert replayed.code == 1, replayed.stderr
    assert canonical(project.folder / "again" / "results.json") == written
    assert (project.folder / "cassette" / "cassette.jsonl").read_bytes() == tape
    assert len(models.requests) == asked


@pytest.mark.full
@pytest.mark.models(answer=everyone)
def test_the_same_conversations_are_judged_again(project: Project, models: FakeModels) -> None:
    shop(project, *EIGHT)
    record = run(project, models)[1]
    checks = [{"type": "code", "grader": "graders:grade"}]
    project.write("graders.py", "def grade(context):\n    return len(context.earlier_turns) < 2\n")
    shop(project, *({**case, "evaluations": checks} for case in EIGHT))
    asked = len(models.requests)
    environ = {"OPENAI_BASE_URL": models.openai_url, "OPENAI_API_KEY": KEY}
    finished = project.run("rejudge", "out/results.json", "-o", "judged", **environ)
    assert finished.code == 1, finished.stderr
    judged = read_record(project.folder / "judged" / "results.json")
    for before, now in zip(record.cases, judged.cases, strict=True):
        kept = [(turn.input, turn.response, turn.said_by) for turn in before.trials[0].turns]
        assert [(turn.input, turn.response, turn.said_by) for turn in now.trials[0].turns] == kept
        assert now.trials[0].user == before.trials[0].user
        assert [len(turn.evaluations) > 0 for turn in now.trials[0].turns][:-1] == [False] * (len(kept) - 1)
        grader = next(each for each in now.trials[0].turns[-1].evaluations if each.criteria.kind == "code")
        assert grader.score == (1.0 if len(kept) < 3 else 0.0)
    # The judges alone are called.
    assert all("Judge the messages" in request.text for request in models.requests[asked:])
    assert len(models.requests) == asked + 2


@pytest.mark.full
@pytest.mark.races
@pytest.mark.full
@pytest.mark.models(answer=everyone, latency=0.02)
def test_a_killed_run_continues(project: Project, models: FakeModels) -> None:
    shop(project, *EIGHT, trials={"repeat": 3})
    environ = {"OPENAI_BASE_URL": models.openai_url, "OPENAI_API_KEY": KEY}
    undisturbed = project.run("run", "-o", "whole", **environ)
    process = project.start("run", "-o", "out", "--concurrency", "2", **environ)
    journal = project.out / "journal.jsonl"
    project.wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = journal.read_bytes().count(b"\n") - 1
    finished, record = run(project, models, "--resume")
    assert finished.code == undisturbed.code == 1
    assert 0 < record.run.resumed_trials <= kept
    assert canonical_json(record) == canonical(project.folder / "whole" / "results.json")


@pytest.mark.full
@pytest.mark.models(answer=everyone)
def test_runs_are_compared_at_the_end_of_their_conversations(project: Project, models: FakeModels) -> None:
    settings: list[dict[str, Any]] = [{}, {"max_turns": 2}, {"persona": "Ada"}]
    users = [{"simulate": {**USER, **more}} for more in settings]
    shop(project, *users)
    run(project, models)
    (project.out / "results.json").rename(project.folder / "base.json")
    # The agent asks once more, so that all conversations are longer, and the second one ends without the money.
    slower = AGENT.replace('if "A-17" in said:', 'if "again" in said:')
    shop(project, *users, agent=slower.replace("Which order is it?", "Which order is it? {messages}"))

    def patient(request: Request) -> Reply:
        so_far = said(request)
        if len(so_far) == 4:
            return {"state": "goes_on", "message": "Once again, A-17."}
        return everyone(request)

    models.answer(patient)
    run(project, models)
    turns = [len(case.trials[0].turns) for case in read_record(project.out / "results.json").cases]
    assert turns == [3, 2, 3]
    finished = project.run("compare", "base.json", "out/results.json")
    assert finished.code == 1
    assert "1 case got worse" in finished.stdout
    assert "(none allowed): refund 1" in finished.stdout
    assert "3 cases are too few" in finished.stdout


@pytest.mark.models(answer=everyone)
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"model": {"provider": "openai", "name": "gpt-4o"}},
            "lets openai/gpt-4o instead of openai/gpt-4o-mini play the user of",
        ),
        ({"temperature": 0.1}, "lets openai/gpt-4o-mini with another temperature play the user of"),
        ({"goal": "Get the money."}, "changes the inputs or expectations of"),
        ({"persona": "Ada"}, "changes the inputs or expectations of"),
        ({"knows": "A-17"}, "changes the inputs or expectations of"),
        ({"opening": "Hello."}, "changes the inputs or expectations of"),
        ({"user_script": ["Hello."]}, "changes the inputs or expectations of"),
        ({"stop": {"contains": "x"}}, "changes the inputs or expectations of"),
        ({"expected_outcome": "Money."}, "changes the ground truth of"),
        ({"check_user": True}, ""),
    ],
)
def test_another_user_cannot_be_compared(
    project: Project, models: FakeModels, change: dict[str, Any], why: str
) -> None:
    shop(project, {"simulate": USER})
    run(project, models)
    (project.out / "results.json").rename(project.folder / "base.json")
    shop(project, {"simulate": {**USER, **change}})
    run(project, models)
    finished = project.run("compare", "base.json", "out/results.json")
    assert ("Compared 0 of 1 case" in finished.stdout) == bool(why), finished.stdout
    assert why in finished.stdout


@pytest.mark.full
@pytest.mark.models(answer=everyone)
def test_shards_have_the_conversations_of_the_run_in_one_piece(project: Project, models: FakeModels) -> None:
    shop(project, *EIGHT, trials={"repeat": 2})
    run(project, models)
    environ = {"OPENAI_BASE_URL": models.openai_url, "OPENAI_API_KEY": KEY}
    for shard in ("1", "2", "3"):
        project.run("run", "-o", shard, "--shard", f"{shard}/3", **environ)
    merged = project.run("merge", "3", "1", "2", "-o", "merged")
    assert merged.code == 1, merged.stderr
    assert canonical(project.folder / "merged" / "results.json") == canonical(project.out / "results.json")


def impatient(request: Request) -> Reply:
    """Give up if naming the order did not help."""
    judged = "Judge the messages of the user alone" in request.text
    helpless = not judged and "It is A-17." in said(request) and "refunded" not in said(request)[-1]
    return ended("given_up") if helpless else everyone(request)


@pytest.mark.full
@pytest.mark.models(answer=impatient)
def test_two_agents_talk_with_the_same_users(project: Project, models: FakeModels) -> None:
    shop(project, *EIGHT)
    project.write("other.py", AGENT.replace('"A-17" in said', "False"))
    finished, record = run(project, models, "--against-target", "python:other:answer")
    assert finished.code == 1
    base = read_record(project.out / "base" / "results.json")
    assert [case.user for case in base.cases] == [case.user for case in record.cases]
    compared = project.verdict()["comparison"]
    won = [f"refund {number}" for number in range(8) if number != 5]
    assert ([case["title"] for case in compared["fixed"]], compared["regressed"]) == (won, [])
    # The seed of a user depends on the case and trial, so that both agents meet the same one.
    for ours, theirs in zip(record.cases, base.cases, strict=True):
        assert ours.trials[0].user is not None
        assert theirs.trials[0].user is not None
        assert ours.trials[0].user.seed == theirs.trials[0].user.seed
        assert ours.trials[0].turns[0].input == theirs.trials[0].turns[0].input


@pytest.mark.models(answer=everyone)
def test_a_regression_is_confirmed_by_further_conversations(project: Project, models: FakeModels) -> None:
    shop(project, {"simulate": {**USER, "max_turns": 2}}, {"simulate": {**USER, "persona": "Ada"}})
    run(project, models)
    (project.out / "results.json").rename(project.folder / "base.json")
    # It gives nothing back in its first conversation, which has three turns.
    forgetful = AGENT.replace("LOG = []", "turns = 0").replace(
        "    said =", "    global turns\n    turns += 1\n    said ="
    )
    project.write("agent.py", forgetful.replace('if "A-17" in said', 'if "A-17" in said and turns > 2'))
    before = len(models.requests)
    project.policy(
        target="python:agent:answer",
        limits={"concurrency": 1},
        gates={"min_pass_rate": 0.5},
        baseline={"source": "file:base.json", "on_regressed": "ignore", "confirm": {"trials": 2}},
    )
    finished, record = run(project, models, "--history", "past")
    assert finished.code == 0, finished.stdout
    first, second = record.cases
    assert [len(trial.turns) for trial in first.confirmation] == [2, 2]
    assert not second.confirmation
    assert [case["title"] for case in project.verdict()["comparison"]["flaky"]] == [first.name]
    # All four conversations are counted and paid for, in the verdict and in the history.
    [user] = json.loads(project.run("report", "out/results.json", "--format", "json").stdout)["users"]
    assert (user["conversations"], user["calls"]) == (4, len(models.requests) - before)
    line = json.loads((project.folder / "past" / "history.jsonl").read_text())
    assert line["cost_usd"] is None
    spent = [trial.user.usage for case in record.cases for trial in case.all_trials if trial.user is not None]
    assert user["tokens"]["known"] == sum(each.tokens or 0 for each in spent if each is not None)
