"""`compare`, `run --baseline` and `decide` where something is not known: an unknown is never a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.record import CaseRecord, Record
from tests.commands.project import Finished, Project
from tests.record.records import FAILED_EVALUATION, case, case_of, evaluation, record, turn
from tests.tables import walk

BOTH = case_of(turn(evaluation(0.9), evaluation(0.9, evaluator_name="rouge")))
HALF = case_of(turn(evaluation(0.9), replace(FAILED_EVALUATION, evaluator_name="rouge")))


def store(folder: Path, **runs: Record) -> Project:
    """Write the results of runs into folders of their names."""
    for name, made in runs.items():
        (folder / name).mkdir(parents=True)
        write_results(folder / name, made, decide(made))
    return Project(folder)


def of_letters(letters: str, **changes: Any) -> Record:
    """One case with one trial for each letter; a blank is a case that was not run."""
    return record(*(case(letter.strip()) for letter in letters), **changes)


def gates(finished: Finished) -> dict[str, str]:
    return {gate["name"]: gate["state"] for gate in json.loads(finished.stdout)["gates"]}


def with_cases(made: Record, *cases: CaseRecord) -> Record:
    return replace(made, cases=cases, chosen=chosen_cases(each.id for each in cases))


ANY = ("--format", "json", "--on-inconclusive", "fail")


@pytest.mark.parametrize("head", ["P" + "E" * 11, "P" + " " * 11, "PPPPPPPPPPPE"])
def test_a_case_that_is_unknown_now_leaves_every_gate_on_changes_open(tmp_path: Path, head: str) -> None:
    project = store(tmp_path, base=of_letters("P" * 12), head=of_letters(head))
    finished = project.run("compare", "base", "head", *ANY)
    states = gates(finished)
    assert states.pop("max_regressions") == states.pop("baseline.on_regressed") == "undetermined"
    # Of too few cases it is certain that nothing is ruled out.
    assert states == {"baseline.on_inconclusive": "failed"}
    finished = project.run("compare", "base", "head")
    assert finished.code == 3
    assert finished.stdout.splitlines()[-1].startswith("INCOMPLETE: ")
    assert "may have got worse" in finished.stdout


def test_a_definite_loss_stays_one_whatever_is_missing(tmp_path: Path) -> None:
    project = store(tmp_path, base=of_letters("P" * 12), head=of_letters("F" + "E" * 11))
    finished = project.run("compare", "base", "head")
    assert finished.code == 1
    assert "1 case got worse than on the base (none allowed): case-0" in finished.stdout


@pytest.mark.parametrize(
    ("base", "head", "state"),
    [
        ("PPPF", "PPPE", "passed"),  # What failed cannot get worse.
        ("PPPP", "PPFE", "failed"),
        ("PPPPP", "PPFEP", "failed"),
    ],
)
def test_only_what_could_turn_a_gate_leaves_it_open(tmp_path: Path, base: str, head: str, state: str) -> None:
    project = store(tmp_path, base=of_letters(base), head=of_letters(head))
    assert gates(project.run("compare", "base", "head", *ANY))["max_regressions"] == state
    lenient = gates(project.run("compare", "base", "head", *ANY, "--max-regressions", "2"))
    assert lenient["max_regressions"] == "passed"
    if "F" in head:
        one = gates(project.run("compare", "base", "head", *ANY, "--max-regressions", "1"))
        assert one["max_regressions"] == "undetermined"


def test_a_metric_that_is_missing_on_one_case_leaves_the_gates_open(tmp_path: Path) -> None:
    cases = [BOTH] * 12
    project = store(tmp_path, base=record(*cases), head=record(*cases[:-1], HALF))
    found = gates(project.run("compare", "base", "head", "--format", "json"))
    assert found == {"max_regressions": "undetermined", "baseline.on_regressed": "undetermined"}


def test_what_asserts_nothing_or_is_in_quarantine_leaves_no_gate_on_cases_open(tmp_path: Path) -> None:
    silent = case_of(turn(evaluation(0.9), evaluation(0.9, evaluator_name="rouge", asserts=False)))
    lost = replace(FAILED_EVALUATION, evaluator_name="rouge", criteria=evaluation(None, asserts=False).criteria)
    half = case_of(turn(evaluation(0.9), lost))
    project = store(tmp_path, base=record(*[silent] * 12), head=record(*[silent] * 11, half))
    assert set(gates(project.run("compare", "base", "head", "--format", "json")).values()) == {"passed"}


def policy(project: Project, **baseline: Any) -> tuple[str, ...]:
    project.policy(baseline={"source": "artifact", **baseline})
    return ("--policy", "holodeck-action.yaml")


@pytest.mark.parametrize(("word", "state"), [("warn", "skipped"), ("fail", "undetermined")])
def test_a_gate_on_what_the_base_leaves_open_is_not_passed(tmp_path: Path, word: str, state: str) -> None:
    project = store(tmp_path, base=of_letters("PPPE"), head=of_letters("PPPF"))
    arguments = policy(project, on_missing=word)
    found = gates(project.run("compare", "base", "head", "--format", "json", *arguments))
    assert found == {"max_regressions": state, "baseline.on_regressed": state}


@walk(
    ("base", "head", "word", "allowed", "state"),
    [
        ("PPPE", "PPPE", "warn", 0, "skipped"),  # On both sides.
        ("PPPE", "PPPP", "warn", 0, "passed"),  # What passes now cannot have got worse.
        ("PPPE", "PPPF", "warn", 1, "passed"),
        ("PPPE", "PPPF", "fail", 1, "undetermined"),
        ("PPPE", "PPFF", "fail", 0, "failed"),
    ],
)
def test_the_gate_on_cases_counts_what_the_base_leaves_open(
    tmp_path: Path, base: str, head: str, word: str, allowed: int, state: str
) -> None:
    """As docs/statistics.md has it."""
    project = store(tmp_path, base=of_letters(base), head=of_letters(head))
    arguments = (*policy(project, on_missing=word), "--max-regressions", str(allowed))
    found = gates(project.run("compare", "base", "head", "--format", "json", *arguments))
    assert found["max_regressions"] == state
    if state == "passed":
        assert found["baseline.on_regressed"] == "skipped"


@pytest.mark.parametrize("on_missing", ["warn", "fail"])
def test_a_case_that_filters_left_out_of_the_base_is_unknown_and_not_added(tmp_path: Path, on_missing: str) -> None:
    made = of_letters("PPF")
    chosen = replace(made.provenance, filters={"limit": 2})
    base = replace(of_letters("PP"), provenance=chosen)
    project = store(tmp_path, base=base, head=made)
    project.write("terms.yaml", json.dumps({"baseline": {"on_missing": on_missing}}))
    finished = project.run("compare", "base", "head", "--policy", "terms.yaml", *ANY)
    assert "it is not in the base's selection (its filters: limit)" in finished.stdout
    assert '"added"' not in finished.stdout
    expected = {"warn": "skipped", "fail": "undetermined"}[on_missing]
    assert gates(finished)["max_regressions"] == expected
    # The same selection on both sides: the case is a new one.
    again = store(tmp_path / "again", base=base, head=replace(made, provenance=chosen))
    assert '"added"' in again.run("compare", "base", "head", *ANY).stdout


def test_a_base_of_another_target_is_told(tmp_path: Path) -> None:
    base, head = of_letters("PP"), of_letters("PP")
    other = replace(base.provenance, target="python:old:answer")
    project = store(tmp_path, base=replace(base, provenance=other), head=head)
    finished = project.run("compare", "base", "head")
    assert f"was evaluated through python:old:answer, this run through {head.provenance.target}" in finished.stdout
    assert (
        "was evaluated through"
        not in store(tmp_path / "same", base=base, head=head).run("compare", "base", "head").stdout
    )


@pytest.mark.parametrize("form", ["console", "markdown"])
def test_the_first_lines_say_how_much_was_compared(tmp_path: Path, form: str) -> None:
    project = store(tmp_path, base=of_letters("P" + "E" * 11), head=of_letters("P" + "F" * 11))
    finished = project.run("compare", "base", "head", "--format", form)
    base = "`base`" if form == "markdown" else "base"
    said = f"Compared 1 of 12 cases with {base}: 11 not fully evaluated on {base} (11 not compared fail now)"
    assert any(said in line for line in finished.stdout.splitlines()[:3])
    assert "No case changed" not in finished.stdout


def test_a_changed_and_a_renamed_case_that_fail_are_no_unchanged_cases(tmp_path: Path) -> None:
    base, head = of_letters("PPPP"), of_letters("PPFF")
    changed = replace(head.cases[2], content_hash="other")
    renamed = replace(head.cases[3], id="renamed", name="renamed")
    project = store(tmp_path, base=base, head=with_cases(head, *head.cases[:2], changed, renamed))
    finished = project.run("compare", "base", "head")
    first, second = finished.stdout.splitlines()[:2]
    assert first.endswith("Compared 2 of 4 cases with base: 1 changed, 1 added (2 not compared fail now); 1 removed")
    assert second.startswith("warning: Unlike the base, this run renames case-3 to renamed at ")
    assert "2 cases not compared fail, no compared case changed" in finished.stdout
