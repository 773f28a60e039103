"""A run that no gate can turn red is refused, wherever its gates are from."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import pytest

from holodeck_action.suite.model.policy import Gate, GatedCases
from tests.commands.project import Project

NEVER = "no gate can fail: "
BLEU = {"type": "standard", "metric": "bleu"}
POLICY = {"target": "recorded:answers.jsonl"}


@pytest.fixture
def here(project: Project) -> Project:
    """Three cases, all of them answered wrongly."""
    project.numbered(3, frozenset(range(3)))
    return project


def refusal(project: Project, *arguments: str) -> str:
    finished = project.run(*arguments)
    assert (finished.code, finished.stdout) == (2, "")
    (sentence,) = finished.errors
    return sentence


@pytest.mark.parametrize(
    ("gates", "reason"),
    [
        ({"min_pass_rate": 0}, "min_pass_rate 0 is always reached"),
        ({"min_pass_rate": None}, "min_pass_rate is off"),
        ({"min_pass_rate": None, "min_completeness": None}, "min_pass_rate is off"),
        ({"min_pass_rate": 0, "min_pass_rate_lower_bound": 0}, "min_pass_rate_lower_bound 0 is always reached"),
        ({"min_pass_rate": 0, "max_errors": 3}, "max_errors 3 allows all of 3 case(s)"),
        ({"min_pass_rate": 0, "max_flaky": 0}, "max_flaky 0 allows all of 0 repeated case(s)"),
        (
            {"min_pass_rate": None, "metrics": {"equality": {"min_mean": 0, "min_p10": 1e-12}}},
            "metrics.equality.min_mean 0 is always reached; metrics.equality.min_p10 1e-12 is always reached",
        ),
        ({"min_pass_rate": 0, "summary": {"method": "minimum", "min": 0}}, "summary.min 0 is always reached"),
    ],
)
def test_gates_of_which_none_can_fail_are_refused_at_their_line(
    here: Project, gates: dict[str, Any], reason: str
) -> None:
    here.policy(**POLICY, gates=gates)
    for command in ("run", "validate"):
        found = refusal(here, command)
        assert found.startswith(f"holodeck-action.yaml:3:2: gates: {NEVER}")
        assert reason in found
        assert "set min_pass_rate above 0 or give another gate, such as gates.metrics" in found
    # The command line gives one that can.
    assert here.run("run", "--min-pass-rate", "0.5").code == 1


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ({"min_pass_rate": 1e-300}, 1),
        ({"min_pass_rate_lower_bound": 0.01}, 1),
        ({"max_errors": 2}, 0),
        ({"max_flaky": 2, "min_pass_rate": 0}, 0),
        ({"max_cost_usd": 0}, 2),
        ({"p95_latency_ms": 100_000}, 0),
        ({"metrics": {"equality": {"min_mean": 0.1}}}, 1),
        ({"summary": {"method": "minimum", "min": 0.1}}, 1),
    ],
)
def test_another_gate_that_can_fail_is_enough(here: Project, gates: dict[str, Any], expected: int) -> None:
    here.policy(**POLICY, trials={"repeat": 2}, gates={"min_pass_rate": None, **gates})
    here.answers(
        [
            {"case": f"case {n}", "trial": trial, "response": "wrong", "duration_ms": 1}
            for n in range(3)
            for trial in range(2)
        ]
    )
    if expected == 2:
        assert "gates.max_cost_usd cannot be judged" in refusal(here, "run")
    else:
        assert here.run("run").code == expected


def test_flags_by_which_no_gate_can_fail_are_refused(here: Project) -> None:
    assert refusal(here, "run", "--min-pass-rate", "0").startswith(f"agent.yaml: --min-pass-rate 0: {NEVER}")
    assert refusal(here, "run", "--min-pass-rate", "0", "--max-errors", "1", "--limit", "1").startswith(
        f"agent.yaml: --min-pass-rate 0 --max-errors 1: {NEVER}"
    )
    assert here.run("run", "-o", "out").code == 1
    for given in (["--min-pass-rate", "0"], ["--min-pass-rate", "0", "--max-errors", "3"]):
        assert refusal(here, "decide", "out/results.json", *given).startswith(f"out/results.json: {NEVER}")
        assert refusal(here, "rejudge", "out/results.json", *given).startswith("agent.yaml: --min-pass-rate 0")
    assert here.run("decide", "out/results.json", "--min-pass-rate", "0", "--max-errors", "0").code == 0
    here.write("lenient.yaml", json.dumps({"gates": {"min_pass_rate": None}}))
    assert refusal(here, "decide", "out/results.json", "--policy", "lenient.yaml").startswith(
        f"out/results.json: {NEVER}"
    )


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ({"metrics": {"bleu": {"min_mean": 0.5}}}, 0),
        ({"metrics": {"bleu": {"min_mean": 0.99}}}, 1),
        ({"summary": {"method": "minimum", "min": 0.5}}, 0),
        ({"metrics": {"bleu": {"min_mean": 0}}}, 2),
        ({"max_errors": 0}, 2),
        ({}, 2),
    ],
)
def test_a_suite_may_have_a_bound_on_scores_as_its_only_check(
    here: Project, gates: dict[str, Any], expected: int
) -> None:
    text = "the cat sat on the mat today"
    here.suite([{"name": name, "input": "?", "ground_truth": text} for name in "ab"], [BLEU])
    here.answers([{"case": "a", "response": text}, {"case": "b", "response": "the cat sat on the mat"}])
    here.policy(**POLICY, gates=gates)
    if expected == 2:
        assert "nothing in this suite can fail" in refusal(here, "run")
        return
    assert here.run("run", "-o", "out").code == expected
    assert here.run("decide", "out/results.json").code == expected
    alone = here.run("run", "--case", "a")
    assert alone.code == 0
    assert "min_pass_rate" not in alone.stdout


def test_where_nothing_asserts_what_is_missing_leaves_the_run_incomplete(here: Project) -> None:
    here.suite([{"name": name, "input": "?", "ground_truth": "x"} for name in "ab"], [BLEU])
    here.answers([{"case": "a", "response": "x"}])
    here.policy(**POLICY, gates={"metrics": {"bleu": {"min_mean": 0.5}}})
    assert here.run("run").code == 3


@pytest.mark.parametrize("weight", [0, 0.0009, 1000.1, 1e20, 1e308])
def test_weights_beside_which_a_failure_would_be_lost_are_refused(here: Project, weight: float) -> None:
    here.policy(**POLICY, cases={"case 0": {"weight": weight}})
    place = r'holodeck-action\.yaml:\d+:\d+: cases\["case 0"\]\.weight: .* \(allowed: 0\.001 to 1000\)'
    assert re.fullmatch(place, refusal(here, "run"))
    summary = {"method": "weighted_average", "weights": {"equality": weight}, "min": 0.5}
    here.policy(**POLICY, gates={"summary": summary})
    assert refusal(here, "run").endswith(" is out of range (allowed: 0.001 to 1000)")


@pytest.mark.parametrize(
    ("stricter", "limit", "can_fail"), [("higher", 0.0, False), ("higher", 0.1, True), ("lower", 1.0, False)]
)
def test_a_gate_on_a_share_cannot_fail_at_its_laxest_limit(
    stricter: Literal["higher", "lower"], limit: float, can_fail: bool
) -> None:
    cases = GatedCases(3, 3, 0, compared=False)
    assert Gate(stricter, "answers").can_fail(limit, cases) is can_fail
    assert Gate("lower", "answers").can_fail(0.9, cases)
