"""The tables of unknown facts in docs/verdict.md: a row for each gate and metric, and what the program does."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.decide.compare.regressions import MAX_REGRESSIONS, ON_INCONCLUSIVE, ON_REGRESSED
from holodeck_action.decide.loosened_gate import ON_LOOSENED
from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.policy import Gates
from holodeck_action.targets.reply import REPLY_KEYS
from tests.commands.project import Project
from tests.facts.declared import NO_FACTS
from tests.tables import walk

PAGE = Path(__file__).parents[2] / "docs" / "verdict.md"
SMALLEST: dict[str, dict[str, Any]] = {
    "standard": {"metric": "equality"},
    "geval": {"name": "g", "criteria": "c", "evaluation_params": ["actual_output", "retrieval_context"]},
    "rag": {"metric_type": "faithfulness"},
    "deepeval": {"metric": "FaithfulnessMetric"},
    "azure": {"metric": "TaskAdherenceEvaluator"},
    "code": {"grader": "graders:reads"},
    "retrieval": {"metric": "recall_at_k", "k": 3},
    "length": {"max_words": 5},
    "composite": {"metrics": [{"type": "length", "max_words": 5}]},
    **{kind: {"value": "x"} for kind in ("contains", "not_contains", "starts_with", "ends_with")},
    **{kind: {"values": ["x"]} for kind in ("contains_any", "contains_all")},
    **{kind: {"pattern": "x"} for kind in ("regex", "not_regex")},
    "similar": {"embedding_model": "e", "threshold": 0.8},
    "file": {"file": {"path": "x"}},
    "data": {"data": {"path": "x.json"}},
    "changed": {"changed": {"max_files": 1}},
    "command": {"command": {"run": "true"}},
    "called": {"called": {"tool": "x"}},
    "skill": {"skill": {"used": "x"}},
    "workspace_text": {"workspace_text": "{{diff}}", "metrics": [{"type": "length", "max_words": 5}]},
}
"""Settings without which there is no such metric, those that read a fact among them."""
CALL = {"name": "find", "args": {}, "result": "ok"}
FULL: dict[str, Any] = {
    "response": "yes",
    "tool_invocations": [CALL],
    "retrieved_chunks": [{"id": "a", "text": "text a"}],
    "retrieval_context": ["text a"],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    "cost_usd": 0.01,
    "duration_ms": 5,
    "first_token_ms": 2,
}
CHECKS: dict[str, dict[str, Any]] = {
    "correct": {"type": "tool_correctness", "threshold": 0.5},
    "order": {"type": "trajectory", "threshold": 0.5, "mode": "lcs_f1"},
    "found": {"type": "retrieval", "metric": "recall_at_k", "k": 3, "threshold": 0.5},
    "both": {
        "type": "composite",
        "metrics": [
            {"type": "tool_correctness", "threshold": 0.5},
            {"type": "retrieval", "metric": "recall_at_k", "k": 3},
        ],
    },
}
SUITE_READS = {
    "tool_invocations": {"tool_correctness", "trajectory", "composite"},
    "retrieved_chunks": {"retrieval", "composite"},
}
"""The types of these metrics that read a fact."""
GRADES_LESS_WITHOUT_TEXTS = {"generation", "agent"}
CASES_ASKED = 12


def table(before: str) -> Iterator[tuple[frozenset[str], ...]]:
    """Yield the rows of the table with this first heading: of each cell what stands in backticks."""
    lines = PAGE.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {before} | unknown"))
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return
        yield tuple(frozenset(re.findall(r"`([^`]+)`", cell)) for cell in line.strip("|").split("|"))


def rows(before: str) -> list[tuple[frozenset[str], ...]]:
    return list(table(before))


def readers(before: str) -> dict[str, frozenset[str]]:
    """Return what the rows of each fact name besides facts."""
    found: dict[str, frozenset[str]] = {}
    for first, *_ in rows(before):
        for fact in first & {*REPLY_KEYS}:
            found[fact] = found.get(fact, frozenset()) | (first - {*REPLY_KEYS})
    return found


METRIC_FACTS, GATES_OF = readers("fact, and what reads it"), readers("gate, and the facts it reads")


def test_every_fact_gate_and_metric_has_its_row() -> None:
    assert METRIC_FACTS.keys() | GATES_OF.keys() == {*REPLY_KEYS} - NO_FACTS
    gates = {gate for cells in rows("gate, and the facts it reads") for gate in cells[0]} - {*REPLY_KEYS}
    declared = {"metrics.NAME" if name == "metrics" else name for name in Gates.model_fields}
    assert gates == declared | {MAX_REGRESSIONS, ON_REGRESSED, ON_INCONCLUSIVE, ON_LOOSENED}


def test_every_gate_is_in_the_table_of_gates() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Gates")[2].partition("## Unknown facts")[0]
    named = {name.partition(".")[0] for name in re.findall(r"^\| `([\w.]+)`", table, re.MULTILINE)}
    assert named == Gates.model_fields.keys() | {"baseline"}


@walk(("kind", "metric"), built_in().classes.items())
def test_a_metric_is_in_the_rows_of_the_facts_that_it_needs(kind: str, metric: type[Metric]) -> None:
    made = built_in().read("suite", {"type": kind, **SMALLEST.get(kind, {})})
    needs = made.needs & METRIC_FACTS.keys()
    if metric.OF_TOOL_CALLS or "expected_tools" in made.needs:
        needs |= {"tool_invocations"}
    if kind in ("deepeval", "azure"):
        # Some of the other classes read the calls.
        needs |= {"tool_invocations"}
    if kind == "retrieval":
        needs |= {"retrieved_chunks"}
    listed = {fact for fact, metrics in METRIC_FACTS.items() if kind in metrics}
    if kind in GRADES_LESS_WITHOUT_TEXTS:
        needs |= {"retrieval_context"}
    if metric.HAS_MEMBERS:
        needs |= METRIC_FACTS.keys()
    elif metric.TAKES_CASE:
        needs |= {"tool_invocations"}
    assert listed == needs


def variant(project: Project, name: str, changed: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Answer the last case otherwise; return the gates with their state, and that case."""
    answers = [FULL] * (CASES_ASKED - 1) + [changed]
    project.answers([{"case": f"case {at}", **each} for at, each in enumerate(answers)])
    done = project.run("run", "-o", name)
    assert done.code in (0, 1, 3), done.stderr
    verdict = json.loads((project.folder / name / "verdict.json").read_bytes())
    return {gate["name"]: gate["state"] for gate in verdict["gates"]}, verdict["cases"][-1]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A suite in which everything is known, and which passes every gate; its results are its base."""
    project = Project(tmp_path_factory.mktemp("facts"))
    names = [f"case {at}" for at in range(CASES_ASKED)]
    checks = [{"name": name, **check} for name, check in CHECKS.items()]
    project.suite([{"name": name, "input": "?", "expected_tools": ["find"], "evaluations": checks} for name in names])
    gates: dict[str, Any] = {
        "min_pass_rate": 1.0,
        "min_pass_rate_lower_bound": 0.72,
        "max_errors": 3,
        "max_flaky": 0,
        "max_regressions": 0,
        "max_cost_usd": 1,
        "max_total_tokens": 1000,
        "p95_latency_ms": 100,
        "p95_first_token_ms": 100,
        "metrics": {name: {"min_mean": 1.0} for name in ("correct", "order", "found", "both")},
        "summary": {"method": "simple_average", "min": 1.0},
    }
    extra = {
        name: {
            "expected_trajectory": [{"name": "find"}],
            "retrieval": {"ground_truth_chunk_ids": ["a"]},
        }
        for name in names
    }
    reactions = {"on_inconclusive": "fail", "on_loosened": "fail", "margin": 0.5}
    states: dict[str, str] = {}
    # The base has the same terms, thus a base itself.
    plain: dict[str, Any] = {}
    compared = {"baseline": {"source": "file:base.json", **reactions}}
    for more in (plain, compared, compared):
        limits = gates if more else {**gates, "max_regressions": None}
        project.policy(target="recorded:answers.jsonl", gates=limits, cases=extra, **more)
        states, _ = variant(project, "all", FULL)
        shutil.copy(project.folder / "all" / "results.json", project.folder / "base.json")
    assert set(states.values()) == {"passed"}, states
    return project


def _gate(name: str) -> str:
    return "metrics.NAME" if name.startswith("metrics.") else name


@pytest.mark.parametrize("fact", sorted({*REPLY_KEYS} - NO_FACTS))
def test_without_a_fact_just_its_gates_and_metrics_are_open(project: Project, fact: str) -> None:
    answer = {key: value for key, value in FULL.items() if key != fact}
    if fact == "retrieval_context":
        # The texts of chunks stand for it.
        answer["retrieved_chunks"] = [{"id": "a"}]
    states, case = variant(project, fact, answer)
    turn = case["trials"][0]["turns"][0]
    errors = {other["name"] for other in turn.get("others", ()) if other["outcome"] == "error"}
    kinds = {str(CHECKS[name]["type"]) for name in errors}
    reading = SUITE_READS.get(fact, set())
    assert reading <= METRIC_FACTS.get(fact, frozenset())
    opened = {_gate(name) for name, state in states.items() if state != "passed"}
    assert (kinds, case["outcome"]) == ((reading, "error") if reading else (set(), "passed"))
    expected = GATES_OF.get(fact, frozenset()) if reading or fact not in METRIC_FACTS else frozenset[str]()
    assert opened == expected | ({"max_cost_usd", "max_total_tokens"} if "composite" in kinds else set())
    assert set(states.values()) <= {"passed", "undetermined"}


@pytest.mark.parametrize(
    ("fact", "none"),
    [
        ("tool_invocations", []),
        ("retrieved_chunks", []),
        ("retrieval_context", []),
        ("cost_usd", 0),
        ("duration_ms", 0),
    ],
)
def test_what_is_known_to_be_none_leaves_nothing_open(project: Project, fact: str, none: Any) -> None:
    states, case = variant(project, f"no {fact}", {**FULL, fact: none})
    assert "undetermined" not in states.values(), states
    assert case["outcome"] in ("passed", "failed")
