"""The same inputs give the same canonical record, however many conversations run at a time."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from tests.commands.project import Project

AGENT = """
import random, time

def answer(messages):
    # In no order that repeats.
    time.sleep(random.random() / 50)
    question = messages[-1]["content"]
    number = int(question.split()[-1])
    return {
        "response": f"the answer number {number} after {len(messages)} messages",
        "tool_invocations": [
            {
                "name": "search",
                "args": {"n": number, "text": "x" * number},
                "result": {"b": 1, "a": [number]},
                "duration_ms": time.perf_counter(),
            },
            {"name": "open", "args": {}, "error": "gone" if number % 3 == 0 else None},
        ],
        "retrieved_chunks": [
            {"id": f"c{(number * step) % 11}", "text": f"chunk {step}", "score": 1 / step} for step in range(1, 6)
        ],
    }
"""


def everything(project: Project) -> None:
    """Conversations with trials, tools, retrieval, text metrics and graders; some cases fail, some are in error."""
    project.write("agent.py", AGENT)
    project.write(
        "checks.py",
        "def even(context):\n"
        "    number = int(context.agent_response.split()[3])\n"
        "    if number == 7:\n"
        "        raise ValueError('seven')\n"
        "    return number % 2 == 0\n",
    )
    expected = [{"name": "search", "args": {"text": {"regex": "x*"}}}, "open"]
    cases: list[dict[str, Any]] = []
    for number in range(8):
        turns = [
            {"input": f"question {number}", "ground_truth": f"the answer number {number}", "expected_tools": expected},
            {"input": f"and {number + 1}", "ground_truth": "the answer after three messages"},
        ]
        cases.append({"name": f"talk {number}", "turns": turns})
        cases.append(
            {"input": f"question {number}", "expected_tools": {"tools": ["search", "open"], "order": "strict"}}
        )
    metrics: list[dict[str, Any]] = [
        *({"type": "standard", "metric": name, "threshold": 0.2} for name in ("bleu", "rouge", "meteor", "f1_score")),
        {"type": "code", "grader": "checks:even"},
        {"type": "retrieval", "metric": "ndcg_at_k", "k": [3, 5], "threshold": 0.1},
        {"type": "tool_correctness", "threshold": 0.5},
        {"type": "length", "max_words": 8},
    ]
    project.suite(cases, metrics)
    overlays = {
        f"talk {n}": {"retrieval": {"ground_truth_chunk_ids": {"c1": 2, "c4": 1}}, "weight": 1 + n} for n in range(6)
    }
    project.policy(target="python:agent:answer", trials={"repeat": 3, "min_pass": 2}, cases=overlays)


@pytest.mark.full
@pytest.mark.races
@pytest.mark.full
def test_concurrency_changes_neither_record_nor_verdict_nor_report(project: Project) -> None:
    everything(project)
    finished, one = project.evaluate("--concurrency", "1")
    # The file that a verdict is about holds times and ids.
    verdict = project.verdict() | {"results_digest": None}
    for concurrency in ("4", "16"):
        again, many = project.evaluate("--concurrency", concurrency)
        assert canonical_json(many) == canonical_json(one)
        assert project.verdict() | {"results_digest": None} == verdict
        assert again.stdout == finished.stdout
    # All that could make a difference has happened.
    assert finished.code == 1
    assert "seven" in finished.stdout
    assert {case["outcome"] for case in verdict["cases"]} == {"passed", "failed"}
    assert {len(case.trials) for case in one.cases} == {2}


@pytest.mark.full
def test_hash_seed_locale_and_time_zone_change_nothing(project: Project) -> None:
    everything(project)
    _, one = project.evaluate(PYTHONHASHSEED="1", LC_ALL="C", TZ="UTC")
    _, other = project.evaluate(PYTHONHASHSEED="2", LC_ALL="C.UTF-8", TZ="Pacific/Auckland")
    assert canonical_json(one) == canonical_json(other)
