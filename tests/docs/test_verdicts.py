"""Scenarios of bench/verdicts are well-formed, our own program is right on some, and the page has the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.pages import current_table
from bench.processes import PROGRAM
from bench.verdicts.jobs import call_process, run_job
from bench.verdicts.programs import ours
from bench.verdicts.results import Outcome, read_results
from bench.verdicts.scenarios import JUDGE, Scenario, read_scenarios
from bench.verdicts.tables import COMMAND, NAMES, PAGE, page_tables, read_notes
from tests.commands.project import run_here
from tests.tables import walk

SCENARIOS = {each.id: each for each in read_scenarios()}


def call_here(command: tuple[str, ...], folder: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """Run our own program in this process, and others as processes."""
    if command[: len(PROGRAM)] != PROGRAM:
        return call_process(command, folder, environ)
    finished = run_here(folder, command[len(PROGRAM) :], environ)
    return finished.code, finished.stdout + finished.stderr


def test_five_scenarios_in_each_of_twelve_classes_and_six_more_of_exams() -> None:
    counts = Counter(each.kind for each in SCENARIOS.values())
    assert len(counts) == 12
    assert counts.pop("changed exams") == 11
    assert set(counts.values()) == {5}


def test_a_fifth_favours_another_program_by_a_named_feature() -> None:
    favoured = [each for each in SCENARIOS.values() if each.favours]
    assert Counter(each.favours for each in favoured) == {"promptfoo": 4, "deepeval": 4, "inspect": 4}
    assert all(each.feature for each in favoured)


@walk("scenario", SCENARIOS.values())
def test_a_scenario_is_well_formed(scenario: Scenario) -> None:
    for sentence in (scenario.does, scenario.why):
        assert sentence.endswith(".")
        assert ". " not in sentence
    names = {case.name for case in scenario.cases}
    assert names
    assert all(check.kind for case in scenario.cases for check in case.checks)
    for fault in (*scenario.fault, *(scenario.base.fault if scenario.base else ())):
        assert fault.removeprefix(f"{JUDGE}/").partition("#")[0] in names | {JUDGE, scenario.change.add}
    # What must not pass differs from its control.
    assert scenario.right == "green" or scenario.control() != scenario


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "one-in-ten",
        "empty-answer",
        "null-answer",
        "exit-zero",
        "three-of-five",
        "busy-once",
        "base-of-another-suite",
        "half-a-base",
        "impossible-score",
        "deleted-case",
        "no-checks",
        "edited-helper",
        "edited-recordings",
        "written-answers",
        "accepted-grader",
    ],
)
def test_our_own_program_is_right(name: str) -> None:
    scenario = SCENARIOS[name]
    code, said = run_job(scenario, ours.run, "score", call=call_here)
    control = None if scenario.right == "green" else run_job(scenario.control(), ours.run, "score", call=call_here)[0]
    assert Outcome("ours", name, code, control).verdict(scenario.right) == "right", said


def test_the_page_has_the_results_of_all_programs() -> None:
    outcomes = read_results()
    assert {(each.program, each.scenario) for each in outcomes} == {
        (name, each) for name in NAMES for each in SCENARIOS
    }
    for name, text in page_tables(outcomes).items():
        assert current_table(PAGE, name, COMMAND) == text


def test_each_note_is_about_a_wrong_verdict() -> None:
    wrong = {
        (each.program, each.scenario)
        for each in read_results()
        if each.verdict(SCENARIOS[each.scenario].right).startswith("wrong")
    }
    assert {(program, name) for program, notes in read_notes().items() for name in notes} == wrong


def test_an_outcome_is_judged_by_its_exit_code_and_its_control() -> None:
    assert Outcome("ours", "x", 0).verdict("green") == "right"
    assert Outcome("ours", "x", 3).verdict("green") == "wrong red"
    assert Outcome("ours", "x", 1, 0).verdict("red") == "right"
    assert Outcome("ours", "x", 3, 0).verdict("red") == "right"
    assert Outcome("ours", "x", 0, 0).verdict("error") == "wrong green"
    assert Outcome("ours", "x", 1, 2).verdict("error") == "wrong red"
    assert Outcome("ours", "x", missing="no bases").verdict("error") == "n/a"
