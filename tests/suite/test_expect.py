"""`expect`: checks in their short form, in cases, turns, tables and the policy file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.record import Record
from tests.commands.project import Project, evaluations

OPTIONS = (
    "(allowed: contains, not_contains, contains_any, contains_all, starts_with, ends_with, regex, not_regex, json, "
    "similar"
)


def names(record: Record) -> list[str]:
    return [evaluation.evaluator_name for evaluation in evaluations(record)]


def run(project: Project, **responses: str) -> Record:
    project.answers([{"case": case, "response": response} for case, response in responses.items()])
    ended, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert ended.code in (0, 1), ended.stderr
    return record


@pytest.mark.proves("CaseEntry.expect", "CaseOverlay.expect")
def test_it_adds_to_the_metrics_of_a_case(project: Project) -> None:
    length = {"type": "length", "max_words": 9}
    project.suite(
        [
            {"name": "all", "input": "q", "ground_truth": "x", "expect": [{"contains": "x"}]},
            {"name": "own", "input": "q", "evaluations": [length], "expect": {"contains": "x", "ends_with": "x"}},
            {"name": "plain", "input": "q", "ground_truth": "x"},
        ]
    )
    project.policy(cases={"plain": {"expect": {"starts_with": "x"}}})
    record = run(project, all="x", own="x", plain="y")
    own = ["length", 'contains "x"', 'ends_with "x"']
    assert names(record) == ["equality", 'contains "x"', *own, "equality", 'starts_with "x"']
    assert [case.trials[0].turns[0].evaluations[-1].score for case in record.cases] == [1.0, 1.0, 0.0]


@pytest.mark.proves("TurnEntry.expect")
def test_turns_have_their_own_and_the_policy_checks_the_last_answer(project: Project) -> None:
    turns = [{"input": "q", "expect": [{"contains": "one"}]}, {"input": "r"}]
    project.suite([{"name": "talk", "turns": turns}], evaluations=None)
    project.policy(cases={"talk": {"expect": [{"contains": "two"}]}})
    project.answers([{"case": "talk", "turn": turn, "response": text} for turn, text in enumerate(("one", "two"))])
    ended, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert ended.code == 0, ended.stdout
    found = [
        [each.evaluator_name for each in turn.evaluations if each.criteria.kind == "contains"]
        for turn in record.cases[0].trials[0].turns
    ]
    assert found == [['contains "one"'], ['contains "two"']]


def test_the_line_of_a_check_is_where_it_is_written(project: Project) -> None:
    project.write(
        "agent.yaml",
        "name: shop\nmodel: {provider: openai, name: gpt-4o}\ninstructions: {inline: Answer.}\ntest_cases:\n"
        "  - name: a\n    input: q\n    expect:\n      contains: x\n      not_regex: y\n",
    )
    record = run(project, a="z")
    assert [str(each.criteria.source) for each in evaluations(record)] == ["agent.yaml:8:7", "agent.yaml:9:7"]


def test_values_are_text_however_they_look(project: Project) -> None:
    project.write(
        "agent.yaml",
        "name: shop\nmodel: {provider: openai, name: gpt-4o}\ninstructions: {inline: Answer.}\ntest_cases:\n"
        "  - {name: a, input: q, expect: [{contains: 1.10}, {contains_any: [yes, 007]}, {regex: 42}]}\n",
    )
    record = run(project, a="1.10 yes 42")
    assert [each.score for each in evaluations(record)] == [1.0, 1.0, 1.0]


def test_columns_of_a_table(project: Project) -> None:
    project.suite([], test_cases=None, test_cases_file="cases.csv", evaluations=None)
    project.write(
        "cases.csv",
        "name,input,expect.contains,expect.not_regex,expect.contains_any\n"
        'a,q,42,[s]orry,"[""x"", ""42""]"\n'
        "b,q,,sorry,\n",
    )
    record = run(project, a="42", b="sorry")
    assert names(record) == ['contains "42"', "not_regex /[s]orry/", 'contains_any "x", "42"', "not_regex /sorry/"]
    assert [case.trials[0].turns[0].evaluations[0].score for case in record.cases] == [1.0, 0.0]
    assert str(evaluations(record)[0].criteria.source) == "cases.csv:2:5"


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ({"contain": "x"}, f'"contain" is not a check, did you mean "contains"? {OPTIONS}'),
        ({"icontains": "x"}, f'"icontains" is not a check: write `contains` with `case_insensitive: true` {OPTIONS}'),
        ({"is-json": None}, f'"is-json" is not a check: write `json` {OPTIONS}'),
        ({"llm-rubric": "x"}, '"llm-rubric" is not a check: write `{type: geval, criteria: …}` among the metrics'),
        ({"exact_match": "x"}, '"exact_match" is not a check: write `{type: standard, metric: equality}`'),
        ({"length": 3}, '"length" cannot be in expect: write it as an entry of evaluations'),
        (
            {"equality": 3},
            '"equality" cannot be in expect: write `{type: standard, metric: equality}` in evaluations',
        ),
        ("x", "must be a mapping whose first key is the type of the check, such as `contains: Thursday`"),
        ({}, "must be a mapping whose first key is the type of the check, such as `contains: Thursday`"),
        ({"contains": ""}, "contains: must not be blank"),
        ({"contains": ["x"]}, "contains: must be text"),
        ({"contains_any": "x"}, "contains_any: must be a list"),
        ({"contains_any": []}, "contains_any: must have at least one entry"),
        ({"regex": "("}, "regex: the pattern does not compile: missing ) at position 1"),
        ({"contains": "x", "case": True}, "case: unknown key (allowed: case_insensitive, enabled, "),
        ({"contains_all": ["x"], "threshold": 2}, "threshold: 2 is out of range (allowed: 0 to 1)"),
    ],
)
def test_what_is_not_a_check_is_refused_at_its_line(project: Project, check: Any, problem: str) -> None:
    project.suite([{"name": "a", "input": "q", "expect": [check]}])
    ended = project.run("validate")
    assert ended.code == 2
    assert "test_cases[0].expect[0]" in ended.stderr
    assert problem in ended.stderr


def test_a_case_with_turns_has_none_of_its_own(project: Project) -> None:
    project.suite([{"name": "a", "turns": [{"input": "q"}], "expect": [{"contains": "x"}]}])
    ended = project.run("validate")
    assert ended.code == 2
    assert "a case with turns cannot also have expect" in ended.stderr


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ({"type": "standard", "metric": "regex"}, "metric: regex is a type: write `type: regex`"),
        (
            {"type": "icontains", "value": "x"},
            "icontains is not a type: write `contains` with `case_insensitive: true`",
        ),
        ({"type": "is-json"}, "is-json is not a type: write `json`"),
        ({"type": "contain", "value": "x"}, '"contain" is not allowed, did you mean "contains"?'),
    ],
)
def test_foreign_names_of_metrics_get_the_name_to_write(project: Project, metric: Any, problem: str) -> None:
    project.suite([{"name": "a", "input": "q"}], [metric])
    ended = project.run("validate")
    assert ended.code == 2
    assert problem in ended.stderr


def test_checks_that_only_forbid_are_noticed(project: Project) -> None:
    forbids = [{"not_contains": "x"}, {"not_regex": "y"}]
    cases = [("a", forbids), ("b", [*forbids, {"regex": "z"}])]
    project.suite([{"name": name, "input": "q", "expect": checks} for name, checks in cases], evaluations=None)
    ended = project.run("validate")
    assert ended.code == 0
    assert 'the checks of case "a" say only what an answer must not be' in ended.stderr
    assert 'case "b"' not in ended.stderr


def test_a_changed_check_is_told_as_such(project: Project) -> None:
    for value, out in (("Thursday", "base"), ("Friday", "head")):
        project.suite([{"name": "a", "input": "q", "expect": [{"contains": value}]}], evaluations=None)
        project.answers([{"case": "a", "response": "Thursday and Friday"}])
        assert project.run("run", "--target", "recorded:answers.jsonl", "-o", out).code == 0
    ended = project.run("compare", "base/results.json", "head/results.json", "--format", "json")
    metrics = {each["name"]: each["incomparable"] for each in json.loads(ended.stdout)["comparison"]["metrics"]}
    assert metrics == {
        'contains "Friday"': 'the check changed, and was contains "Thursday" on the base',
        'contains "Thursday"': 'the check changed, and is contains "Friday" now',
    }
