"""The command `optimize`, through the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.extensions.race.tuning import TEMPERATURE, TOP_P, optimize, outcome, tuned, write
from tests.llm.models import KEY, Answer, FakeModels, Fault, Reply, Request

pytestmark = pytest.mark.models(answer=tuned)
BOTH = (TEMPERATURE, TOP_P)


@pytest.mark.full
@pytest.mark.proves(
    "optimize: SUITE --output-dir --html", "Optimizer: axes", "OptimizerAxes: numeric", "NumericAxis: path"
)
def test_the_best_values_are_found_one_axis_after_the_other(project: Project, models: FakeModels) -> None:
    write(project, models, 100, BOTH, top_p="1.0")
    finished = optimize(project)
    assert finished.code == 0, finished.stderr
    found = outcome(project)
    assert found["outcome"] == "improved", found["reason"]
    assert found["changes"] == [
        {"axis": "model.temperature", "before": 0.7, "after": 0.2},
        {"axis": "model.top_p", "before": 1.0, "after": 0.5},
    ]
    # The third race has the better top_p, and confirms the temperature; top_p need not be raced again.
    assert [(each["axis"], each["cycle"], each["adopted"]) for each in found["races"]] == [
        ("model.temperature", 1, "model.temperature=0.2"),
        ("model.top_p", 1, "model.top_p=0.5"),
        ("model.temperature", 2, None),
    ]
    settings = [variant["settings"] for variant in found["races"][2]["race"]["variants"]]
    assert all(each["model.top_p"] == 0.5 for each in settings)
    assert {variant["settings"].get("model.temperature", 0.7) for variant in found["races"][0]["race"]["variants"]} == {
        *(0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 1.0)
    }
    for each in found["races"]:
        folder = project.out / each["folder"]
        assert json.loads((folder / "race.json").read_bytes()) == each["race"]
        assert (folder / "report.html").is_file()
        assert f"`{each['race']['variants'][0]['name']}`" in (folder / "leaderboard.md").read_text()
        assert all((folder / variant["folder"] / "results.json").is_file() for variant in each["race"]["variants"])
        assert f"race of tested: {len(each['race']['variants'])} variants" in finished.stdout
    assert found["reason"] in finished.stdout
    assert "model.temperature: 0.7 → 0.2" in finished.stdout
    assert not [*project.out.rglob("journal.jsonl")]
    assert not optimize(project, "--no-html", "-o", "plain").code
    assert not [*(project.folder / "plain").rglob("report.html")]


@pytest.mark.full
def test_the_gain_is_measured_on_cases_that_were_never_raced(project: Project, models: FakeModels) -> None:
    write(project, models)
    assert optimize(project).code == 0
    found = outcome(project)
    assert (found["raced"], found["held_out"]) == (70, 30)
    sides = [read_record(project.out / "held-out" / name / "results.json") for name in ("as-it-is", "changed")]
    held_out = {case.id for case in sides[0].cases}
    assert held_out == {case.id for case in sides[1].cases}
    assert len(held_out) == 30
    for race in found["races"]:
        for variant in race["race"]["variants"]:
            record = read_record(project.out / race["folder"] / variant["folder"] / "results.json")
            assert len(record.cases) == 70
            assert not held_out & {case.id for case in record.cases}
    # Both answer all cases, whatever their difference.
    passed = [[case.trials[0].turns[0].response != "no" for case in side.cases] for side in sides]
    gain = found["gain"]
    assert gain["cases"] == 30
    assert (gain["before"], gain["after"]) == tuple(pytest.approx(sum(each) / 30) for each in passed)
    assert gain["difference"] == pytest.approx(gain["after"] - gain["before"])
    assert 0 < gain["low"] < gain["difference"] < gain["high"]
    assert gain["shown"]


@pytest.mark.full
@pytest.mark.proves("optimize: --seed", "Optimizer: seed")
def test_the_seed_chooses_the_cases_that_are_held_out(project: Project, models: FakeModels) -> None:
    write(project, models)

    def held_out(*arguments: str) -> set[str]:
        assert optimize(project, *arguments).code == 0
        return {case.id for case in read_record(project.out / "held-out" / "changed" / "results.json").cases}

    first = held_out()
    assert held_out("--seed", "7") != first
    assert outcome(project)["seed"] == 7
    assert held_out("--seed", "42") == first
    project.write("agent.yaml", (project.folder / "agent.yaml").read_text().replace("max_cycles: 2", "seed: 7"))
    assert held_out() != first
    assert outcome(project)["seed"] == 7


@pytest.mark.full
def test_values_that_cannot_be_told_apart_keep_the_present_one(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: Answer(f"yes {request.text.rpartition(' ')[2]}"))
    before = write(project, models, 60)
    finished = optimize(project, "--apply")
    assert finished.code == 0, finished.stderr
    found = outcome(project)
    assert (found["outcome"], found["changes"], found["gain"]) == ("unchanged", [], None)
    assert found["races"][0]["race"]["outcome"] == "equal"
    assert "stays as it is: there is no better value" in finished.stderr
    assert (project.folder / "agent.yaml").read_text() == before
    assert not (project.out / "held-out").exists()


@pytest.mark.full
@pytest.mark.proves("Optimizer: min_delta")
def test_a_small_gain_changes_nothing(project: Project, models: FakeModels) -> None:
    write(project, models)
    text = (project.folder / "agent.yaml").read_text().replace("max_cycles: 2", "min_delta: 0.9")
    project.write("agent.yaml", text)
    assert optimize(project).code == 0
    found = outcome(project)
    assert (found["outcome"], found["min_delta"]) == ("unchanged", 0.9)
    assert "which is not above min_delta 0.9" in found["races"][0]["reason"]
    assert found["races"][0]["race"]["chosen"] == "model.temperature=0.2"


@pytest.mark.full
def test_a_gain_that_is_not_shown_is_not_applied(project: Project, models: FakeModels) -> None:
    """The values differ only in cases that are raced, as with an overfitted setting."""
    write(project, models)
    optimize(project)
    record = read_record(project.out / "held-out" / "changed" / "results.json")
    held_out = {turn.input for turn in record.turns}

    def rule(request: Request) -> Reply:
        right = request.text in held_out or request.body["temperature"] == 0.2
        return Answer(f"yes {request.text.rpartition(' ')[2]}" if right else "no")

    models.answer(rule)
    before = (project.folder / "agent.yaml").read_bytes()
    for arguments, code in (((), 0), (("--apply",), 1)):
        finished = optimize(project, *arguments)
        assert finished.code == code, finished.stderr
        found = outcome(project)
        assert (found["outcome"], found["gain"]["difference"]) == ("not_shown", 0.0)
        assert not found["gain"]["shown"]
    assert "stays as it is: no gain is shown on 30 cases held out" in finished.stderr
    assert (project.folder / "agent.yaml").read_bytes() == before


@pytest.mark.parametrize("count", [59, 60])
def test_fewer_than_60_cases_are_refused(project: Project, models: FakeModels, count: int) -> None:
    write(project, models, count)
    finished = optimize(project, "--dry-run")
    assert finished.code == (2 if count == 59 else 0)
    assert ("needs at least 60 cases" in finished.stderr) == (count == 59)
    assert ("42 cases raced" in finished.stdout) == (count == 60)
    assert not models.requests


def test_quarantined_cases_do_not_count(project: Project, models: FakeModels) -> None:
    write(project, models, 60)
    project.policy(quarantine=[{"case": "case-3", "reason": "flaky", "owner": "team", "expires": "2999-01-01"}])
    assert "and there are 59" in optimize(project).stderr


@pytest.mark.proves("optimize: --axis", "OptimizerAxes: textual", "TextualAxis: path")
def test_textual_axes_are_refused_by_name(project: Project, models: FakeModels) -> None:
    write(project, models, 60)
    text = (project.folder / "agent.yaml").read_text()
    textual = "      textual: [{path: instructions.inline, max_chars: 500}]\n    max_cycles: 2"
    project.write("agent.yaml", text.replace("    max_cycles: 2", textual))
    finished = optimize(project, "--dry-run")
    assert finished.code == 2
    assert "instructions.inline is a textual axis, which is not optimized" in finished.stderr
    assert "agent.yaml:18:24" in finished.stderr
    assert optimize(project, "--dry-run", "--axis", "instructions.inline").code == 2
    assert optimize(project, "--dry-run", "--axis", "model.temperature").code == 0
    assert "--axis model.top_k: no such axis" in optimize(project, "--axis", "model.top_k").stderr


@pytest.mark.proves("NumericAxis: type range")
@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("- {path: model.temperature, type: float, range: [1, 0]}", "agent.yaml:17:55: "),
        ("- {path: model.temperature, type: float, range: [1, 0]}", "must be [low, high], and 1 is not below 0"),
        ("- {path: model.temperature, type: int, range: [0.5, 2]}", "must be [low, high] with two whole numbers"),
        ("- {path: model.temperature, type: float, range: [0]}", "must be [low, high] with two numbers"),
        ("- {path: model.temperature, type: categorical, range: [[1]]}", "must be a list of texts, numbers"),
        ("- {path: model.temperature, type: categorical, range: [0.7]}", "no value differs from the present one; add"),
        ("- {path: model.temperature, type: float, range: [0, 9]}", "model.temperature=9"),
        ("- {path: model.temprature, type: float, range: [0, 1]}", "did you mean model.temperature?"),
        ("- {path: 'tools[name=kb].top_k', type: int, range: [1, 3]}", "tools.kb.top_k: there is no such setting"),
        ("- {path: temperature, type: float, range: [0, 1]}", "temperature is not a path in agent.yaml, such as model"),
        (f"{TEMPERATURE}\n      {TEMPERATURE}", "model.temperature is named twice"),
    ],
)
def test_wrong_axes_are_one_sentence(project: Project, models: FakeModels, axis: str, said: str) -> None:
    write(project, models, 60, (axis,))
    finished = optimize(project)
    assert finished.code == 2, finished.stdout
    assert said in finished.stderr
    assert not models.requests


def test_a_suite_without_axes_is_refused(project: Project, models: FakeModels) -> None:
    write(project, models, 60, ())
    project.write("agent.yaml", (project.folder / "agent.yaml").read_text().replace("numeric:\n\n", "numeric: []\n"))
    assert "there is no axis to optimize" in optimize(project).stderr
    project.numbered(60)
    finished = optimize(project)
    assert (finished.code, "evaluations.optimizer is missing" in finished.stderr) == (2, True)


@pytest.mark.full
@pytest.mark.proves("optimize: --objective", "Optimizer: loss")
def test_the_objective_is_the_weighted_loss_or_a_given_one(project: Project, models: FakeModels) -> None:
    write(project, models)
    text = (project.folder / "agent.yaml").read_text()
    text = text.replace(
        "{type: standard, metric: equality}", "{type: standard, metric: equality}, {type: standard, metric: rouge}"
    )
    project.write("agent.yaml", text.replace("{equality: 1}", "{equality: 3, rouge: 1}"))
    assert optimize(project).code == 0
    found = outcome(project)
    assert (found["objective"], found["outcome"]) == ("3 equality + 1 rouge", "improved")
    records = [read_record(project.out / "held-out" / name / "results.json") for name in ("as-it-is", "changed")]
    for record, side in zip(records, ("before", "after"), strict=True):
        scores = [
            {each.evaluator_name: each.score for each in case.trials[0].turns[0].evaluations} for case in record.cases
        ]
        expected = [(3 * each["equality"] + each["rouge"]) / 4 for each in scores]  # type: ignore[operator]
        assert found["gain"][side] == pytest.approx(sum(expected) / len(expected))
    assert optimize(project, "--objective", "pass_rate").code == 0
    assert outcome(project)["objective"] == "pass_rate"
    assert "points, 95 % interval" in outcome(project)["reason"]
    project.write("agent.yaml", text.replace("{equality: 1}", "{bleu: 1}"))
    assert "evaluations.optimizer.loss bleu: no case has this metric" in optimize(project).stderr


@pytest.mark.proves(
    "optimize: --numeric-max-trials --max-cycles --dry-run --repeat",
    *("Optimizer: max_cycles numeric_phase", "OptimizerPhase: max_trials"),
)
def test_the_plan_counts_all_axes_before_anything_is_asked(project: Project, models: FakeModels) -> None:
    write(project, models, 60, BOTH)
    finished = optimize(project, "--dry-run", "--max-cost-usd", "0.5")
    assert finished.code == 0, finished.stderr
    assert not models.requests
    assert not project.out.exists()
    # Two cycles of 7 and 2 values on 42 cases, and the gain on 18.
    assert f"at most {2 * (7 + 2) * 42 + 2 * 18:,} trials" in finished.stdout
    assert "42 cases raced in at most 2 cycles, 18 held out" in finished.stdout
    assert "agent.yaml (model.top_p=1.0): 42 cases" in finished.stdout
    assert "agent.yaml (changed): 18 cases" in finished.stdout
    assert "budget of the run: $0.50" in finished.stdout
    fewer = optimize(project, "--dry-run", "--numeric-max-trials", "2", "--max-cycles", "1", "--repeat", "2").stdout
    assert f"at most {2 * ((3 + 2) * 42 + 2 * 18):,} trials" in fewer
    text = (project.folder / "agent.yaml").read_text()
    project.write("agent.yaml", text.replace("max_cycles: 2", "max_cycles: 1\n    numeric_phase: {max_trials: 2}"))
    assert f"at most {(3 + 2) * 42 + 2 * 18:,} trials" in optimize(project, "--dry-run").stdout


def test_an_error_of_a_value_counts_against_it(project: Project, models: FakeModels) -> None:
    def rule(request: Request) -> Reply:
        number = request.text.rpartition(" ")[2]
        return Answer("") if request.body["temperature"] != 0.2 else Answer(f"yes {number}")

    models.answer(rule)
    write(project, models, 60)
    assert optimize(project).code == 0
    assert outcome(project)["changes"][0]["after"] == 0.2
    assert outcome(project)["gain"]["before"] == 0.0


@pytest.mark.full
def test_trouble_with_a_service_leaves_the_axis_undecided(project: Project, models: FakeModels) -> None:
    def rule(request: Request) -> Reply:
        return Fault(error="bad_key") if request.body["temperature"] == 0.2 else tuned(request)

    models.answer(rule)
    before = write(project, models, 60, BOTH)
    finished = optimize(project, "--apply")
    assert finished.code == 3, finished.stderr
    found = outcome(project)
    assert (found["outcome"], found["gain"]) == ("undecided", None)
    assert found["reason"].startswith("model.temperature: undecided: ")
    assert "not raced: model.top_p; the gain was not measured" in found["reason"]
    assert (project.folder / "agent.yaml").read_text() == before


@pytest.mark.full
def test_the_schema_of_optimize_json_is_printed(project: Project, models: FakeModels) -> None:
    import jsonschema

    write(project, models, 60)
    optimize(project)
    schema: dict[str, Any] = json.loads(project.run("schema", "optimize").stdout)
    jsonschema.validate(outcome(project), schema)


@pytest.mark.proves("optimize: --target")
def test_another_target_than_the_model_is_refused(project: Project, models: FakeModels) -> None:
    write(project, models, 60)
    project.policy(target="command:cat")
    refused = optimize(project, "--dry-run")
    assert (refused.code, "applies to the suite's own model" in refused.stderr) == (2, True)
    assert optimize(project, "--dry-run", "--target", "model").code == 0


def test_settings_of_tools_are_axes(project: Project, models: FakeModels) -> None:
    """HoloDeck selects a tool by its name."""
    write(project, models, 60, ("- {path: 'tools[name=handbook].top_k', type: int, range: [1, 3]}",))
    project.write("handbook.md", "# Shop\n\nWe are open.\n")
    tool = "tools:\n- {name: handbook, type: vectorstore, description: The handbook, source: handbook.md, top_k: 2}\n"
    embedding = (
        f"embedding_provider: {{provider: openai, endpoint: {models.openai_url}, name: text-embedding-3-small}}\n"
    )
    text = (project.folder / "agent.yaml").read_text()
    project.write("agent.yaml", text.replace("evaluations:\n", f"{tool}{embedding}evaluations:\n", 1))
    finished = optimize(project, "--dry-run", "--apply")
    assert finished.code == 0, finished.stderr
    for value in (1, 2, 3):
        assert f"(tools[name=handbook].top_k={value})" in finished.stdout


def asked_with(models: FakeModels) -> set[float]:
    return {request.body["temperature"] for request in models.requests}


def test_values_are_included_as_the_present_one_is(project: Project, models: FakeModels) -> None:
    write(project, models, 60, ("- {path: model.temperature, type: categorical, range: [0.1, 0.3]}",))
    assert optimize(project).code == 0
    assert asked_with(models) == {0.1, 0.3, 0.7}


@pytest.mark.full
def test_no_secret_is_written(project: Project, models: FakeModels) -> None:
    def rule(request: Request) -> Reply:
        return Answer(f"the key is {request.key}")

    models.answer(rule)
    write(project, models, 60)
    finished = optimize(project)
    assert finished.code == 0, finished.stderr
    texts = [finished.stdout, finished.stderr]
    texts += [path.read_text() for path in project.out.rglob("*") if path.is_file()]
    assert not any(KEY in text for text in texts)
