"""The property of unknown facts for judged metrics, with a judge that is against them.

It finds fault with every text that shows a retrieved chunk or a tool call, and praises all others: a metric that grades
without a fact that it lacks, passes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.metrics.registry import built_in
from tests.commands.project import Project
from tests.facts.test_table import FULL
from tests.llm.judging import asked_keys
from tests.llm.models import KEY, Answer, FakeModels, Request

pytestmark = pytest.mark.needs("deepeval", "presets")

MARKED = ("text a", "find")
RAG = ("faithfulness", "contextual_relevancy", "contextual_precision", "contextual_recall")
METRICS: dict[str, dict[str, Any]] = {
    **{name: {"type": "rag", "metric_type": name, "threshold": 0.5} for name in RAG},
    "geval of texts": {
        "type": "geval",
        "name": "g",
        "criteria": "c",
        "evaluation_steps": ["s"],
        "evaluation_params": ["actual_output", "retrieval_context"],
        "threshold": 0.5,
    },
    "lm_retrieval": {"type": "lm_retrieval"},
    "generation": {"type": "generation"},
    "agent": {"type": "agent"},
    "trajectory_accuracy": {"type": "trajectory_accuracy"},
    "deepeval_tool_correctness": {"type": "deepeval_tool_correctness", "threshold": 0.5},
}
OF_CALLS = {"agent", "trajectory_accuracy", "deepeval_tool_correctness"}
UNKNOWN: dict[str, set[str]] = {
    "chunks": {"retrieved_chunks", "retrieval_context"},
    "calls": {"tool_invocations"},
    "both": {"retrieved_chunks", "retrieval_context", "tool_invocations"},
}


def judge(request: Request) -> Answer:
    """Answer each kind of question that a library or a preset asks."""
    text = request.text
    bad = any(mark in text for mark in MARKED)
    if text.startswith("Decide whether an assistant refuses"):
        return Answer(json.dumps({"reason": "r", "verdict": "no"}))
    if text.startswith("Judge the way"):
        return Answer(json.dumps({"reason": "r", "verdict": "incomplete" if bad else "good"}))
    asked = asked_keys(request)
    if text.startswith("You are an evaluator"):
        # Of redundancy, less is better.
        high = bad if "repeats itself" in text else not bad
        levels = "between 1 and 3" in text
        return Answer(json.dumps({"reason": "r", "score": (3 if levels else 10) if high else (1 if levels else 0)}))
    if "verdicts" in asked:
        return Answer(json.dumps({"verdicts": [{"verdict": "no" if bad else "yes", "reason": "r", "statement": "s"}]}))
    key = next((key for key in ("claims", "truths", "statements") if key in asked), None)
    return Answer(json.dumps({"reason": "r"} if key is None else {key: ["text a" if key == "truths" else "s"]}))


def outcomes(project: Project, models: FakeModels, without: set[str]) -> dict[str, str]:
    """What became of each metric's case where the answers do not tell these."""
    project.suite(
        [
            {
                "name": name,
                "input": "q",
                "ground_truth": "yes",
                "expected_tools": ["find"] if name in OF_CALLS else None,
                "evaluations": [metric],
            }
            for name, metric in METRICS.items()
        ],
        [],
        model={"provider": "openai", "name": "judge", "endpoint": models.openai_url},
    )
    reply = {key: value for key, value in FULL.items() if key not in without}
    project.answers([{"case": name, **reply} for name in METRICS])
    added = {name: {"expected_trajectory": [{"name": "find"}]} for name in OF_CALLS}
    project.policy(target="recorded:answers.jsonl", cases=added, ground_truth="unused")
    finished = project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
    assert finished.code != 2, finished.stderr
    return {case["id"]: case["outcome"] for case in project.verdict()["cases"]}


def test_no_judged_metric_passes_without_a_fact_that_it_had(project: Project) -> None:
    with FakeModels(keys=[KEY]) as models:
        models.answer(judge)
        whole = outcomes(project, models, set())
        assert set(whole.values()) <= {"passed", "failed"}, whole
        assert list(whole.values()).count("failed") >= 6, whole
        for fact, keys in UNKNOWN.items():
            after = outcomes(project, models, keys)
            greener = [name for name, now in after.items() if now == "passed" != whole[name]]
            assert not greener, (fact, greener)


@pytest.mark.parametrize("kind", sorted({str(metric["type"]) for metric in METRICS.values()}))
def test_the_examples_are_metrics_with_a_judge(kind: str) -> None:
    assert kind in built_in().classes
