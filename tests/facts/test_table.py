"""The table of unknown facts in docs/results.md says what the program does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.suite.policy import Gates
from tests.cli.project import Project
from tests.facts.declared import GRADERS, METRICS, facts, without

PAGE = Path(__file__).parent.parent.parent / "docs" / "results.md"
REPLY: dict[str, Any] = {
    "response": "yes",
    "tool_invocations": [{"name": "find", "args": {}, "result": "ok"}],
    "retrieved_chunks": [{"id": "a", "text": "text a"}],
    "retrieval_context": ["text a"],
    "usage": [{"model": "m", "prompt_tokens": 1, "completion_tokens": 1, "cost_usd": 0.1}],
    "cost_usd": 0.1,
    "duration_ms": 5,
    "first_token_ms": 3,
}
LIMITS = {
    "min_pass_rate": 0.1,
    "max_cost_usd": 100,
    "max_total_tokens": 1000,
    "p95_latency_ms": 100,
    "p95_first_token_ms": 100,
}


def rows() -> dict[str, tuple[str, str]]:
    """The cells on gates and metrics, by the cell on the fact."""
    section = PAGE.read_text(encoding="utf-8").partition("### Unknown facts")[2].partition("\n### ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    return {fact: (gates, metrics) for fact, gates, metrics in cells if fact != "---"}


def told(cell: str, names: Any) -> set[str]:
    return set(re.findall(r"`([\w.]+)`", cell)) & set(names)


def of_replies() -> dict[str, str]:
    """The cell of each fact that a reply tells, by its key."""
    keys = {key for key, *_ in facts()}
    return {key: cell for cell in rows() for key in told(cell, keys)}


def test_every_fact_of_a_reply_has_a_row() -> None:
    assert of_replies().keys() == {key for key, *_ in facts()}


def test_every_gate_of_the_policy_file_is_explained() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("### Gates")[2].partition("### Unknown facts")[0]
    explained = {name.partition(".")[0] for name in re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE)}
    assert explained == Gates.model_fields.keys() | {"baseline"}


def states(project: Project, spoilt: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The states of gates and the outcomes of cases, where the answers of each second case are spoilt."""
    listed: list[dict[str, Any]] = [
        {"name": f"{name} {at}", "input": "?", "ground_truth": "yes", "evaluations": [metric]}
        for name, metric in METRICS.items()
        for at in (0, 1)
    ]
    listed += [
        {"name": f"tools {at}", "input": "?", "ground_truth": "yes", "expected_tools": ["find"]} for at in (0, 1)
    ]
    project.suite(listed)
    project.write("graders.py", GRADERS)
    names = [case["name"] for case in listed]
    project.answers([{"case": name, **(spoilt if name.endswith("1") else REPLY)} for name in names])
    added = {"expected_trajectory": [{"name": "find"}], "retrieval": {"ground_truth_chunk_ids": ["a"]}}
    cases = {name: added for name in names if not name.startswith("tools")}
    project.policy(target="recorded:answers.jsonl", gates={**LIMITS, "min_completeness": 0.05}, cases=cases)
    finished = project.run("run", "-o", "out")
    assert finished.code != 2, finished.stderr
    verdict = project.verdict()
    found = {case["id"]: case["outcome"] for case in verdict["cases"]}
    return {gate["name"]: gate["state"] for gate in verdict["gates"]}, found


@pytest.mark.parametrize("key", sorted(of_replies()))
def test_what_the_table_says_of_a_fact_happens(project: Project, key: str) -> None:
    whole, cases = states(project, REPLY)
    assert set(whole.values()) == {"passed"}
    assert set(cases.values()) <= {"passed", "failed"}
    keys = {"usage", "cost_usd"} if key in ("usage", "cost_usd") else {key}
    if key in ("retrieved_chunks", "retrieval_context"):
        keys = {"retrieved_chunks", "retrieval_context"}
    spoilt = REPLY
    for each in keys:
        spoilt = without(spoilt, (each,))
    gates, after = states(project, spoilt)
    on_gates, on_metrics = rows()[of_replies()[key]]
    for name in told(on_gates, LIMITS):
        assert gates[name] == "undetermined", name
    lost = {name for name, outcome in after.items() if outcome == "error"}
    if "none reads it" in on_metrics:
        assert lost == set()
        assert told(on_gates, LIMITS)
    else:
        assert lost
        assert all(name.endswith("1") for name in lost)
