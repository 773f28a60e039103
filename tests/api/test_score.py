"""One answer scored from Python: as a run scores it, by metrics under their public names."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest

import holodeck_action.metrics
from holodeck_action import Evaluation, LLMProvider, evaluate, score, verdict_of
from holodeck_action.metrics import (
    F1,
    Bleu,
    Composite,
    Equality,
    Length,
    Numeric,
    Refusal,
    Retrieval,
    Rouge,
    ToolCorrectness,
    Trajectory,
    public,
)
from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.metric_base import Metric
from scripts.build_stubs import METRICS, metrics_stub
from tests.commands.project import Project
from tests.llm.models import KEY, FakeModels

CALLS: list[dict[str, Any]] = [{"name": "find", "args": {"order": "A-17"}}, {"name": "refund"}]
REPLY: dict[str, Any] = {
    "response": "the cat sat on the mat",
    "tool_invocations": CALLS,
    "retrieved_chunks": [{"id": "a"}, {"id": "b"}],
}
TRAJECTORY = [{"name": "find"}, {"name": "refund"}]


def facts(evaluation: Evaluation) -> Any:
    found = (evaluation.evaluator_name, evaluation.score, evaluation.explanation, evaluation.metadata, evaluation.error)
    verdict = verdict_of(evaluation)
    return *found, evaluation.evaluator_version, verdict.outcome, verdict.reason, evaluation.criteria.threshold


JUDGE = LLMProvider(provider="openai", name="gpt-4o")


class _AnyArguments:
    """The public names for calls that a type checker refuses."""

    Bleu: Any = Bleu
    LLMProvider: Any = LLMProvider
    score: Any = staticmethod(score)


ANY = _AnyArguments()
STANDARD = {"type": "standard"}


@pytest.mark.parametrize(
    ("metric", "entry"),
    [
        (Bleu(threshold=0.3), STANDARD | {"metric": "bleu", "threshold": 0.3}),
        (
            Composite(name="both", metrics=[Bleu(threshold=0.9), F1()]),
            {
                "type": "composite",
                "name": "both",
                "metrics": [STANDARD | {"metric": "bleu", "threshold": 0.9}, STANDARD | {"metric": "f1_score"}],
            },
        ),
        (Equality(), STANDARD | {"metric": "equality"}),
        (F1(threshold=4, scale=5), STANDARD | {"metric": "f1_score", "threshold": 4, "scale": 5}),
        (Length(max_words=3), {"type": "length", "max_words": 3}),
        (Numeric(), STANDARD | {"metric": "numeric"}),
        (Retrieval(metric="recall_at_k", k=2), {"type": "retrieval", "metric": "recall_at_k", "k": 2}),
        (Rouge(variant="rouge2", threshold=0.5), STANDARD | {"metric": "rouge", "variant": "rouge2", "threshold": 0.5}),
        (ToolCorrectness(threshold=1.0), {"type": "tool_correctness", "threshold": 1.0}),
        (Trajectory(threshold=1.0), {"type": "trajectory", "threshold": 1.0}),
    ],
    ids=lambda given: given.measure if isinstance(given, Metric) else "",
)
def test_an_answer_is_scored_as_in_a_run(
    metric: Metric, entry: dict[str, Any], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    case = {"name": "a", "input": "Where?", "ground_truth": "the cat is on the mat", "expected_tools": ["find"]}
    project.suite([case], [entry])
    chunks = {"ground_truth_chunk_ids": ["b", "c"]}
    case_data = {"a": {"retrieval": chunks, "expected_trajectory": TRAJECTORY}}
    project.policy(cases=case_data, ground_truth="unused")
    record = evaluate("agent.yaml", lambda messages: REPLY, environ=project.environ())
    [expected] = record.cases[0].trials[0].turns[0].evaluations
    found = score(
        metric,
        REPLY["response"],
        input="Where?",
        ground_truth="the cat is on the mat",
        retrieved_chunks=REPLY["retrieved_chunks"],
        ground_truth_chunk_ids=["b", "c"],
        tool_invocations=CALLS,
        expected_tools=["find"],
        expected_trajectory=TRAJECTORY,
    )
    assert facts(found) == facts(expected)
    assert found.score is not None


def test_what_is_unknown_or_missing_is_no_score() -> None:
    unknown = score(ToolCorrectness(threshold=1.0), "x", expected_tools=["find"])
    assert verdict_of(unknown).outcome == "error"
    assert unknown.error is not None
    assert "give tool_invocations" in unknown.error.message
    missing = score(Bleu(threshold=0.1), "x")
    assert (missing.score, verdict_of(missing).outcome) == (None, "error")


def test_a_judge_of_the_metric_or_the_call_grades(models: FakeModels) -> None:
    models.answer(lambda request: '{"reason": "It declines.", "verdict": "yes"}')
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
    named = score(Refusal(model=JUDGE), "No.", input="Sell it?", environ=environ)
    given = score(Refusal(), "No.", input="Sell it?", model=JUDGE, environ=environ)
    assert facts(named) == facts(given)
    assert (named.score, "It declines." in str(named.explanation)) == (0.0, True)
    assert len(models.requests) == 2

    async def notebook() -> Evaluation:
        return score(Refusal(), "No.", input="Sell it?", model=JUDGE, environ=environ)

    assert facts(asyncio.run(notebook())) == facts(given)


def test_trouble_of_a_judge_is_no_score_and_shows_no_key(models: FakeModels) -> None:
    environ = {"OPENAI_API_KEY": f"{KEY}-wrong", "OPENAI_BASE_URL": models.openai_url}
    found = score(Refusal(), "No.", input="Sell it?", model=JUDGE, environ=environ)
    assert (found.score, verdict_of(found).outcome) == (None, "error")
    assert KEY not in repr(found)


@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        (lambda: ANY.Bleu(threshold="high"), "threshold: must be a number"),
        (lambda: ANY.Bleu(treshold=0.5), 'treshold: unknown argument, did you mean "threshold"?'),
        (lambda: ANY.Bleu(metric="rouge"), "metric: is not bleu, the metric of this class"),
        (lambda: ANY.LLMProvider(provider="openai", name="x", api_key=5), "api_key: must be text"),
        (
            lambda: ANY.score(Retrieval(metric="recall_at_k", k=[1, 2]), "x"),
            "k: gives several scores; give one rank",
        ),
        (
            lambda: ANY.score(Refusal(), "x", input="q", environ={}),
            "model: is missing, because the metric names no judge",
        ),
        (lambda: score(Refusal(model=JUDGE), "x"), "input: is missing"),
        (lambda: ANY.score(Bleu(), 5), "response must be text"),
        (lambda: score(Bleu(), "x", expected_tools=[""]), "expected_tools[0]: must not be blank"),
        (
            lambda: ANY.score(Refusal(model=JUDGE), "x", input="q", environ={}),
            "OpenAI needs a key",
        ),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(work: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is compared
        work()
    assert sentence in str(refused.value)
    assert "pydantic" not in str(refused.value)


@pytest.mark.needs
def test_every_metric_of_a_suite_has_a_public_name() -> None:
    named = {source: name for name, source in public().items()}
    classes = {getattr(holodeck_action.metrics, name) for name in named.values()}
    kinds = {cls.model_fields["type"].default for cls in classes}
    # A code grader is a function, which a program calls; the others grade a simulated user, a pair of answers, and the
    # workspace of a trial.
    of_trials = {kind for kind, cls in built_in().classes.items() if ".agent_programs." in cls.__module__}
    assert kinds == {*built_in().classes} - {"code", "simulated_user", "preference"} - of_trials
    assert {*named.values()} <= {*dir(holodeck_action.metrics)}


@pytest.mark.needs
def test_the_stub_of_the_metrics_is_what_the_script_makes() -> None:
    assert METRICS.read_text(encoding="utf-8") == metrics_stub(), "run make fields"


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Blue'"):
        importlib.import_module("holodeck_action.metrics").Blue  # noqa: B018
