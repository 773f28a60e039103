"""What passes with HoloDeck and must not: each test fails if we behave as HoloDeck 0.7.1 does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.project import Project

PARIS = {"name": "capital", "input": "What is the capital of France?", "ground_truth": "Paris"}


def _judged(project: Project) -> dict[str, str]:
    return {case["id"]: case["judged"] for case in project.verdict()["cases"]}


@pytest.mark.parametrize("case", [PARIS, {"name": "capital", "turns": [{"input": "?", "ground_truth": "Paris"}]}])
def test_an_empty_answer_is_scored(project: Project, case: dict[str, Any]) -> None:
    project.suite([case])
    project.answers([{"case": "capital", "response": ""}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 1
    assert record.cases[0].trials[0].turns[0].evaluations[0].score == 0.0
    assert "answer:   (empty)" in finished.stdout


def test_the_settings_of_a_metric_stay_with_its_entry(project: Project) -> None:
    lax = {"type": "standard", "metric": "numeric", "absolute_tolerance": 50}
    project.suite(
        [
            {"name": "strict", "input": "?", "ground_truth": "100"},
            {"name": "lax", "input": "?", "ground_truth": "100", "evaluations": [lax]},
        ],
        metrics=[{"type": "standard", "metric": "numeric"}],
    )
    project.answers([{"case": "strict", "response": "110"}, {"case": "lax", "response": "110"}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 1
    assert _judged(project) == {"strict": "failed", "lax": "passed"}
    names = [case.trials[0].turns[0].evaluations[0].evaluator_name for case in record.cases]
    assert names == ["numeric", "numeric (absolute_tolerance=50)"]


def test_two_metrics_of_one_kind_are_two_metrics(project: Project) -> None:
    exact = {"type": "standard", "metric": "equality"}
    project.suite([PARIS], metrics=[exact, {**exact, "case_insensitive": True}])
    project.answers([{"case": "capital", "response": "PARIS"}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 1
    scores = {found.evaluator_name: found.score for found in record.cases[0].trials[0].turns[0].evaluations}
    assert scores == {"equality": 0.0, "equality (case_insensitive=true)": 1.0}


@pytest.mark.needs
@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ({"type": "standard", "metric": "relevance", "threshold": 0.8}, "relevance"),
        ({"type": "rag", "metric_type": "faithfulness", "threshold": 0.9}, "faithfulness"),
        ({"type": "geval", "name": "Tone", "criteria": "Is it polite?"}, "Tone"),
    ],
)
def test_a_metric_that_cannot_be_evaluated_is_refused(project: Project, metric: dict[str, Any], label: str) -> None:
    project.suite([PARIS], metrics=[{"type": "standard", "metric": "equality"}, metric])
    project.answers([{"case": "capital", "response": "Paris"}])
    finished = project.run("run", "--target", "recorded:answers.jsonl")
    assert finished.code == 2
    assert f": {label}: " in finished.stderr
    assert "; or set enabled: false to leave it out" in finished.stderr
    assert finished.stdout == ""


@pytest.mark.parametrize("metric", ["bleu", "rouge", "meteor", "f1_score"])
def test_a_text_metric_without_a_threshold_is_informational(project: Project, metric: str) -> None:
    shown = {"type": "standard", "metric": metric}
    project.suite([PARIS], metrics=[shown])
    project.answers([{"case": "capital", "response": "no idea"}])
    alone = project.run("run", "--target", "recorded:answers.jsonl")
    assert alone.code == 2
    assert "nothing in this suite can fail" in alone.stderr

    project.suite([PARIS], metrics=[shown, {"type": "standard", "metric": "equality"}])
    project.evaluate("--target", "recorded:answers.jsonl")
    [informational, asserting] = project.verdict()["cases"][0]["trials"][0]["turns"][0]["others"]
    assert (informational["outcome"], asserting["outcome"]) == ("informational", "failed")


def test_no_cases_is_a_configuration_error(project: Project) -> None:
    project.suite([])
    refused = project.run("run", "--target", "command:cat")
    assert refused.code == 2
    assert "the suite has no cases" in refused.stderr
    assert project.run("run", "--target", "command:cat", "--allow-empty").code == 0


def test_an_empty_list_of_expected_tools_asserts_that_none_is_called(project: Project) -> None:
    project.suite([{**PARIS, "expected_tools": []}])
    project.answers([{"case": "capital", "response": "Paris", "tool_invocations": [{"name": "search"}]}])
    finished, _ = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 1
    assert "expected no tool call, got 1 (calls: search)" in finished.stdout


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ("", "must not be blank: a blank name matches every call and asserts nothing"),
        ({"name": "search", "count": True}, "must be a whole number, not true or false"),
    ],
)
def test_expected_tools_that_assert_nothing_are_refused(project: Project, entry: Any, sentence: str) -> None:
    project.suite([{**PARIS, "expected_tools": [entry]}])
    finished = project.run("validate")
    assert finished.code == 2
    assert sentence in finished.stderr


def test_a_tool_name_is_a_substring_unless_the_entry_says_exact(project: Project) -> None:
    project.suite(
        [
            {**PARIS, "name": "substring", "expected_tools": ["tract"]},
            {**PARIS, "name": "exact", "expected_tools": [{"name": "tract", "match": "exact"}]},
        ]
    )
    calls = [{"name": "subtract"}]
    project.answers([{"case": n, "response": "Paris", "tool_invocations": calls} for n in ("substring", "exact")])
    project.evaluate("--target", "recorded:answers.jsonl")
    assert _judged(project) == {"substring": "passed", "exact": "failed"}


def test_a_single_turn_has_a_deadline(project: Project) -> None:
    project.suite([PARIS], execution={"llm_timeout": 0.5})
    project.write("agent.py", "import time\n\ndef answer(messages):\n    time.sleep(60)\n    return 'Paris'\n")
    finished, record = project.evaluate("--target", "python:agent:answer")
    assert finished.code == 3
    assert "error: the agent did not answer within 0.5 s" in finished.stdout
    assert record.cases[0].trials[0].turns[0].response is None


def test_a_mean_counts_scores_of_zero(project: Project) -> None:
    project.suite([{**PARIS, "name": f"case {n}"} for n in range(4)])
    project.answers([{"case": f"case {n}", "response": "Paris" if n else "Lyon"} for n in range(4)])
    project.evaluate("--target", "recorded:answers.jsonl")
    assert project.verdict()["metrics"]["equality"]["mean"] == 0.75
    assert project.verdict()["metrics"]["equality"]["cases"] == 4


def test_a_missing_input_is_an_error_where_the_metric_was_asked_for(project: Project) -> None:
    bleu = {"metric": "bleu", "threshold": 0.1}
    project.suite(
        [
            PARIS,
            {"name": "inherits", "input": "Say hello.", "expected_tools": []},
            {"name": "lists", "input": "Say hello.", "expected_tools": [], "evaluations": [bleu]},
        ]
    )
    answer = {"response": "Paris", "tool_invocations": []}
    project.answers([{"case": name, **answer} for name in ("capital", "inherits", "lists")])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 3
    found = {case.id: case.trials[0].turns[0].evaluations[0] for case in record.cases}
    assert (found["inherits"].status, found["lists"].status) == ("skipped", "failed")
    assert found["inherits"].explanation == "does not apply: the turn has no ground_truth"
    assert found["lists"].explanation == "it needs ground_truth, which the case does not give"
    assert "bleu not evaluated: it needs ground_truth, which the case does not give" in finished.stdout


def test_two_cases_of_one_name_are_two_cases(project: Project) -> None:
    project.suite([PARIS, {"name": "capital", "input": "And of Italy?", "ground_truth": "Rome"}])
    found = project.run("validate")
    assert '2 cases are named "capital": their ids are capital-' in found.stderr
    project.write("agent.py", "def answer(messages):\n    return 'Paris'\n")
    finished, record = project.evaluate("--target", "python:agent:answer")
    assert finished.code == 1
    assert len({case.id for case in record.cases}) == 2
    assert sorted(_judged(project).values()) == ["failed", "passed"]
