"""Scenarios of bench/verdicts/doors are well-formed, and their runner tells right verdicts from wrong ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from bench.verdicts.doors.outcomes import BLAME, Ended, judge, run_scenario
from bench.verdicts.doors.scenarios import Scenario, read_door, read_doors

SCENARIOS = {each.id: each for each in read_doors()}
ENDED = Ended(0, "PASSED", "", "", 0)
SUITE = {
    "name": "shop",
    "model": {"provider": "openai", "name": "gpt-4o-mini"},
    "instructions": {"inline": "Answer."},
    "test_cases": [{"name": "opening", "input": "When?", "expect": [{"contains": "nine"}]}],
}


def test_120_scenarios_of_which_no_id_occurs_twice() -> None:
    assert len(SCENARIOS) == len(read_doors()) == 120
    counts = Counter(each.right for each in SCENARIOS.values())
    assert 50 <= counts["green"] <= 70
    assert min(counts.values()) >= 15


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_is_well_formed(scenario: Scenario) -> None:
    for sentence in (scenario.does, scenario.why):
        assert sentence.endswith(".")
        assert ". " not in sentence
    # What must not pass has a sound variant that differs from it.
    control = scenario.control()
    assert (scenario.right == "green") == (control is None) or scenario.alone
    if control is not None:
        assert (control.files, control.serve, control.run) != (scenario.files, scenario.serve, scenario.run)
    assert scenario.at_fault is None or scenario.right == "error"


def written(folder: Path, **more: object) -> Scenario:
    """A scenario of a file: one right and one wrong model."""
    wrong = {"path": "/chat/completions", "step": 2, "replies": ["At ten."]}
    right = {"replies": ["At nine."]}
    scenario = {
        "id": "wrong-model",
        "does": "The model answers wrongly.",
        "right": "red",
        "why": "It must say nine.",
        "run": ["run -o base --no-html", "run -o out"],
        "files": {"agent.yaml": SUITE},
        "serve": [wrong, right],
        "sound": {"serve": [right]},
        **more,
    }
    (folder / "one.yaml").write_text(yaml.safe_dump({"door": "own model", "scenarios": [scenario]}))
    (found,) = read_door(folder / "one.yaml")
    return found


@pytest.mark.full
def test_a_scenario_runs_its_commands_and_its_sound_variant(tmp_path: Path) -> None:
    found = run_scenario(written(tmp_path))
    assert (found.verdict, found.detail) == ("right", "")
    assert (found.ended.code, found.control and found.control.code) == (1, 0)
    assert run_scenario(written(tmp_path, right="error")).verdict == "wrong red"
    assert run_scenario(written(tmp_path, says=["at eleven"])).detail == "does not say 'at eleven'"
    assert run_scenario(written(tmp_path, never_says=["AT TEN"])).detail == "says 'AT TEN'"
    assert run_scenario(written(tmp_path, serve=[{"path": "/none", "replies": ["x"]}])).verdict == "wrong set-up"


def test_the_sentence_that_blames_the_agent_is_that_of_the_program(tmp_path: Path) -> None:
    broken = {"answers.jsonl": [{"case": "opening", "error": "KeyError"}], "agent.yaml": SUITE}
    scenario = written(tmp_path, run="run --target recorded:answers.jsonl", files=broken, right="error", sound=None)
    assert run_scenario(scenario).detail == f"says {BLAME!r}"
    assert run_scenario(replace(scenario, at_fault="agent")).verdict == "right"


def test_an_end_is_judged_by_exit_code_words_and_control(tmp_path: Path) -> None:
    red = written(tmp_path)
    green, error = replace(red, right="green"), replace(red, right="error")
    failed, unknown = replace(ENDED, code=1), replace(ENDED, code=3)
    blames = replace(unknown, said=f"INCOMPLETE: {BLAME.capitalize()}")
    for scenario, ended, sound, verdict in (
        (green, ENDED, None, "right"),
        (green, unknown, None, "wrong red"),
        (red, failed, ENDED, "right"),
        (red, failed, failed, "wrong red"),
        (red, unknown, ENDED, "wrong error"),
        (red, ENDED, ENDED, "wrong green"),
        (error, unknown, ENDED, "right"),
        (error, ENDED, ENDED, "wrong green"),
        (error, failed, ENDED, "wrong red"),
        (error, blames, ENDED, "wrong words"),
        (replace(error, at_fault="agent"), blames, ENDED, "right"),
        (red, replace(failed, trouble="command 1 was refused"), ENDED, "wrong set-up"),
    ):
        assert judge(scenario, ended, sound)[0] == verdict
