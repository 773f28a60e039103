"""Races that are killed, replayed, or end before they are decided."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.extensions.race.track import MODELS, answered, outcome, race, variants, write
from tests.llm.models import KEY, Answer, FakeModels, Reply, Request

pytestmark = pytest.mark.models(answer=answered)


def canonical(project: Project, folder: str = "out") -> tuple[bytes, list[bytes]]:
    """The outcome without what differs between equal races, and the canonical records of its variants."""
    found: dict[str, Any] = json.loads((project.folder / folder / "race.json").read_bytes())
    del found["run"]
    for each in found["variants"]:
        del each["run"]
    names = sorted(each["folder"] for each in found["variants"])
    records = [read_record(project.folder / folder / name / "results.json") for name in names]
    return json.dumps(found).encode(), [canonical_json(record) for record in records]


def journaled(project: Project) -> int:
    """The number of trials in the journals of all variants."""
    return sum(file.read_bytes().count(b"\n") - 1 for file in project.out.glob("*/journal.jsonl"))


@pytest.mark.full
@pytest.mark.races
@pytest.mark.proves("race: --resume")
@pytest.mark.timeout(300)
@pytest.mark.models(answer=answered, latency=0.01)
def test_a_killed_race_goes_on_and_ends_as_an_undisturbed_one(project: Project, models: FakeModels) -> None:
    write(project, models, 100)
    assert race(project, "-o", "whole").code == 0
    whole = len(models.requests)
    axes = [text for name in MODELS for text in ("--vary", f"model={name}")]
    for least in (3, 60):
        process = project.start("race", "-o", "out", *axes, OPENAI_API_KEY=KEY)
        project.wait_until(lambda least=least: journaled(project) >= least)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (project.out / "race.json").exists()
        kept, before = journaled(project), len(models.requests)
        assert kept >= least
        finished = race(project, "--resume")
        assert finished.code == 0, finished.stderr
        assert canonical(project) == canonical(project, "whole")
        again = len(models.requests) - before
        # What is in the journals is not asked again; what was under way is.
        assert again <= whole - kept + 4 * 10
        assert kept + again >= outcome(project)["answers"]
        assert not [*project.out.glob("*/journal.jsonl")]


def test_a_resumed_race_of_other_variants_is_refused(project: Project, models: FakeModels) -> None:
    write(project, models, 30)
    project.write("a.md", "Answer.")
    project.write("v.yaml", "one: {instructions: a.md}\ntwo: {model: poor-50}\n")
    budget = ("--variants", "v.yaml", "--max-tokens", "300")
    assert project.run("race", "-o", "out", *budget, OPENAI_API_KEY=KEY).code == 4
    assert journaled(project)
    project.write("a.md", "Answer at length.")
    finished = project.run("race", "-o", "out", "--resume", "--variants", "v.yaml", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "the interrupted run differs from this one (target_digest was" in finished.stderr


@pytest.mark.full
@pytest.mark.proves("race: --record --replay")
@pytest.mark.parametrize("concurrency", ["1", "3", "25"])
def test_a_replay_equals_the_recorded_race(project: Project, models: FakeModels, concurrency: str) -> None:
    write(project, models)
    assert race(project, "--record", "calls").code == 0
    recorded, before = canonical(project), len(models.requests)
    finished = race(project, "-o", "again", "--replay", "calls", "--concurrency", concurrency, OPENAI_API_KEY="")
    assert finished.code == 0, finished.stderr
    assert len(models.requests) == before
    assert canonical(project, "again") == recorded


@pytest.mark.full
def test_the_outcome_does_not_depend_on_the_order_of_answers(project: Project, models: FakeModels) -> None:
    """Slow answers of one variant, or few conversations at a time, change nothing."""
    write(project, models)
    found = []
    for concurrency in ("1", "4", "30"):
        assert race(project, "--concurrency", concurrency).code == 0
        found.append(canonical(project))
    assert found[0] == found[1] == found[2]


@pytest.mark.full
@pytest.mark.proves("race: --max-cost-usd --max-tokens")
@pytest.mark.parametrize("flag", ["--max-cost-usd", "--max-tokens"])
def test_a_budget_that_ends_midway_names_what_is_undecided(project: Project, models: FakeModels, flag: str) -> None:
    models.answer(lambda request: Answer(f"yes {request.text.rpartition(' ')[2]}"))
    names = ("gpt-4o", "gpt-4o-2024-08-06")
    write(project, models, 100)
    assert race(project, names=names).code == 0
    found = outcome(project)
    whole = found["run"]["spent_usd"]
    calls = [each["run"]["model_calls"] for each in found["variants"]]
    limit = whole / 2 if flag == "--max-cost-usd" else sum(each["tokens"] for each in calls) / 2
    finished = race(project, flag, f"{limit:.6f}" if flag == "--max-cost-usd" else str(int(limit)), names=names)
    assert finished.code == 4, finished.stderr
    found = outcome(project)
    assert (found["outcome"], found["chosen"], found["exit_code"]) == ("undecided", None, 4)
    assert 0 < found["seen"] < 100
    assert f"undecided after {found['seen']} of 100 cases: " in found["reason"]
    assert "budget" in found["reason"] or "limit" in found["reason"]
    assert all(f"model={name}" in found["reason"] for name in names)
    # One budget for all variants together.
    if flag == "--max-cost-usd":
        assert found["run"]["spent_usd"] <= limit
    assert {each["cases"] for each in found["variants"]} == {found["seen"]}
    assert journaled(project) > 0
    before = len(models.requests)
    assert race(project, "--resume", names=names).code == 0
    assert outcome(project)["outcome"] == "equal"
    assert len(models.requests) - before < 150


def test_the_budget_of_the_policy_file_is_that_of_the_race(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: Answer("yes"))
    write(project, models, 60)
    project.policy(budget={"max_tokens": 1000})
    finished = race(project, names=("one-1", "one-2"))
    assert finished.code == 4, finished.stderr
    calls = [each["run"]["model_calls"]["tokens"] for each in outcome(project)["variants"]]
    assert min(calls) > 0
    assert sum(calls) <= 1000


@pytest.mark.full
@pytest.mark.races
@pytest.mark.proves("race: --run-timeout")
@pytest.mark.models(answer=answered, latency=0.05)
def test_a_signal_and_a_deadline_end_the_race_in_order(project: Project, models: FakeModels) -> None:
    write(project, models, 100)
    axes = ("--vary", "model=best-100", "--vary", "model=best-99")
    process = project.start("race", "-o", "out", *axes, OPENAI_API_KEY=KEY)
    project.wait_until(lambda: journaled(project) >= 6)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate()
    assert process.returncode == 4
    assert "SIGTERM was received; left: " in outcome(project)["reason"]
    assert race(project, "-o", "late", "--run-timeout", "0.3", names=("best-100", "best-99")).code == 4
    found = json.loads((project.folder / "late" / "race.json").read_bytes())
    assert "the run deadline of 0.3 s was reached" in found["reason"]


def test_no_secret_is_written(project: Project, models: FakeModels) -> None:
    def rule(request: Request) -> Reply:
        return Answer(f"the key is {request.key}")

    models.answer(rule)
    write(project, models, 12)
    finished = race(project, names=("best-100", KEY))
    assert finished.code == 0, finished.stderr
    texts = [finished.stdout, finished.stderr, *(str(path) for path in project.out.rglob("*"))]
    texts += [path.read_text() for path in project.out.rglob("*") if path.is_file()]
    assert not any(KEY in text for text in texts)
    assert variants(project)
