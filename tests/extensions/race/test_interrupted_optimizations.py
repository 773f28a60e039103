"""Optimizations that are killed, replayed, or end before they are decided."""

from __future__ import annotations

import json
import shutil
import signal
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.extensions.race.tuning import TEMPERATURE, TOP_P, answers_well, optimize, outcome, tuned, write
from tests.llm.models import KEY, Answer, FakeModels, Reply, Request

pytestmark = pytest.mark.models(answer=tuned)
BOTH = (TEMPERATURE, TOP_P)


def canonical(project: Project, folder: str = "out") -> tuple[bytes, dict[str, bytes]]:
    """The outcome without what differs between equal optimizations, and the canonical records of all runs."""
    found: dict[str, Any] = outcome(project, folder)
    del found["run"]
    for each in found["races"]:
        del each["race"]["run"]
        for variant in each["race"]["variants"]:
            del variant["run"]
    root = project.folder / folder
    records = {
        str(path.parent.relative_to(root)): canonical_json(read_record(path))
        for path in root.glob("*/*/results.json")
        if path.parent.name != "previous"
    }
    return json.dumps(found).encode(), records


def journaled(project: Project, race: str) -> int:
    """The number of trials in the journals of a race."""
    return sum(file.read_bytes().count(b"\n") - 1 for file in project.out.glob(f"{race}/*/journal.jsonl"))


@pytest.mark.full
@pytest.mark.races
@pytest.mark.proves("optimize: --resume")
@pytest.mark.timeout(300)
@pytest.mark.models(answer=tuned, latency=0.01)
def test_a_killed_optimization_goes_on_and_ends_as_an_undisturbed_one(project: Project, models: FakeModels) -> None:
    write(project, models, 100, BOTH, top_p="1.0")
    assert optimize(project, "-o", "whole").code == 0
    whole = len(models.requests)
    for race, least in (("1-model-temperature", 40), ("2-model-top-p", 20), ("held-out", 10)):
        resumed = () if race.startswith("1") else ("--resume",)
        process = project.start("optimize", "-o", "out", *resumed, OPENAI_API_KEY=KEY)
        project.wait_until(lambda race=race, least=least: journaled(project, race) >= least)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (project.out / "optimize.json").exists()
    before = len(models.requests)
    finished = optimize(project, "--resume")
    assert finished.code == 0, finished.stderr
    assert canonical(project) == canonical(project, "whole")
    # Only what was under way is asked again: of the whole, the measurement is left.
    assert len(models.requests) - before <= 60
    # A journal is written a quarter of a second late, or more on a busy machine.
    assert before - whole <= whole + 3 * 100
    assert not [*project.out.rglob("journal.jsonl")]


@pytest.mark.full
@pytest.mark.proves("optimize: --record --replay --concurrency")
def test_a_replay_equals_the_recorded_optimization(project: Project, models: FakeModels) -> None:
    write(project, models, 100, BOTH, top_p="1.0")
    assert optimize(project, "--record", "calls").code == 0
    recorded, before = canonical(project), len(models.requests)
    for concurrency in ("1", "25"):
        finished = optimize(
            project, "-o", "again", "--replay", "calls", "--concurrency", concurrency, OPENAI_API_KEY=""
        )
        assert finished.code == 0, finished.stderr
        assert canonical(project, "again") == recorded
    assert len(models.requests) == before


@pytest.mark.full
def test_a_recording_has_one_answer_for_the_same_call_in_two_races(project: Project, models: FakeModels) -> None:
    """The better value of a race is the present one of the next race; the model would answer it differently."""
    count = {"calls": 0}

    def rule(request: Request) -> Reply:
        count["calls"] += 1
        number = int(request.text.rpartition(" ")[2])
        return Answer(f"yes {number}" if answers_well(request, number) else f"no {count['calls']}")

    models.answer(rule)
    write(project, models, 100, BOTH, top_p="1.0")
    assert optimize(project, "--record", "calls").code == 0
    recorded = canonical(project)
    assert optimize(project, "-o", "again", "--replay", "calls", OPENAI_API_KEY="").code == 0
    assert canonical(project, "again") == recorded


@pytest.mark.full
@pytest.mark.proves("optimize: --max-cost-usd --max-tokens")
def test_a_budget_that_ends_midway_names_what_is_undecided(project: Project, models: FakeModels) -> None:
    write(project, models, 100, BOTH, top_p="1.0")
    assert optimize(project, "-o", "whole", "--concurrency", "1").code == 0
    whole = outcome(project, "whole")
    runs = [read_record(path).run.model_calls for path in (project.folder / "whole").glob("*/*/results.json")]
    amounts = {
        "--max-cost-usd": whole["run"]["spent_usd"],
        "--max-tokens": sum(run.tokens for run in runs if run),  # type: ignore[misc]
    }
    for flag, part in (("--max-cost-usd", 0.2), ("--max-tokens", 0.5), ("--max-cost-usd", 0.97)):
        amount = part * amounts[flag]
        limit = f"{amount:.6f}" if flag == "--max-cost-usd" else str(int(amount))
        finished = optimize(project, flag, limit, "--apply", "--concurrency", "1")
        assert finished.code == 4, finished.stderr
        check_undecided(outcome(project), part)
        # One budget for all races together.
        if flag == "--max-cost-usd":
            assert outcome(project)["run"]["spent_usd"] <= float(limit)
        assert "temperature: 0.7" in (project.folder / "agent.yaml").read_text()
        assert optimize(project, "--resume").code == 0
        assert outcome(project)["changes"] == whole["changes"]
        assert outcome(project)["gain"] == whole["gain"]
        shutil.rmtree(project.out)


def check_undecided(found: dict[str, Any], part: float) -> None:
    """Check an outcome after a part of the amount that all races need."""
    assert (found["outcome"], found["gain"]) == ("undecided", None)
    if part == 0.2:
        assert found["reason"].startswith("model.temperature: undecided after ")
        assert found["reason"].endswith("not raced: model.top_p; the gain was not measured")
    elif part == 0.5:
        assert found["reason"].startswith(("model.top_p: undecided after ", "model.temperature: undecided after "))
        assert found["reason"].endswith("; the gain was not measured")
        assert found["changes"]
    else:
        assert found["reason"].startswith("the gain on 30 cases held out is undecided: ")
    assert "budget" in found["reason"] or "limit" in found["reason"]


@pytest.mark.full
def test_the_budget_of_the_policy_file_is_that_of_all_races(project: Project, models: FakeModels) -> None:
    write(project, models, 100, BOTH, top_p="1.0")
    project.policy(budget={"max_tokens": 3000})
    assert optimize(project).code == 4
    records = [read_record(path) for path in project.out.glob("*/*/results.json")]
    tokens = [record.run.model_calls.tokens or 0 for record in records if record.run.model_calls]
    assert 2000 < sum(tokens) <= 3000


@pytest.mark.proves("optimize: --run-timeout")
@pytest.mark.models(answer=tuned, latency=60.0)
@pytest.mark.parametrize("where", ["flag", "policy"])
def test_one_deadline_holds_for_all_races(project: Project, models: FakeModels, where: str) -> None:
    write(project, models, 100, BOTH)
    if where == "policy":
        project.policy(limits={"run_timeout_s": 0.5})
    finished = optimize(project, *(["--run-timeout", "0.5"] if where == "flag" else []))
    assert finished.code == 4, finished.stderr
    found = outcome(project)
    assert "the run deadline of 0.5 s was reached" in found["reason"]
    # No race begins after the deadline, with one of its own.
    assert len(found["races"]) == 1


@pytest.mark.full
@pytest.mark.races
@pytest.mark.models(answer=tuned, latency=0.05)
def test_a_signal_ends_an_optimization_in_order(project: Project, models: FakeModels) -> None:
    write(project, models, 100)
    process = project.start("optimize", "-o", "out", OPENAI_API_KEY=KEY)
    project.wait_until(lambda: journaled(project, "1-model-temperature") >= 6)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 4
    assert "SIGTERM was received" in outcome(project)["reason"]
