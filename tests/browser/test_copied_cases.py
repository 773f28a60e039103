"""A judged conversation is copied as a case that a suite loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.record.result_files import read_record
from tests.browser.conftest import Reader
from tests.browser.shop import page_of
from tests.commands.project import Project
from tests.record.records import case_of, evaluation, record, turn

pytestmark = pytest.mark.browser

HOSTILE = 'a: "b"\n- ${HOME} $${X} # <b>\u202egnp\u202c\x1b[31m \\ \u00e4\U0001f600'
CLIPBOARD = ["clipboard-read", "clipboard-write"]


def test_a_conversation_becomes_a_case(reader: Reader, tmp_path: Path) -> None:
    first = turn(evaluation(0.9), input=HOSTILE, response="Good\nday\u202e! # ${HOME}", ground_truth=None)
    second = turn(evaluation(0.1), index=1, input="I want a kettle", response="No.", ground_truth="Which kettle?")
    made = record(case_of(first, second, name="- two: turns", multi_turn=True))
    page = reader.open(page_of(tmp_path, made), hash="#case=case-0", permissions=CLIPBOARD)
    page.click("text=Copy as a case")
    page.wait_for_selector("text=Case copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("# turn 1: decide: what is the right answer? It was: Good day ! # ${HOME}\n- name: ")
    assert not {"\u202e", "\x1b"} & {*copied}
    page.click("text=Copy for a coding agent")
    page.wait_for_selector("text=Task copied")
    task = page.evaluate("navigator.clipboard.readText()")
    assert task.startswith("A test case of this repository's AI agent fails.")
    assert not {"\u202e", "\x1b"} & {*task}
    assert "\nexpected: Which kettle?" in task
    project = Project(tmp_path / "suite")
    project.suite([], test_cases=None, test_cases_file="cases.yaml")
    project.policy(target="python:agent:answer")
    project.write("agent.py", "def answer(messages):\n    return 'Which kettle?'\n")
    project.write("cases.yaml", copied)
    # The browser has the event loop of this process.
    ran = project.run_process("run", "-o", "out")
    assert ran.code == 0, ran.stdout + ran.stderr
    [case] = read_record(project.out / "results.json").cases
    assert case.name == "- two: turns"
    assert [(each.input, each.ground_truth) for each in case.trials[0].turns] == [
        (HOSTILE, None),
        ("I want a kettle", "Which kettle?"),
    ]


def test_a_case_that_was_not_run_has_nothing_to_copy(reader: Reader, tmp_path: Path) -> None:
    skipped = turn(input="Hello?", response=None, skipped="the run was stopped")
    made = record(
        case_of(turn(evaluation(0.9), input="Hi", response="Ho"), name="ran"), case_of(skipped, name="not run")
    )
    place = page_of(tmp_path, made)
    page = reader.open(place, hash="#case=case-0")
    page.wait_for_selector("text=Copy as a case")
    page = reader.open(place, hash="#case=case-1")
    page.wait_for_selector(".turn, .none")
    assert page.locator("text=Copy as a case").count() == 0
