"""The command `race`, through the command line."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.extensions.race.track import MODELS, answered, asked, outcome, race, variants, write
from tests.llm.models import KEY, Answer, FakeModels, Fault, Reply, Request

pytestmark = pytest.mark.models(answer=answered)


@pytest.mark.proves("race: --vary")
def test_the_best_variant_is_found_with_fewer_calls(project: Project, models: FakeModels) -> None:
    write(project, models, 100)
    finished = race(project)
    assert finished.code == 0, finished.stderr
    found, raced = outcome(project), variants(project)
    assert (found["outcome"], found["chosen"]) == ("leader", "model=best-100"), found["reason"]
    assert found["exit_code"] == 0
    states = {name: each["state"] for name, each in raced.items()}
    assert states == {"best-100": "chosen", **dict.fromkeys(MODELS[1:], "dropped")}
    # Who was dropped early was asked less, and hardly more than what counts.
    counts = asked(models)
    for name, each in raced.items():
        assert each["cases"] <= counts[name] <= each["cases"] + 10
        assert each["run"]["model_calls"]["calls"] == counts[name]
    assert counts["poor-40"] < counts["good-90"]
    assert sum(counts.values()) < 300
    assert found["answers"] == sum(each["cases"] for each in raced.values())
    assert found["grid_answers"] == 400
    assert found["variants"][0]["name"] == "model=best-100"


def test_each_variant_is_a_run_of_the_cases_that_count(project: Project, models: FakeModels) -> None:
    write(project, models)
    race(project)
    raced = variants(project)
    for name, each in raced.items():
        folder = project.out / each["folder"]
        record = read_record(folder / "results.json")
        done = [case for case in record.cases if case.trials]
        assert len(record.cases) == 60
        assert len(done) == each["cases"]
        passed = sum(turn.response != "no" for case in done for turn in case.turns)
        assert each["value"] == pytest.approx(passed / len(done))
        if each["dropped"]:
            assert record.stopped == f"dropped from the race after {each['dropped']['cases']} of 60 cases"
            assert each["dropped"]["cases"] == each["cases"]
            assert each["dropped"]["evidence"] >= outcome(project)["threshold"] == 60
        assert (folder / "report.md").is_file(), name
        assert not (folder / "journal.jsonl").exists()
    # All variants were asked the same cases in the same order.
    orders = [
        [case.id for case in read_record(project.out / each["folder"] / "results.json").cases if case.trials]
        for each in raced.values()
    ]
    for one in orders:
        assert {*one} <= {*max(orders, key=len)}


def test_a_variant_that_finishes_first_has_the_cases_that_a_slower_one_lets_count(
    project: Project, models: FakeModels
) -> None:
    def rule(request: Request) -> Reply:
        if request.model == "slow-100":
            time.sleep(0.05)
        return answered(request)

    models.answer(rule)
    write(project, models, 12)
    race(project, names=("best-100", "slow-100"))
    for each in variants(project).values():
        record = read_record(project.out / each["folder"] / "results.json")
        assert (each["cases"], sum(bool(case.trials) for case in record.cases)) == (12, 12)


def test_the_leaderboard_is_printed_and_written(project: Project, models: FakeModels) -> None:
    write(project, models)
    finished = race(project)
    text = (project.out / "leaderboard.md").read_text()
    for name, each in variants(project).items():
        assert f"model={name}" in finished.stdout
        assert f"`model={name}`" in text
        if each["dropped"]:
            assert f"dropped after {each['dropped']['cases']}" in text
    assert outcome(project)["reason"] in finished.stdout
    page = (project.out / "report.html").read_text()
    assert page.startswith("<!doctype html>") or "<html" in page
    assert "dropped after" in finished.stderr


@pytest.mark.proves("race: --cheapest")
@pytest.mark.parametrize("cheapest", [False, True])
def test_equal_variants_stay_and_the_cheapest_can_be_chosen(
    project: Project, models: FakeModels, cheapest: bool
) -> None:
    models.answer(lambda request: Answer(f"yes {request.text.rpartition(' ')[2]}"))
    write(project, models, 12)
    names = ("gpt-4o", "gpt-4o-mini")
    finished = race(project, *(["--cheapest"] if cheapest else []), names=names)
    found = outcome(project)
    assert finished.code == 0
    assert found["seen"] == found["cases"] == 12
    assert found["outcome"] == ("leader" if cheapest else "equal")
    assert found["chosen"] == ("model=gpt-4o-mini" if cheapest else None)
    assert "cannot be told apart after 12 of 12 cases" in found["reason"]
    costs = {name: each["cost_per_case_usd"] for name, each in variants(project).items()}
    assert 0 < costs["gpt-4o-mini"] < costs["gpt-4o"]
    assert found["run"]["spent_usd"] == pytest.approx(12 * sum(costs.values()))


@pytest.mark.proves("race: --max-cost-per-case --max-p95-ms")
def test_limits_are_decided_on_the_variants_that_are_left(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: Answer(f"yes {request.text.rpartition(' ')[2]}"))
    write(project, models, 12)
    names = ("gpt-4o", "gpt-4o-mini")
    race(project, names=names)
    costs = {name: each["cost_per_case_usd"] for name, each in variants(project).items()}
    between = str(sum(costs.values()) / 2)
    assert race(project, "--max-cost-per-case", between, names=names).code == 0
    assert outcome(project)["chosen"] == "model=gpt-4o-mini"
    assert variants(project)["gpt-4o"]["state"] == "over_limit"
    assert "cost per case" in variants(project)["gpt-4o"]["over"][0]
    for limit in (("--max-cost-per-case", "0.0000001"), ("--max-p95-ms", "0.001")):
        finished = race(project, *limit, names=names)
        assert finished.code == 1
        assert outcome(project)["outcome"] == "over_limit"
        assert "no variant that is left is within the limits" in finished.stdout
    # A price that is not known may exceed the limit.
    assert race(project, "--max-cost-per-case", "1", names=("best-100", "best-99")).code == 1
    assert "cost per case unknown" in outcome(project)["reason"]


def test_an_error_of_a_variant_counts_against_it(project: Project, models: FakeModels) -> None:
    def rule(request: Request) -> Reply:
        number = request.text.rpartition(" ")[2]
        return Answer("this is no JSON") if request.model == "poor-40" else Answer(json.dumps({"a": f"yes {number}"}))

    models.answer(rule)
    project.suite(
        [{"name": f"case {at}", "input": f"question {at}", "ground_truth": "yes"} for at in range(60)],
        [{"type": "contains", "value": "yes"}],
        model={"provider": "openai", "endpoint": models.openai_url, "name": "best-100", "max_tokens": 50},
        response_format={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    )
    finished = race(project, names=("best-100", "poor-40"))
    assert finished.code == 0, finished.stderr
    assert outcome(project)["chosen"] == "model=best-100"
    assert variants(project)["poor-40"]["value"] == 0.0
    assert variants(project)["poor-40"]["unknown"] == 0


def test_trouble_with_a_service_is_no_loss(project: Project, models: FakeModels) -> None:
    def rule(request: Request) -> Reply:
        return Fault(error="bad_key") if request.model == "poor-40" else answered(request)

    models.answer(rule)
    write(project, models, 40)
    finished = race(project, names=("best-100", "poor-40"))
    assert finished.code == 3, finished.stderr
    found = outcome(project)
    assert (found["outcome"], found["chosen"]) == ("undecided", None)
    assert "40 values of the variants that are left could not be evaluated" in found["reason"]
    assert variants(project)["poor-40"]["unknown"] == 40
    assert variants(project)["poor-40"]["value"] is None


@pytest.mark.proves("race: --dry-run")
def test_the_plan_counts_all_variants_before_anything_is_asked(project: Project, models: FakeModels) -> None:
    write(project, models, 10)
    finished = race(project, "--dry-run", "--repeat", "2", "--max-cost-usd", "0.5", names=("gpt-4o", "gpt-4o-mini"))
    assert finished.code == 0
    assert not models.requests
    assert not project.out.exists()
    lines = finished.stdout.splitlines()
    assert any("agent.yaml (model=gpt-4o): 10 cases, 10 to 20 trials" in line for line in lines), finished.stdout
    assert any("agent.yaml (model=gpt-4o-mini)" in line for line in lines)
    assert any("race of 2 variants for the pass rate: 10 cases, at most 40 trials" in line for line in lines)
    assert any("budget of the run: $0.50" in line for line in lines)


@pytest.mark.proves("race: --objective")
def test_a_metric_can_be_the_objective(project: Project, models: FakeModels) -> None:
    write(project, models, 60, evaluations={"metrics": [{"type": "standard", "metric": "rouge", "threshold": 0.01}]})
    finished = race(project, "--objective", "rouge", names=("best-100", "poor-40"))
    assert finished.code == 0, finished.stderr
    found = outcome(project)
    assert (found["objective"], found["chosen"]) == ("rouge", "model=best-100")
    assert "| `rouge` |" in (project.out / "leaderboard.md").read_text()


def test_quarantined_and_informational_cases_are_not_raced(project: Project, models: FakeModels) -> None:
    write(project, models, 12)
    entry = {"case": "case-3", "reason": "flaky", "owner": "team", "expires": "2999-01-01"}
    project.policy(quarantine=[entry])
    race(project, names=("best-100", "best-99"))
    assert outcome(project)["cases"] == 11
    assert not any(request.text == "question 3" for request in models.requests)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "a race needs at least 2 variants, and there are none; repeat --vary"),
        (("--vary", "model=a"), "a race needs at least 2 variants, and there is 1"),
        (("--vary", "model"), "--vary model: must be KEY=VALUE"),
        (("--vary", "model=a", "--vary", "model=a"), "--vary model=a: is given twice"),
        (
            ("--vary", "modle=a", "--vary", "modle=b"),
            "modle: there is no such setting of the agent; did you mean model?",
        ),
        (("--vary", "temprature=0", "--vary", "temprature=1"), "did you mean temperature?"),
        (("--vary", "temperature=0", "--vary", "temperature=9"), "variant temperature=9: temperature=9: "),
        (("--vary", "model.api_key=a", "--vary", "model.api_key=b"), "model.api_key: there is no such setting"),
        (
            ("--vary", "instructions=no.md", "--vary", "model=a", "--vary", "model=b"),
            "instructions=no.md: cannot be read",
        ),
        (("--vary", "target=recorded:a.jsonl", "--vary", "target=recorded:b.jsonl"), "a.jsonl"),
        (("--vary", "model=a", "--vary", "model=b", "--target", "recorded:a.jsonl"), "a.jsonl"),
        (("--vary", "model=a", "--vary", "model=b", "--objective", "rouge"), "no case has this metric"),
        (("--vary", "model=a", "--vary", "model=b", "--variants", "agent.yaml"), "cannot be combined"),
    ],
)
def test_wrong_use_is_one_sentence(project: Project, models: FakeModels, arguments: tuple[str, ...], said: str) -> None:
    write(project, models, 3)
    finished = project.run("race", "-o", "out", *arguments, OPENAI_API_KEY=KEY)
    assert finished.code == 2, finished.stdout
    assert said in finished.stderr
    assert not models.requests
    assert not project.out.exists()


@pytest.mark.proves("race: --variants")
def test_variants_are_named_in_a_file(project: Project, models: FakeModels) -> None:
    write(project, models, 30)
    project.write("short.md", "Answer yes or no.")
    project.write("v.yaml", "as it is: {}\npoor one:\n  model: poor-40\n  temperature: 0\n  instructions: short.md\n")
    finished = project.run("race", "-o", "out", "--variants", "v.yaml", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stderr
    raced = {each["name"]: each for each in outcome(project)["variants"]}
    assert outcome(project)["chosen"] == "as it is"
    assert raced["poor one"]["settings"] == {"model": "poor-40", "temperature": 0, "instructions": "short.md"}
    poor = [request for request in models.requests if request.model == "poor-40"]
    assert {request.system for request in poor} == {"Answer yes or no."}
    assert {request.body["temperature"] for request in poor} == {0}
    assert {raced["poor one"]["folder"], raced["as it is"]["folder"]} == {"poor-one", "as-it-is"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "v.yaml:1:1: must be a mapping from names to settings"),
        ("a: {}\nb: 3\n", "v.yaml:2:4: b: must be a mapping of settings"),
        ("a: {}\nb: {model: [x]}\n", "v.yaml:2:12: b.model: must be a text"),
        ("a: {}\nb: {}\n", "the variants a and b are the same"),
        ("a: {}\na: {}\n", "v.yaml:2:1"),
        (None, "--variants v.yaml: cannot be read"),
    ],
)
def test_a_wrong_file_of_variants_is_refused(project: Project, models: FakeModels, text: str | None, said: str) -> None:
    write(project, models, 3)
    if text is not None:
        project.write("v.yaml", text)
    finished = project.run("race", "-o", "out", "--variants", "v.yaml", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert said in finished.stderr


def test_targets_are_raced(project: Project, models: FakeModels) -> None:
    project.numbered(60)
    project.answers([{"case": f"case {n}", "response": "wrong" if n % 2 else str(n)} for n in range(60)], "poor.jsonl")
    finished = project.run(
        "race", "-o", "out", "--vary", "target=recorded:answers.jsonl", "--vary", "target=recorded:poor.jsonl"
    )
    assert finished.code == 0, finished.stderr
    assert outcome(project)["chosen"] == "target=recorded:answers.jsonl"
    assert outcome(project)["run"]["spent_usd"] is None


def test_a_judge_does_not_vary_with_the_agent(project: Project, models: FakeModels) -> None:
    """The suite's judge is its model where no other is named; a race varies the agent alone."""
    write(project, models, 10, evaluations={"metrics": [{"type": "relevance", "threshold": 0.5}]})
    lines = race(project, "--dry-run", names=("good-90", "poor-40")).stdout.splitlines()
    for name in ("good-90", "poor-40"):
        line, conversations = (line for line in lines if f"(model={name})" in line)
        assert conversations.endswith("10 at the same time")
        assert f"openai/{name}" in line
        assert "openai/best-100" in line


def test_the_schema_of_race_json_is_printed(project: Project, models: FakeModels) -> None:
    import jsonschema

    write(project, models, 12)
    race(project, names=("best-100", "best-99"))
    schema: dict[str, Any] = json.loads(project.run("schema", "race").stdout)
    jsonschema.validate(outcome(project), schema)


@pytest.mark.proves("race: --concurrency")
@pytest.mark.models(answer=answered, latency=0.02)
def test_all_variants_share_the_concurrency(project: Project, models: FakeModels) -> None:
    write(project, models, 8)
    race(project, "--concurrency", "1", names=("best-100", "best-99"))
    starts = sorted(request.time for request in models.requests)
    assert len(starts) == 16
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) >= 0.02
    # Slots are granted in turn.
    assert {request.model for request in models.requests[:2]} == {"best-100", "best-99"}


def test_a_race_in_which_nothing_answers_is_not_green(project: Project) -> None:
    project.numbered(3)
    finished = project.run("race", "-o", "out", "--vary", "target=command:false", "--vary", "target=command:false 2")
    assert finished.code == 3, finished.stdout
    found = outcome(project)
    assert found["outcome"] == "undecided"
    assert "each case of the variants that are left ended in error" in found["reason"]
    assert {(each["errors"], each["value"]) for each in found["variants"]} == {(3, 0.0)}
    assert "3 (3 in error)" in finished.stdout


def test_variants_share_the_probe_of_their_judge(project: Project, models: FakeModels) -> None:
    judge = {"provider": "openai", "endpoint": models.openai_url, "name": "judge"}
    write(project, models, 6, evaluations={"metrics": [{"type": "refusal", "model": judge}]})
    project.policy(judges={"probe": "always"})
    models.answer(lambda request: json.dumps({"reason": "because", "verdict": "yes"}))
    assert race(project, names=("best-100", "best-99")).code == 3
    records = [read_record(path) for path in project.out.glob("*/results.json")]
    assert sorted(each.attempts for record in records for each in record.probes) == [0, 2]
    assert asked(models)["judge"] == 4, "both answers, twice"
