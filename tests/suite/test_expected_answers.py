"""An expected answer is compared by a metric, or a person is told that it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Finished, Project
from tests.suite.test_samples import ENVIRON, SAMPLES

LENGTH = {"type": "length", "min_words": 1}
CASE = {"name": "capital", "input": "What is the capital of France?", "ground_truth": "Paris"}
JUDGED = {"type": "geval", "name": "Kind", "criteria": "Is it kind?"}


def validated(project: Project, *metrics: dict[str, Any], cases: Any = (CASE,), **policy: Any) -> Finished:
    project.suite(list(cases), list(metrics))
    project.policy(target="recorded:answers.jsonl", **policy)
    project.answers([{"case": case["name"], "response": "London"} for case in cases])
    return project.run("validate")


@pytest.mark.parametrize(
    "metric",
    [
        LENGTH,
        {"type": "not_contains", "value": "Rome"},
        {"type": "not_regex", "pattern": "Rome"},
        {"type": "json"},
        {"type": "toxicity", "threshold": 0.5},
        {"type": "tool_correctness", "threshold": 1},
        {"type": "composite", "name": "both", "metrics": [LENGTH, {"type": "not_contains", "value": "Rome"}]},
        {"type": "standard", "metric": "equality", "enabled": False},
    ],
    ids=lambda metric: str(metric["type"]),
)
def test_an_expected_answer_that_nothing_compares_is_an_error(project: Project, metric: dict[str, Any]) -> None:
    more = {"expected_tools": ["search"]} if metric["type"] == "tool_correctness" else {}
    cases = [{**CASE, **more}, {**CASE, "name": "second", **more}, {"name": "open", "input": "?", **more}]
    finished = validated(project, LENGTH, metric, cases=cases)
    assert finished.code == 2, finished.stdout
    assert finished.errors == [
        'agent.yaml:31:3: ground_truth: the expected answer of 2 cases ("capital", "second") is compared by nothing: '
        'add equality, f1_score, geval …, or write "ground_truth: unused" in the policy file'
    ] or finished.errors[0].partition(": ")[2].startswith("ground_truth: the expected answer of 2 cases")
    assert project.run("run", "-o", "out").code == 2


@pytest.mark.needs
@pytest.mark.parametrize(
    "metric",
    [
        {"type": "standard", "metric": "equality"},
        {"type": "standard", "metric": "bleu"},
        {"type": "code", "grader": "checks:grade"},
        {"type": "quality"},
        {"type": "refusal", "expect": "as_expected_output"},
        {**JUDGED, "evaluation_params": ["actual_output", "expected_output"]},
        {"type": "generation"},
        {"type": "composite", "name": "both", "metrics": [LENGTH, {"type": "standard", "metric": "f1_score"}]},
        {"type": "deepeval", "metric": "own:Own", "required_params": ["input", "actual_output"]},
    ],
    ids=lambda metric: str(metric["type"]),
)
def test_a_metric_that_may_read_it_compares_it(project: Project, metric: dict[str, Any]) -> None:
    project.write("checks.py", "def grade(ctx):\n    return 1\n")
    project.write("own.py", "from deepeval.metrics import BaseMetric\n\n\nclass Own(BaseMetric):\n    pass\n")
    finished = validated(project, LENGTH, metric)
    assert finished.code == 0, finished.stderr
    assert "expected answer" not in finished.stderr


@pytest.mark.needs
@pytest.mark.parametrize(
    "metric", [{"type": "contains", "value": "London"}, JUDGED, {"type": "rag", "metric_type": "answer_relevancy"}]
)
def test_where_something_else_grades_the_answer_it_is_one_notice(project: Project, metric: dict[str, Any]) -> None:
    finished = validated(project, LENGTH, metric, cases=[{**CASE, "name": name} for name in "abcde"])
    assert finished.code == 0, finished.stderr
    said = 'no metric reads the expected answer of 5 cases ("a", "b", "c" and 2 more): add equality'
    assert finished.stderr.count("expected answer") == finished.stderr.count(said) == 1


def test_the_notice_is_a_line_of_the_report(project: Project) -> None:
    validated(project, {"type": "contains", "value": "London"})
    finished = project.run("run", "-o", "out")
    assert finished.code == 0, finished.stdout
    for text in (finished.stdout, (project.out / "report.md").read_text()):
        assert text.count("no metric reads the expected answer of 1 case") == 1


@pytest.mark.proves("Policy: ground_truth")
def test_unused_is_said_in_the_policy_file(project: Project) -> None:
    assert validated(project, LENGTH, ground_truth="unused").code == 0
    finished = validated(project, {"type": "contains", "value": "London"}, ground_truth="unused")
    assert (finished.code, finished.stderr.count("expected answer")) == (0, 0)
    assert validated(project, LENGTH, ground_truth="compared").code == 2
    assert "(allowed: compared, unused)" in validated(project, LENGTH, ground_truth="ignored").stderr


def test_a_column_of_a_table_is_an_expected_answer_too(project: Project) -> None:
    project.suite([CASE], [LENGTH], test_cases=None, test_cases_file="cases.csv")
    project.write("cases.csv", "Question,Expected answer\nCapital?,Paris\n")
    project.policy(columns={"Question": "input", "Expected answer": "ground_truth"})
    finished = project.run("validate")
    assert finished.code == 2
    assert "cases.csv:2" in finished.stderr
    assert "the expected answer of 1 case" in finished.stderr


@pytest.mark.needs
def test_each_turn_needs_a_metric_of_its_own_or_of_the_conversation(project: Project) -> None:
    turns: list[dict[str, Any]] = [{"input": "Hello", "ground_truth": "Hi"}, {"input": "And?", "evaluations": [LENGTH]}]
    equality = {"type": "standard", "metric": "equality"}
    case = {"name": "talk", "turns": turns}
    assert validated(project, LENGTH, cases=[case]).code == 2
    turns[0]["evaluations"] = [equality]
    assert validated(project, LENGTH, cases=[case]).code == 0
    turns[0]["evaluations"] = [LENGTH]
    whole = {**JUDGED, "scope": "conversation", "evaluation_params": ["actual_output", "expected_output"]}
    turns[1] |= {"ground_truth": "Bye", "evaluations": [whole]}
    assert validated(project, LENGTH, cases=[case]).code == 0


def test_the_note_on_a_case_without_assertion_does_not_ask_for_what_it_has(project: Project) -> None:
    bleu = {"type": "standard", "metric": "bleu"}
    cases = [CASE, {"name": "asserted", "input": "?", "evaluations": [LENGTH]}]
    finished = validated(project, bleu, cases=cases)
    assert "give it expected_tools, or a metric that asserts" in finished.stderr
    assert "give it a ground_truth" not in finished.stderr


@pytest.mark.needs
@pytest.mark.parametrize(
    "name", sorted(path.parent.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("agent.yaml"))
)
def test_the_sample_suites_stay_valid(tmp_path: Path, name: str) -> None:
    project = Project(SAMPLES / name).copy_to(tmp_path)
    config = project.folder / "config.yaml"
    config.write_text(config.read_text().replace("cache_directory", "cache_dir"))
    finished = project.run("validate", **ENVIRON)
    assert "is compared by nothing" not in finished.stderr, finished.stderr
    assert finished.code == 0, finished.stderr
