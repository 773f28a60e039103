"""`verdict.json`: its form, and what it leaves to the record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from tests.commands.project import Project

METRICS = ("equality", "bleu", "rouge", "meteor", "f1_score")
TEXT = "An order can be returned within thirty days of delivery when it is unused and in its original box"


def judged(project: Project, answers: list[str], **policy: Any) -> dict[str, Any]:
    """Run a suite whose expected texts are `TEXT`, and check the verdict against its schema."""
    asked = [{"name": f"case {n}", "input": "How long?", "ground_truth": TEXT} for n in range(len(answers))]
    project.suite(asked, [{"type": "standard", "metric": name, "threshold": 0.5} for name in METRICS])
    rows = [{"case": f"case {n}", "response": answer} for n, answer in enumerate(answers)]
    project.answers([{**row, "trial": trial} for row in rows for trial in range(2)])
    project.policy(target="recorded:answers.jsonl", **policy)
    finished = project.run("run", "-o", "out", "--no-html")
    assert finished.code in (0, 1), finished.stderr
    verdict = project.verdict()
    schema = json.loads(project.run("schema", "verdict").stdout)
    jsonschema.validate(verdict, schema, jsonschema.Draft202012Validator)
    return verdict


def test_a_passing_case_takes_a_line_of_few_bytes(project: Project) -> None:
    verdict = judged(project, [TEXT])
    (line,) = (line for line in (project.out / "verdict.json").read_bytes().splitlines() if line.startswith(b'{"id"'))
    assert len(line) <= 350, line
    (case,) = verdict["cases"]
    assert "reason" not in case
    assert case["trials"][0]["turns"] == [{"index": 0, "outcome": "passed", "passed": [*METRICS]}]


def test_a_file_tells_its_version_first(project: Project) -> None:
    assert next(iter(judged(project, [TEXT]).items())) == ("schema_version", 2)


def test_reasons_are_those_of_what_did_not_pass_and_stand_once(project: Project) -> None:
    verdict = judged(project, [TEXT, "no idea", TEXT.removesuffix(" box")])
    right, wrong, near = verdict["cases"]
    assert "reason" not in right
    (turn,) = wrong["trials"][0]["turns"]
    reasons = {each["name"]: each["reason"] for each in turn["others"]}
    assert [*reasons] == [*METRICS]
    assert wrong["reason"] == "; ".join(reasons.values())
    assert "reason" not in wrong["trials"][0]
    assert "reason" not in turn
    (turn,) = near["trials"][0]["turns"]
    assert (turn["passed"], turn["others"]) == ([*METRICS[1:]], [{"name": "equality", "outcome": "failed"}])
    assert near["reason"].startswith("equality")


def test_reasons_of_trials_that_differ_from_their_case_are_kept(project: Project) -> None:
    verdict = judged(project, ["no idea"], trials={"repeat": 2, "min_pass": 1, "stop_when_decided": False})
    (case,) = verdict["cases"]
    assert case["reason"].startswith("0 of 2 trials passed, 1 needed: ")
    assert [trial["reason"] for trial in case["trials"]] == [case["reason"].partition("needed: ")[2]] * 2


def test_a_case_in_quarantine_tells_why_and_what_it_would_be(project: Project) -> None:
    entry = {"case": "case 1", "reason": "upstream search", "owner": "@search", "expires": "2999-01-01"}
    verdict = judged(project, [TEXT, "no idea"], quarantine=[entry])
    case = verdict["cases"][1]
    assert (case["outcome"], case["judged"]) == ("quarantined", "failed")
    assert case["reason"].startswith("quarantined until 2999-01-01: upstream search; equality")


def test_the_schema_is_that_of_the_file(tmp_path: Path) -> None:
    schema = json.loads(Project(tmp_path).run("schema", "verdict").stdout)
    assert schema["properties"]["schema_version"] == {"enum": [2]}
    assert "MetricVerdict" not in schema["$defs"]
