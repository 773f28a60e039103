"""Every setting of metrics that a model grades changes what a case is judged to be: pairs of cases in one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from holodeck_action.extensions.deepeval.metrics_rag import RagName
from holodeck_action.record.evaluation import Evaluation
from tests.commands.project import Project
from tests.llm.judging import Judge, Truth, asked_keys
from tests.llm.models import KEY, Answer, FakeModels, Request, serve_models
from tests.llm.models.values import Reply

STEPS = ["Read it."]
GEVAL = {"type": "geval", "name": "Tone", "criteria": "mild", "evaluation_steps": STEPS}
FAITHFULNESS = {"type": "rag", "metric_type": "faithfulness"}
TRUTH = Truth(
    1,
    claim_verdicts=("yes", "yes", "no", "yes"),
    statement_verdicts=("no",),
    chunk_statements=(("yes",), ("no",)),
    chunk_verdicts=("no", "yes"),
    sentence_verdicts=("yes", "no", "no", "no", "no"),
)
SCORES = {
    "faithfulness": 0.75,
    "answer_relevancy": 0.0,
    "contextual_relevancy": 0.5,
    "contextual_precision": 0.5,
    "contextual_recall": 0.2,
}


@dataclass(frozen=True)
class Found:
    """What came of one case."""

    outcome: str
    evaluation: Evaluation


@dataclass(frozen=True)
class Pair:
    """A metric without and with a setting, and the outcomes of the cases that it grades."""

    entry: Mapping[str, Any]
    setting: Mapping[str, Any]
    outcomes: tuple[str, str]


PAIRS = {
    "GEvalMetric.criteria": Pair({**GEVAL, "evaluation_steps": None}, {"criteria": "harsh"}, ("passed", "failed")),
    "GEvalMetric.evaluation_steps": Pair(GEVAL, {"evaluation_steps": ["Be harsh."]}, ("passed", "failed")),
    "GEvalMetric.evaluation_params": Pair(
        GEVAL, {"evaluation_params": ["actual_output", "input"]}, ("passed", "failed")
    ),
    "GEvalMetric.strict_mode": Pair(
        {**GEVAL, "evaluation_steps": ["Say 1."]}, {"strict_mode": True}, ("failed", "passed")
    ),
    "GEvalMetric.threshold": Pair(GEVAL, {"threshold": 0.9}, ("passed", "failed")),
    "GEvalMetric.model": Pair(GEVAL, {"model": "harsh-judge"}, ("passed", "failed")),
    "RagMetric.metric_type": Pair(FAITHFULNESS, {"metric_type": "contextual_recall"}, ("passed", "failed")),
    "RagMetric.threshold": Pair(FAITHFULNESS, {"threshold": 0.9}, ("passed", "failed")),
    "RagMetric.model": Pair(FAITHFULNESS, {"model": "harsh-judge"}, ("passed", "failed")),
}


def judge(request: Request) -> Reply:
    """Grade harshly where anything that is shown is harsh; the question of every case is."""
    if request.system:
        return str(TRUTH.case["actual_output"])
    harsh = request.model == "harsh-judge"
    asked = asked_keys(request)
    if asked == {"steps"}:
        return {"steps": ["Be harsh." if "harsh" in request.text else "Be mild."]}
    if "score" in asked:
        score = 1 if "Say 1." in request.text else 2 if harsh or "harsh" in request.text else 8
        return Answer(f'{{"reason": "so it is", "score": {score}}}')
    told = Judge(TRUTH)(request)
    return told.text.replace('"yes"', '"no"') if harsh and asked == {"verdicts"} else told


pytestmark = pytest.mark.models(answer=judge)


def model(models: FakeModels, name: str) -> dict[str, Any]:
    return {"provider": "openai", "name": name, "endpoint": models.openai_url}


def graded(project: Project, models: FakeModels, metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Found]:
    """Grade one case by each of the metrics, all in one run."""
    cases = []
    for key, entry in metrics.items():
        written = {name: value for name, value in entry.items() if value is not None}
        if "model" in written:
            written["model"] = model(models, written["model"])
        cases.append(
            {
                "name": key,
                "input": "a harsh question of case-1",
                "ground_truth": TRUTH.case["expected_output"],
                "retrieval_context": TRUTH.chunks,
                "evaluations": [written],
            }
        )
    project.suite(cases, model=model(models, "mild-judge"))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code in (0, 1), finished.stdout + finished.stderr
    outcomes = {case["id"]: case["judged"] for case in project.verdict()["cases"]}
    return {case.name or "": Found(outcomes[case.id], case.trials[0].turns[0].evaluations[0]) for case in record.cases}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    metrics = {f"{key} without": pair.entry for key, pair in PAIRS.items()}
    metrics |= {f"{key} with": {**pair.entry, **pair.setting} for key, pair in PAIRS.items()}
    # Metrics of different settings must not share a name.
    named = {key: {**entry, "name": key} for key, entry in metrics.items()}
    with serve_models(answer=judge) as models:
        return graded(Project(tmp_path_factory.mktemp("judged")), models, named)


@pytest.mark.proves(*PAIRS)
@pytest.mark.parametrize("key", PAIRS)
def test_a_setting_of_a_judged_metric_changes_the_verdict(judged: dict[str, Found], key: str) -> None:
    assert (judged[f"{key} without"].outcome, judged[f"{key} with"].outcome) == PAIRS[key].outcomes


@pytest.mark.proves("RagMetric: metric_type")
def test_every_rag_metric_is_computed(project: Project, models: FakeModels) -> None:
    assert {*SCORES} == {*get_args(RagName)}
    metrics: dict[str, dict[str, Any]] = {kind: {"type": "rag", "metric_type": kind} for kind in SCORES}
    found = graded(project, models, metrics)
    assert {kind: each.evaluation.score for kind, each in found.items()} == SCORES


@pytest.mark.proves("RagMetric: include_reason")
def test_a_reason_is_asked_for_unless_it_is_not_wanted(project: Project, models: FakeModels) -> None:
    before = len(models.requests)
    relevancy = {"type": "rag", "metric_type": "contextual_relevancy", "include_reason": False}
    metrics: dict[str, dict[str, Any]] = {
        "with": FAITHFULNESS,
        "without": {**FAITHFULNESS, "include_reason": False},
        "relevancy": relevancy,
    }
    found = graded(project, models, metrics)
    told = {name: each.evaluation.explanation for name, each in found.items()}
    assert told["with"] == "so it is in case-1"
    assert told["without"] == "Faithfulness is 0.75 (claims count: 4, supported claims: 3)"
    assert told["relevancy"] == (
        "ContextualRelevancy is 0.5 (statements count: 2, relevant statements: 1, relevant chunks: 1, total chunks: 2)"
    )
    asked = [asked_keys(request) for request in models.requests[before:] if not request.system]
    assert asked.count(frozenset({"reason"})) == 1


@pytest.mark.proves("GEvalMetric: name")
def test_the_name_of_a_geval_metric_is_shown(project: Project, models: FakeModels) -> None:
    found = graded(project, models, {"one": GEVAL, "two": {**GEVAL, "name": "Manners"}})
    assert [each.evaluation.evaluator_name for each in found.values()] == ["Tone", "Manners"]
