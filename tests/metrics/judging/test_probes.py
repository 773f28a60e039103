"""Probes of judges, made by the command line with judges on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from holodeck_action.metrics.judging.probe_texts import REFUSAL
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record
from holodeck_action.suite.model.probing import Exam
from tests.commands.project import Project, evaluations
from tests.github.baselines import OUTPUT, Shop
from tests.github.fake import FakeGitHub
from tests.llm.models import KEY, FakeModels, Fault, Request
from tests.metrics.judging.judged_metrics import all_judged, exams
from tests.metrics.judging.weak_judges import ABSURD, RIGHT, finding_absurd

TOOL = {"name": "opening_hours", "description": "Hours.", "parameters": {"type": "object", "properties": {}}}


def says(verdict: str) -> str:
    return json.dumps({"reason": "because", "verdict": verdict})


def good(request: Request) -> str:
    return says("yes" if REFUSAL in request.text else "no")


def judged(project: Project, server: FakeModels, *metrics: dict[str, Any], name: str = "gpt-4o", **judges: Any) -> None:
    """A suite of two cases with recorded answers and these metrics."""
    model = {"provider": "openai", "name": name, "endpoint": server.openai_url, "api_key": KEY}
    cases = [{"name": case, "input": f"{case}?", "ground_truth": "Yes."} for case in ("one", "two")]
    project.suite(cases, [*metrics] or [{"type": "refusal"}], model=model)
    project.answers([{"case": case["name"], "response": "Yes."} for case in cases])
    project.policy(target="recorded:answers.jsonl", judges={"probe": "auto", **judges}, ground_truth="unused")


def outcomes(record: Record) -> set[tuple[str, str]]:
    return {(each.status, "" if each.error is None else each.error.code) for each in evaluations(record)}


def test_a_judge_that_passes_its_probe_grades(project: Project, models: FakeModels) -> None:
    models.answer(good)
    judged(project, models)
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stderr
    (probe,) = record.probes
    assert (probe.metric, probe.judge, probe.passed, probe.kept) == ("refusal", "openai/gpt-4o", True, False)
    assert (probe.right, probe.absurd, probe.attempts, probe.problem) == (1.0, 0.0, 1, "")
    assert not any(name in each.text for each in models.requests[:2] for name in ("one?", "two?")), "first the probe"
    assert len(models.requests) == 4


@pytest.mark.parametrize("verdict", ["yes", "no"])
def test_a_judge_that_fails_its_probe_grades_nothing(project: Project, models: FakeModels, verdict: str) -> None:
    models.answer(lambda request: says(verdict))
    judged(project, models)
    finished, record = project.evaluate()
    assert finished.code == 3
    (probe,) = record.probes
    assert (probe.passed, probe.attempts, probe.code) == (False, 2, "exam_failed")
    assert len(models.requests) == 4, "twice for both answers, and none for the cases"
    assert outcomes(record) == {("failed", "exam_failed")}
    score = 0 if verdict == "yes" else 1
    said = f"openai/gpt-4o gave {score} to the right and {1 - score} to the absurd answer"
    same = f"openai/gpt-4o gave {score} to the right and to the absurd answer"
    assert said in finished.stdout or same in finished.stdout


@pytest.mark.full
@pytest.mark.proves("SuiteJudges: probe")
def test_a_pass_that_the_base_branch_has_seen_is_not_repeated(
    hub: FakeGitHub, project: Project, models: FakeModels
) -> None:
    models.answer(good)
    shop = Shop(hub, project, "artifact")

    def pull(name: str = "gpt-4o", **judges: Any) -> tuple[list[tuple[bool, int]], int]:
        """The probes of a pull request, and the number of calls of its run."""
        judged(project, models, name=name, **judges)
        before = len(models.requests)
        shop.pull(shop.git.commit({"topic": name + str(judges)}, shop.main))
        return [(each.kept, each.attempts) for each in shop.record().probes], len(models.requests) - before

    judged(project, models)
    assert shop.push().code == 0
    assert [(each.kept, each.attempts) for each in shop.record().probes] == [(False, 1)]
    shop.upload()
    assert pull() == ([(True, 0)], 2)
    assert pull("gpt-4o-mini") == ([(False, 1)], 4)
    assert pull(probe="always") == ([(False, 1)], 4)
    assert pull(probe="never") == ([], 2)
    assert "does not probe its judges" in (project.folder / OUTPUT / "report.md").read_text()
    # What is in the checkout proves nothing.
    base = (project.folder / OUTPUT / "base" / "results.json").read_bytes()
    project.write("base.json", base)
    judged(project, models)
    before = len(models.requests)
    assert project.evaluate("--baseline", "file:base.json")[1].probes[0].attempts == 1
    assert len(models.requests) - before == 4
    # A pass goes on from run to run of the base branch.
    shop.push(shop.main)
    assert [each.kept for each in shop.record().probes] == [True]


def test_each_judge_of_a_panel_is_probed_and_planned(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: says("no") if request.model == "weak" else good(request))
    panel = [
        {"provider": "openai", "name": name, "endpoint": models.openai_url, "api_key": KEY}
        for name in ("strong", "strong", "weak")
    ]
    judged(project, models, models=panel[:2], fallback_models=panel[2:])
    plan = project.run("run", "--dry-run").stdout
    said = "probes of judges, before the first case: 2 to 8 calls of openai/strong, about {} prompt tokens"
    assert re.search(said.format(r"[\d,]+ to [\d,]+") + ".*; 2 to 8 calls of openai/weak", plan), plan
    finished, record = project.evaluate()
    assert finished.code == 3
    assert {each.judge: each.passed for each in record.probes} == {"openai/strong": True, "openai/weak": False}
    assert len(models.requests) == 6
    assert outcomes(record) == {("failed", "exam_failed")}


def test_an_outage_is_no_failed_probe(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: Fault("unavailable", headers={"x-should-retry": "false"}))
    judged(project, models)
    finished, record = project.evaluate()
    assert finished.code == 3
    (probe,) = record.probes
    assert (probe.code, probe.attempts) == ("overloaded", 1)
    assert "openai/gpt-4o could not be probed: " in probe.problem
    assert outcomes(record) == {("failed", "overloaded")}


def test_a_recording_has_its_probes_and_a_cache_is_no_judge(project: Project, models: FakeModels) -> None:
    models.answer(good)
    judged(project, models)
    _, recorded = project.evaluate("--record", "calls")
    _, replayed = project.evaluate("--replay", "calls")
    assert len(models.requests) == 4
    assert replayed.probes == recorded.probes
    assert canonical_json(replayed) == canonical_json(recorded)
    # A judge that got worse: its probe is not answered from the cache, its cases would be.
    assert project.evaluate("--cache", "kept")[0].code == 0
    models.answer(lambda request: says("no"))
    finished, record = project.evaluate("--cache", "kept")
    assert (finished.code, record.probes[0].passed) == (3, False)


def test_a_recording_without_probes_says_so_once(project: Project, models: FakeModels) -> None:
    models.answer(good)
    judged(project, models, probe="never")
    _, recorded = project.evaluate("--record", "calls")
    judged(project, models)
    finished, replayed = project.evaluate("--replay", "calls")
    assert (finished.code, replayed.probes) == (0, ())
    assert finished.stderr.count("the recording has no probe of the judges") == 1
    assert outcomes(replayed) == outcomes(recorded) == {("completed", "")}


@pytest.mark.proves(
    "JudgedMetric: probe", "Probe: right wrong", "ProbeAnswer: input response ground_truth retrieval_context context"
)
def test_a_pair_of_the_suite_takes_the_place_of_the_metric_s(project: Project, models: FakeModels) -> None:
    def facts(request: Request) -> dict[str, Any]:
        verdict = "yes" if "right response" in request.text else "no"
        claim = {"claim": "It is.", "reason": "because", "verdict": verdict, "sources": ["none"]}
        return {"reason": "because", "claims": [claim], "citations": [], "hallucination_detected": False}

    models.answer(facts)
    names = ("input", "response", "ground_truth", "retrieval_context", "context")
    texts = {side: {name: f"{side} {name}" for name in names} for side in ("right", "wrong")}
    pair = {side: {name: [text] if "context" in name else text for name, text in texts[side].items()} for side in texts}
    judged(project, models, {"type": "factual_accuracy", "threshold": 0.5, "probe": pair})
    _, record = project.evaluate()
    assert [(each.passed, each.right, each.absurd) for each in record.probes] == [(True, 1.0, 0.0)]
    for side, found in texts.items():
        (request,) = (each for each in models.requests if f"{side} response" in each.text)
        assert [text for text in found.values() if text not in request.text] == []

    judged(project, models, {"type": "standard", "metric": "bleu", "probe": pair})
    assert "probe: has no effect here, since no judge grades; remove it" in project.run("validate").stderr
    del pair["right"]["ground_truth"]
    judged(project, models, {"type": "refusal", "expect": "as_expected_output", "probe": pair})
    assert "probe: needs right.ground_truth, which the metric reads" in project.run("validate").stderr


# Every judged metric, and the judges that tell its answers apart by a text that only one of them has.

FREE = {"geval", "ConversationalGEval", "JsonCorrectnessMetric"}
"""Metrics whose criterion the suite writes, or whose judge only writes the reason."""


@pytest.mark.full
@pytest.mark.needs("deepeval", "azure", "presets", "preference", "simulation")
def test_each_metric_with_a_fixed_task_has_a_pair() -> None:
    pairs = exams()
    free = {each.get("metric", each["type"]) for each in all_judged() if pairs[each["name"]] is None}
    assert free == FREE


def fits(schema: Mapping[str, Any], root: Mapping[str, Any], high: bool, mark: str, name: str = "") -> Any:
    """A value of a schema: as high as it can be, or as low; texts have the mark, and lists one item."""
    if "$ref" in schema:
        return fits(root["$defs"][schema["$ref"].rpartition("/")[2]], root, high, mark)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return fits(schema[choice][0], root, high, mark, name)
    if "const" in schema or "enum" in schema:
        choices = schema.get("enum", [schema.get("const")])
        return next((each for each in (HIGHEST if high else LOWEST) if each in choices), choices[0])
    properties = schema.get("properties", {})
    match schema.get("type", "string"):
        case "object":
            found = {key: fits(each, root, high, mark, key) for key, each in properties.items()}
            return found or {"fact": mark}
        case "array":
            items = schema.get("items", {})
            held = root.get("$defs", {}).get(str(items.get("$ref", "")).rpartition("/")[2], {})
            # A list of faults is a verdict itself.
            return [] if high and "index" in held.get("properties", {}) else [fits(items, root, high, mark, name)]
        case "integer" | "number":
            return 0 if name == "index" else schema.get("maximum", 1) if high else schema.get("minimum", 0)
        case "boolean":
            return high is not name.startswith("hallucination")
        case _:
            return ("yes" if high else "no") if name == "answers" else mark


HIGHEST, LOWEST = ("yes", "first", "TP"), ("no", "second", "FP")


class Judges:
    """Four judges: `right-high` and `right-low` tell the answers of each pair apart, the others say always the same."""

    def __init__(self, pairs: Mapping[str, Exam]) -> None:
        self.is_absurd = finding_absurd(pairs.values())

    def __call__(self, request: Request) -> Any:
        absurd = self.is_absurd(request)
        high = {"right-high": not absurd, "right-low": absurd, "always-high": True}.get(request.model, False)
        mark = ABSURD if absurd else RIGHT
        if request.schema:
            return json.dumps(fits(request.schema, request.schema, high, mark))
        # The scale is known when a first answer off the scale is refused.
        scale = [int(each) for each in re.findall(r"\d+", request.text.partition("could not be used")[2])]
        score = (max(scale) if high else min(scale)) if scale else -1
        return json.dumps({"reason": mark, "explanation": mark, "score": score, "status": "completed"})


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.needs("deepeval", "azure", "presets", "preference", "simulation")
def test_a_judge_that_says_always_the_same_passes_no_probe(project: Project, models: FakeModels) -> None:
    pairs = {name: exam for name, exam in exams().items() if exam is not None}
    found = [each for each in all_judged() if each["name"] in pairs]
    models.answer(Judges(pairs))
    names = ("right-high", "right-low", "always-high", "always-low")
    panel = [{"provider": "azure_openai", "name": name, "endpoint": models.azure_url, "api_key": KEY} for name in names]
    project.write("notes.txt", "Open from 9 to 18.")
    everything = {"files": [{"path": "notes.txt", "type": "text"}], "expected_tools": ["opening_hours"]}
    case = {"name": "one", "input": "When?", "ground_truth": "At 9.", "retrieval_context": ["At 9."], **everything}
    talk = {"name": "talk", "simulate": {"goal": "Find out.", "model": panel[0]}}
    project.suite([case, talk], found, model=panel[0])
    project.policy(judges={"probe": "auto", "models": panel}, ground_truth="unused")
    finished, record = project.evaluate()
    assert finished.code == 1
    passed = {name: {each.judge for each in record.probes if each.metric == name and each.passed} for name in pairs}
    telling = {f"azure_openai/right-{way}" for way in ("high", "low")}
    # Whether `yes` is good differs from metric to metric; the generation presets find it in none of their parts alone.
    assert {name: judges for name, judges in passed.items() if not judges or judges - telling} == {}
    assert len(record.probes) == len(pairs) * len(panel)
    assert {each.code for each in record.probes if not each.passed} == {"exam_failed"}
    assert "completed" not in {status for status, _ in outcomes(record)}
