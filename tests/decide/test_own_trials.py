"""A case whose number of trials differs on the two sides: each side is judged by all of its own trials."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.record.record import BaseRun, CaseRecord, RecordedBaseline, TrialRecord
from holodeck_action.suite.model.policy import Baseline
from tests.commands.project import Finished, Project
from tests.commands.test_partial_comparison import store
from tests.record.records import case, record


def of_trials(trials: str, again: str = "") -> CaseRecord:
    """A case that needs all of its trials; `again` are those that confirm a regression."""
    made = case(trials, repeat=len(trials), min_pass=len(trials))
    more = case(trials + again).trials[len(trials) :]
    return replace(made, confirmation=tuple(TrialRecord(each.index, each.turns) for each in more))


def compared(folder: Path, base: CaseRecord, head: CaseRecord, *options: str) -> tuple[Finished, dict[str, Any]]:
    """The first of 5 cases as given, and all others passing, under `min_pass_rate: 0.8`."""
    others = [case("P") for _ in range(4)]
    kept = RecordedBaseline(Baseline(), BaseRun("file:older"))
    project: Project = store(
        folder,
        base=record(base, *others, baseline=kept, stop_when_decided=False),
        head=record(head, *others, stop_when_decided=False),
    )
    project.write("terms.yaml", json.dumps({"gates": {"min_pass_rate": 0.8}}))
    arguments = ("compare", "base", "head", "--policy", "terms.yaml", *options)
    return project.run(*arguments), json.loads(project.run(*arguments, "--format", "json").stdout)


@pytest.mark.parametrize(("base", "base_again"), [("P", ""), ("PP", ""), ("PPPPP", ""), ("F", "PPPP")])
@pytest.mark.parametrize(
    ("head", "again", "failed"),
    [("FFFFF", "PPPP", (5, 9)), ("FFF", "FPPP", (4, 7)), ("PFFFF", "FFFF", (8, 9)), ("F", "FFFF", (5, 5))],
)
def test_most_of_all_trials_of_each_side_decide(
    tmp_path: Path, base: str, base_again: str, head: str, again: str, failed: tuple[int, int]
) -> None:
    finished, found = compared(tmp_path, of_trials(base, base_again), of_trials(head, again))
    assert finished.code == 1, finished.stdout
    (changed,) = found["comparison"]["regressed"]
    passed = (base + base_again).count("P")
    assert changed["counts"] == {
        "failed": failed[0],
        "trials": failed[1],
        "base_passed": passed,
        "base_trials": len(base + base_again),
    }
    assert f"failed in {failed[0]} of {failed[1]} trials" in finished.stdout


@pytest.mark.parametrize(
    ("base", "head", "code"), [("PPPPF", "FFFFF", 1), ("PPPPF", "PFFFF", 0), ("PPFFF", "FFFFF", 0)]
)
def test_a_case_that_failed_by_its_criteria_but_mostly_worked_and_never_works_now_is_regressed(
    tmp_path: Path, base: str, head: str, code: int
) -> None:
    finished, found = compared(tmp_path, of_trials(base), of_trials(head))
    assert (finished.code, len(found["comparison"]["regressed"])) == (code, code), finished.stdout


def test_what_the_base_confirmed_is_read_before_a_case_is_asked_again(tmp_path: Path) -> None:
    finished, found = compared(tmp_path, of_trials("F", "PPPP"), of_trials("F"))
    assert finished.code == 1, finished.stdout
    (changed,) = found["comparison"]["regressed"]
    assert (changed["before"], changed["after"]) == ("answer", "answer")
    assert compared(tmp_path / "same", of_trials("F", "FFFP"), of_trials("F"))[0].code == 0


@pytest.mark.parametrize("reaction", ["fail", "confirm"])
def test_a_gate_that_would_judge_one_of_five_trials_is_undetermined(tmp_path: Path, reaction: str) -> None:
    options = ("--on-case-regression", reaction)
    finished, found = compared(tmp_path / "few", of_trials("P"), of_trials("PPPFF"), *options)
    assert finished.code == 3, finished.stdout
    states = {gate["name"]: gate["state"] for gate in found["gates"]}
    assert states["max_regressions"] == states["baseline.on_regressed"] == "undetermined"
    assert "1 case failed only in trials that the base does not have: case-0" in finished.stdout
    # Most of them fail: certain without more trials.
    finished, found = compared(tmp_path / "most", of_trials("P"), of_trials("PFFFF"), *options)
    assert finished.code == 1, finished.stdout
    assert found["comparison"]["regressed"][0]["counts"]["failed"] == 4
    # All pass.
    assert compared(tmp_path / "all", of_trials("P"), of_trials("PPPPP"), *options)[0].code == 0


def test_the_counts_are_those_that_were_planned_then(tmp_path: Path) -> None:
    """Not those of the policy that judges now."""
    _, found = compared(tmp_path, of_trials("P"), of_trials("F", "FPPP"))
    (flaky,) = found["comparison"]["flaky"]
    assert flaky["counts"] == {"failed": 2, "trials": 5, "base_passed": 1, "base_trials": 1}


def test_as_on_base_is_said_only_of_equal_counts(tmp_path: Path) -> None:
    project = Project(tmp_path)
    gates = {"min_pass_rate": 0.8}
    bases = {base: run_trials(project, base, base, gates=gates) for base in ("P", "PPF")}
    for base, head in product(bases, ("P", "F", "PF")):
        printed = [bases[base], run_trials(project, head, "out", gates=gates, baseline={"source": f"file:{base}"})]
        passed = [line.split(" of 5 passed")[0][-1] for _, line in printed]
        if "as on " in printed[1][1]:
            assert passed[0] == passed[1], (base, head, printed)
        # A case that passed on the base, and fails now, is named by the comparison.
        if passed == ["5", "4"]:
            assert printed[1][0] != 0, (base, head, printed)


def run_trials(project: Project, letters: str, folder: str, **policy: Any) -> tuple[int, str]:
    """Run five cases, of which one has the given trials and the others pass; return the code and the last line."""
    names = [f"case {at}" for at in range(5)]
    project.suite([{"name": name, "input": "?", "ground_truth": "P"} for name in names])
    answers = [letters, *("P" * len(letters) for _ in names[1:])]
    project.answers(
        [
            {"case": name, "trial": at, "response": letter}
            for name, given in zip(names, answers, strict=True)
            for at, letter in enumerate(given)
        ]
    )
    trials = {"repeat": len(letters), "stop_when_decided": False}
    project.policy(target="recorded:answers.jsonl", trials=trials, **policy)
    finished = project.run("run", "-o", folder)
    return finished.code, finished.stdout.splitlines()[-1]


def test_a_raised_threshold_is_not_as_on_base(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.answers([{"case": "one", "response": "red cat"}, {"case": "two", "response": "red dog"}])
    lines = []
    for folder, threshold in (("base", 0.4), ("out", 0.6)):
        metric = {"type": "standard", "metric": "f1_score", "threshold": threshold}
        project.suite([{"name": name, "input": "?", "ground_truth": "red dog"} for name in ("one", "two")], [metric])
        more = {"baseline": {"source": "file:base"}} if folder == "out" else {}
        project.policy(target="recorded:answers.jsonl", gates={"min_pass_rate": 0.5}, **more)
        finished = project.run("run", "-o", folder)
        assert finished.code == 0, finished.stdout
        lines.append(finished.stdout.splitlines()[-1])
    assert "2 of 2 passed" in lines[0]
    assert "1 of 2 passed · no case got worse than base" in lines[1]
