"""Every setting of the policy file that this version honours changes the end of a run, and so does its flag."""

from __future__ import annotations

from functools import partial

import pytest

from tests.commands.project import Project
from tests.fields.bounds import BOUNDS, unhurried
from tests.fields.runs import CHANGES, Ran, lettered, quarantine, run_all

Runs = dict[str, Ran]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    suites = {}
    for key, change in CHANGES.items():
        suites[f"{key} without"] = partial(lettered, letters=change.letters, policy=change.without)
        suites[f"{key} given"] = partial(lettered, letters=change.letters, policy=change.given)
    suites["quarantined"] = partial(lettered, letters="P F", policy=quarantine("2999-01-31"))
    for stop in (True, False):
        trials = {"trials": {"repeat": 3, "min_pass": 1, "stop_when_decided": stop}}
        suites[f"stop_when_decided {stop}"] = partial(lettered, letters="PPP", policy=trials)
    return run_all(tmp_path_factory.mktemp("changes"), suites)


@pytest.mark.proves(*CHANGES, "Policy: trials gates quarantine")
@pytest.mark.parametrize("key", CHANGES)
def test_a_setting_changes_the_exit_code(changed: Runs, key: str) -> None:
    assert (changed[f"{key} without"].code, changed[f"{key} given"].code) == CHANGES[key].codes


@pytest.mark.proves(*(f"run: {change.flags[0]}" for change in CHANGES.values() if change.flags))
@pytest.mark.parametrize("key", [key for key, change in CHANGES.items() if change.flags])
def test_a_flag_wins_over_the_policy_file(project: Project, key: str) -> None:
    change = CHANGES[key]
    lettered(project, change.letters, change.without)
    assert project.run("run", *change.flags).code == change.codes[1]


@pytest.mark.proves("gate: --min-pass-rate --min-pass-rate-lower-bound --min-completeness --max-errors --max-flaky")
@pytest.mark.parametrize("key", [key for key, change in CHANGES.items() if change.flags and key.startswith("Gates")])
def test_a_gate_of_decide_wins_over_that_of_the_run(project: Project, changed: Runs, key: str) -> None:
    results = str(changed[f"{key} without"].out / "results.json")
    assert project.run("decide", results, *CHANGES[key].flags).code == CHANGES[key].codes[1]


@pytest.mark.proves("Policy: trials", "Trials: stop_when_decided")
def test_trials_stop_when_the_case_is_decided_unless_all_are_wanted(changed: Runs) -> None:
    found = [len(changed[f"stop_when_decided {stop}"].record().cases[0].trials) for stop in (True, False)]
    assert found == [1, 3]


@pytest.mark.proves("QuarantineEntry: reason owner")
def test_a_quarantined_case_says_why_and_whose_it_is(changed: Runs) -> None:
    ran = changed["quarantined"]
    assert "quarantined until 2999-01-31: upstream search" in ran.verdict()["cases"][1]["reason"]
    assert [entry.owner for entry in ran.record().quarantine] == ["@team-search"]


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    suites = {key: partial(unhurried, seconds=bound.seconds, policy=bound.policy) for key, bound in BOUNDS.items()}
    return run_all(tmp_path_factory.mktemp("bounds"), suites)


@pytest.mark.full
@pytest.mark.proves(*BOUNDS, "Policy: budget limits")
@pytest.mark.parametrize("key", BOUNDS)
def test_a_bound_ends_what_takes_too_much(bounded: Runs, key: str) -> None:
    assert bounded[key].code == BOUNDS[key].code
    assert BOUNDS[key].says in bounded[key].stdout


@pytest.mark.proves(*(f"run: {bound.flag[0]}" for bound in BOUNDS.values() if bound.flag))
@pytest.mark.parametrize("key", [key for key, bound in BOUNDS.items() if bound.flag])
def test_a_bound_by_flag_wins_over_the_policy_file(project: Project, key: str) -> None:
    bound = BOUNDS[key]
    unhurried(project, bound.seconds, bound.wider)
    finished = project.run("run", *bound.flag)
    assert finished.code == bound.code
    assert bound.says in finished.stdout
