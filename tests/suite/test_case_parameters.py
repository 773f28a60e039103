"""One case over a table of values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.project import Project

CASE = {"name": "order", "input": "Where is ${{order}} in ${{ city }}?", "ground_truth": "${{order}}"}
ROWS: list[dict[str, Any]] = [{"order": "A-17", "city": "Leeds"}, {"order": 4, "city": "York"}]


@pytest.mark.proves("CaseOverlay: parameters")
def test_a_case_is_asked_once_for_each_row(project: Project) -> None:
    project.suite([{"name": "other", "input": "what is ${{x}}?", "ground_truth": "A-17"}, CASE])
    project.write("bot.py", "def answer(messages):\n    return 'A-17'\n")
    project.policy(target="python:bot:answer", cases={"order": {"parameters": ROWS, "tags": ["t"], "weight": 2}})
    finished, record = project.evaluate()
    assert finished.code == 1
    asked = [(case.name, turn.input, turn.ground_truth, case.weight) for case in record.cases for turn in case.turns]
    assert asked == [
        ("other", "what is ${{x}}?", "A-17", 1.0),
        ("order [A-17, Leeds]", "Where is A-17 in Leeds?", "A-17", 2.0),
        ("order [4, York]", "Where is 4 in York?", "4", 2.0),
    ]
    assert [case.id for case in record.cases] == ["other", "order-a-17-leeds", "order-4-york"]
    assert record.cases[1].source == record.cases[2].source
    project.policy(target="python:bot:answer", cases={"order": {"parameters": list(reversed(ROWS)), "tags": ["t"]}})
    _, again = project.evaluate("--tag", "t")
    assert [case.id for case in again.cases] == ["order-4-york", "order-a-17-leeds"]
    assert {case.content_hash for case in again.cases} == {case.content_hash for case in record.cases[1:]}


def test_a_name_may_have_placeholders_and_its_cases_can_be_quarantined(project: Project) -> None:
    project.suite([{**CASE, "name": "order ${{order}}"}])
    project.write("bot.py", "def answer(messages):\n    return 'A-17'\n")
    late = {"case": "order 4", "reason": "r", "owner": "o", "expires": "2999-01-31"}
    project.policy(target="python:bot:answer", cases={"order ${{order}}": {"parameters": ROWS}}, quarantine=[late])
    finished, record = project.evaluate()
    assert finished.code == 0
    assert [case.name for case in record.cases] == ["order A-17", "order 4"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"order": "A"}], '.parameters[0]: the row has no value for the placeholder "city"'),
        ([*ROWS, {**ROWS[0], "x": 1}], '.parameters[2]: the row has a value for an unused placeholder: "x"'),
        ([*ROWS, ROWS[0]], '.parameters[2]: two rows give the name "order [A-17, Leeds]": use different values'),
        ([], ".parameters: must have at least one entry"),
        ([{"order": ["A"], "city": "B"}], ".parameters[0].order"),
    ],
)
def test_rows_that_do_not_fit(project: Project, rows: list[object], sentence: str) -> None:
    project.suite([CASE])
    project.policy(cases={"order": {"parameters": rows}})
    finished = project.run("validate")
    assert finished.code == 2
    assert f"cases.order{sentence}" in finished.stderr
    assert finished.stderr.startswith("error: holodeck-action.yaml:")


def test_the_case_must_be_one_with_placeholders(project: Project) -> None:
    project.suite([{**CASE, "input": "Where?", "ground_truth": "a"}])
    project.policy(cases={"order": {"parameters": ROWS}})
    assert "the texts of the case have no placeholder, such as ${{order}}" in project.run("validate").stderr
    project.suite([CASE, CASE])
    assert '"order" is the name of 2 cases (required: the name of one case, which has' in project.run("validate").stderr
