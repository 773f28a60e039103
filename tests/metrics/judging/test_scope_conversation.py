"""`scope: conversation`: a judge grades all turns together, once per trial."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.record.record import TrialRecord
from tests.commands.project import Project, evaluations
from tests.llm.models import KEY, Answer, FakeModels, Request
from tests.llm.models.values import Reply
from tests.metrics.judging.test_sees_conversation import GEVAL, QUALITY, SAID

FOUND = [{"name": "find", "args": {"id": 7}, "result": "Ann"}]
FULL = pytest.mark.full


def judged_by(models: FakeModels, metric: dict[str, Any]) -> dict[str, Any]:
    """`evaluations` with one metric of the whole conversation."""
    judge = {"provider": "openai", "name": "judge", "endpoint": models.openai_url, "api_key": KEY}
    return {"model": judge, "metrics": [{**metric, "scope": "conversation"}]}


def answering(request: Request) -> Reply:
    names = (request.schema or {}).get("properties", {})
    kinds = {name: json.dumps(kind) for name, kind in names.items()}
    good: dict[str, Any] = {name: "yes" if "string" in kind else 1 for name, kind in kinds.items()}
    special = {
        "dimensions": dict.fromkeys(("relevance", "coherence", "clarity", "completeness", "accuracy"), 1),
        "claims": [{"claim": "Ann is a guest", "reason": "it says so", "verdict": "yes"}],
        "citations": [],
        "hallucination_detected": False,
    }
    good |= {name: value for name, value in special.items() if name in good}
    return Answer(json.dumps(good or {"score": 3, "reason": "nothing is wrong in turn 1"}))


def talk(project: Project, models: FakeModels, *metrics: dict[str, Any], second: str = "Ann.") -> None:
    """A recorded conversation of two turns; metrics apply to the whole case."""
    judge = {"provider": "openai", "name": "judge", "endpoint": models.openai_url, "api_key": KEY}
    turns = [{"input": SAID, "ground_truth": "Hi."}, {"input": "What is my name?", "ground_truth": "Ann."}]
    evaluations = {"model": judge, "metrics": list(metrics)}
    project.suite([{"name": "talk", "turns": turns}], evaluations=evaluations)
    project.policy(target="recorded:answers.jsonl")
    answer_turns(project, {"tool_invocations": FOUND, "retrieval_context": ["Ann is a guest."]}, second)


def answer_turns(project: Project, first: dict[str, Any], second: str = "Ann.") -> None:
    project.answers(
        [
            {"case": "talk", "turn": 0, "response": "Hello Ann!", **first},
            {"case": "talk", "turn": 1, "response": second, "tool_invocations": [], "retrieval_context": []},
        ]
    )


def seen(**first: Any) -> str:
    """The conversation as the judge sees it; `first` has the facts of the first answer."""
    messages = [
        {"turn": 0, "role": "user", "content": SAID},
        {"turn": 0, "role": "assistant", "content": "Hello Ann!", **first},
        {"turn": 1, "role": "user", "content": "What is my name?"},
        {"turn": 1, "role": "assistant", "content": "Ann.", "tool_calls": [], "retrieved_texts": []},
    ]
    return json.dumps(messages, indent=1)


def counts(trial: TrialRecord) -> list[int]:
    """The number of evaluations of each turn, and of the conversation."""
    return [*(len(turn.evaluations) for turn in trial.turns), len(trial.evaluations)]


CALLED = [{"tool": "find", "arguments": {"id": 7}, "result": "Ann"}]
WHOLE = seen(tool_calls=CALLED, retrieved_texts=["Ann is a guest."])
ASKED = json.dumps([SAID, "What is my name?"], indent=1)
OTHERS = ("groundedness", "redundancy", "refusal")
ANSWER = {"type": "generation", "metrics": {name: {"enabled": False} for name in OTHERS}}
ABOUT_ALL = {"scope": "conversation"}


@pytest.mark.proves("ScopedMetric.scope")
@pytest.mark.models(answer=answering)
@pytest.mark.parametrize(
    "metric",
    [
        QUALITY,
        pytest.param({"type": "quality", "threshold": 0.5}, marks=FULL),
        pytest.param({"type": "factual_accuracy", "threshold": 0.5}, marks=FULL),
        pytest.param({"type": "trajectory_accuracy", "threshold": 0.5}, marks=FULL),
        pytest.param({**GEVAL, "threshold": 0.2}, marks=FULL),
        pytest.param(ANSWER, marks=FULL),
    ],
    ids=lambda metric: metric["type"],
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_judge_grades_all_turns_once(
    project: Project, models: FakeModels, metric: dict[str, Any], inside: bool
) -> None:
    whole = {**metric, **ABOUT_ALL}
    talk(project, models, {"type": "composite", "metrics": [whole]} if inside else whole)
    finished, record = project.evaluate("--record", "tape")
    assert finished.code == 0, finished.stdout + finished.stderr
    (trial,) = record.cases[0].trials
    assert counts(trial) == [0, 0, 1]
    (request,) = models.requests
    assert request.text.startswith("You grade a whole conversation, not a single answer.")
    assert [text in request.text for text in (WHOLE, ASKED)] == [True, True]
    replayed = project.run("run", "-o", "again", "--replay", "tape")
    assert replayed.code == finished.code, replayed.stderr
    rejudged = project.run("rejudge", "out/results.json", "-o", "rejudged", "--replay", "tape")
    assert rejudged.code == finished.code, rejudged.stderr
    assert len(models.requests) == 1


@pytest.mark.models(answer=answering)
def test_what_is_unknown_is_left_out_or_an_error(project: Project, models: FakeModels) -> None:
    sound = {"type": "trajectory_accuracy", "threshold": 0.5, **ABOUT_ALL}
    talk(project, models, {**QUALITY, **ABOUT_ALL}, sound)
    answer_turns(project, {})
    relevance, trajectory = evaluations(project.evaluate()[1])
    assert relevance.score == 1
    (request,) = models.requests
    # The texts of a conversation add up, so that those of turn 1 are unknown, too.
    assert seen().replace(',\n  "retrieved_texts": []', "") in request.text
    assert "does not report tool calls" in str(trajectory.error)


@pytest.mark.models(answer=answering)
def test_an_empty_answer_is_graded_and_a_turn_in_error_is_an_error(project: Project, models: FakeModels) -> None:
    talk(project, models, {**QUALITY, **ABOUT_ALL}, second=" ")
    assert evaluations(project.evaluate()[1])[0].score == 1
    assert '"content": " "' in models.requests[0].text
    answer_turns(project, {"response": ""}, second="")
    (found,) = evaluations(project.evaluate()[1])
    assert (found.score, found.explanation) == (0, "the answer is empty")
    project.answers([{"case": "talk", "turn": 0, "response": "Hello Ann!"}])
    finished, record = project.evaluate()
    assert finished.code != 0
    assert [each.status for each in evaluations(record)] == ["pending"]
    assert len(models.requests) == 1


@pytest.mark.models(answer=answering)
def test_each_trial_has_one_verdict_and_other_metrics_grade_each_turn(project: Project, models: FakeModels) -> None:
    talk(project, models, {**QUALITY, **ABOUT_ALL}, {**QUALITY, "name": "each turn"})
    record = project.evaluate("--repeat", "2")[1]
    assert [*map(counts, record.cases[0].trials)] == [[1, 1, 1]] * 2
    whole = [request for request in models.requests if request.text.startswith("You grade a whole")]
    # The recorded answers of both trials are equal, and so are the questions to the judge.
    assert (len(whole), len(models.requests)) == (1, 3)


def test_a_grader_is_called_once_with_all_turns(project: Project) -> None:
    said = '[turn.agent_response for turn in ctx.earlier_turns] == ["Hello Ann!"]'
    project.write("graders.py", f"def whole(ctx):\n    return {said}\n")
    turns = [{"input": SAID}, {"input": "What is my name?"}]
    metric = {"type": "code", "grader": "graders:whole", **ABOUT_ALL}
    project.suite([{"name": "talk", "turns": turns}], evaluations={"metrics": [metric]})
    project.policy(target="recorded:answers.jsonl")
    answer_turns(project, {})
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stderr
    assert counts(record.cases[0].trials[0]) == [0, 0, 1]


@pytest.mark.needs
@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ({"type": "refusal"}, "scope: cannot be conversation: each turn has its own request to answer or refuse"),
        ({"type": "summarization"}, "scope: cannot be conversation: a summary is the answer to one input"),
        ({"type": "query_transformation"}, "scope: cannot be conversation: it grades the query"),
        ({"type": "lm_retrieval"}, "scope: cannot be conversation: it grades the texts that one question retrieved"),
        ({"type": "agent"}, "scope: cannot be conversation: it compares the tool calls of one turn"),
        ({"type": "generation"}, "scope: cannot be conversation with the part refusal"),
        ({**QUALITY, "sees": "conversation"}, "sees: has no effect with `scope: conversation`"),
        (
            {**GEVAL, "evaluation_params": ["actual_output", "context"]},
            "evaluation_params: must not contain context with scope: conversation",
        ),
    ],
)
def test_a_metric_that_cannot_grade_a_conversation_says_why(
    project: Project, metric: dict[str, Any], message: str
) -> None:
    project.suite([{"input": "Hi", "name": "a"}], evaluations={"metrics": [{**metric, **ABOUT_ALL}]})
    finished = project.run("validate")
    assert finished.code == 2
    assert message in finished.stderr


def test_a_metric_of_the_conversation_is_refused_on_an_earlier_turn(project: Project) -> None:
    turns = [{"input": "Hi", "evaluations": [{**QUALITY, **ABOUT_ALL}]}, {"input": "And?"}]
    project.suite([{"name": "talk", "turns": turns}])
    finished = project.run("validate")
    assert finished.code == 2
    assert "relevance grades the whole conversation: list it on the last turn or on the case" in finished.stderr
