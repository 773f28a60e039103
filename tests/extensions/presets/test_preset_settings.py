"""Every setting of every preset changes what comes of it: each pair of cases differs in one setting, in one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from holodeck_action.record.evaluation import Evaluation
from tests.commands.project import Project
from tests.extensions.presets.preset_judge import PresetJudge, Truth
from tests.llm.models import KEY, FakeModels

OTHER = {"provider": "openai", "name": "another", "endpoint": "http://HERE"}
GOOD = {"completeness": 3, "groundedness": 3, "redundancy": 1}
FAIR = {**GOOD, "completeness": 2}
POOR = {**GOOD, "completeness": 1}
SUMMED = {"coherence": 3, "consistency": 3, "fluency": 3, "relevance": 3}
GENERATION = {"type": "generation"}
QUERY = {"type": "query_transformation"}
SUMMARY = {"type": "summarization"}
RETRIEVAL = {"type": "lm_retrieval", "include_reason": False}
AGENT = {"type": "agent"}
TONE = {"criteria": "Is it kind?", "evaluation_steps": ["Look for kindness."]}
CALLED = {"tool_invocations": [{"name": "search", "args": {"q": 1, "n": 5}}, {"name": "other", "args": {}}]}
NO_CALLS: dict[str, Any] = {"tool_invocations": []}
EXPECTED = {"expected_tools": [{"name": "search", "args": {"q": 1}}, {"name": "mail", "args": {}}]}
BACKWARDS = {"tool_invocations": [{"name": "mail", "args": {}}, {"name": "search", "args": {"q": 1}}]}

Look = Callable[[Evaluation], Any]


def score(evaluation: Evaluation) -> Any:
    assert isinstance(evaluation.score, float), evaluation
    return round(evaluation.score, 4)


def passed(evaluation: Evaluation) -> Any:
    assert evaluation.status == "completed", evaluation.explanation
    return evaluation.metadata["passed"]


def part(name: str, key: str) -> Look:
    def look(evaluation: Evaluation) -> Any:
        assert evaluation.status == "completed", evaluation.explanation
        found = evaluation.metadata.get(name, {}).get(key)
        return round(found, 4) if isinstance(found, float) else found

    return look


def inside(*path: str) -> Look:
    def look(evaluation: Evaluation) -> Any:
        found: Any = evaluation.metadata
        for name in path:
            found = found.get(name, {})
        return found

    return look


@dataclass(frozen=True)
class Try:
    """A metric without and with a setting, and what is seen of both evaluations."""

    metric: Mapping[str, Any]
    setting: Mapping[str, Any]
    seen: tuple[Any, Any]
    look: Look = score
    truth: Truth = field(default_factory=lambda: Truth(GOOD))
    row: Mapping[str, Any] = field(default_factory=dict)


def metrics(**parts: Any) -> dict[str, Any]:
    return {"metrics": parts}


def compared(setting: Mapping[str, Any], seen: tuple[float, float], called: Mapping[str, Any] = CALLED) -> Try:
    """The tool calls of an agent without and with a setting."""
    look = part("deepeval_tool_correctness", "score")
    return Try(AGENT, metrics(tool_correctness=setting), seen, look, row={**called, **EXPECTED})


THIRDS = round(2 / 3, 4)
FOUND = {"retrieval_context": ["a chunk", "another chunk"]}
RANKED = Truth(chunks=("no", "yes"), sentences=("yes", "yes"))

TRIES: dict[str, Try] = {
    # Presets in general.
    "PresetMetric.model": Try(
        GENERATION, {"model": OTHER}, ("openai/judge", "openai/another"), lambda found: found.metadata["judge"]
    ),
    "PresetMetric.threshold": Try(GENERATION, {"threshold": 0.9}, (True, False), passed, Truth(FAIR)),
    "PresetPart.enabled": Try(GENERATION, metrics(completeness={"enabled": False}), (THIRDS, 1.0), truth=Truth(POOR)),
    "PresetPart.model": Try(
        GENERATION,
        metrics(completeness={"model": OTHER}),
        ("openai/judge", "openai/another"),
        part("completeness", "judge"),
    ),
    "ScoredPart.threshold": Try(
        GENERATION, metrics(completeness={"threshold": 0.6}), (True, False), passed, Truth(FAIR)
    ),
    "CriterionPart.criteria": Try(
        GENERATION,
        metrics(completeness={"criteria": "Is it kind?"}),
        (0.5, 0.7),
        part("completeness", "score"),
        Truth({**FAIR, "written": 7}),
    ),
    "CriterionPart.evaluation_steps": Try(
        GENERATION,
        metrics(completeness={"evaluation_steps": ["Look for kindness."]}),
        (0.5, 1.0),
        part("completeness", "score"),
        Truth({**FAIR, "tone": 3}),
    ),
    "CriterionPart.evaluation_params": Try(
        {**GENERATION, **metrics(refusal={"enabled": False}, redundancy={"enabled": False})},
        metrics(
            refusal={"enabled": False},
            redundancy={"enabled": False},
            completeness={"evaluation_params": ["actual_output"]},
            groundedness={"evaluation_params": ["actual_output", "input"]},
        ),
        ("missing_input", None),
        lambda found: None if found.error is None else found.error.code,
        row={"ground_truth": None},
    ),
    "CriterionPart.rubric": Try(
        {**GENERATION, **metrics(completeness=TONE)},
        metrics(completeness={**TONE, "rubric": ["rude", "cool", "kind", "warm"]}),
        (0.3, THIRDS),
        part("completeness", "score"),
        Truth({**GOOD, "tone": 3}),
    ),
    # Answers.
    "GenerationMetric.type": Try(GENERATION, {"type": "summarization"}, (THIRDS, 1.0), truth=Truth({**POOR, **SUMMED})),
    "GenerationMetric.metrics": Try(
        GENERATION, metrics(completeness={"enabled": False}), (THIRDS, 1.0), truth=Truth(POOR)
    ),
    **{
        f"AnswerParts.{name}": Try(
            GENERATION,
            metrics(**{name: {"enabled": False}}),
            (THIRDS, 1.0),
            truth=Truth({**GOOD, name: 3 if name == "redundancy" else 1}),
        )
        for name in GOOD
    },
    "GenerationParts.refusal": Try(
        GENERATION, metrics(refusal={"enabled": False}), (0.0, 1.0), row={"response": "I will not"}
    ),
    # Queries.
    "QueryTransformationMetric.type": Try(
        QUERY, {"type": "generation"}, (None, False), lambda found: found.metadata.get("refused")
    ),
    "QueryTransformationMetric.metrics": Try(
        QUERY, metrics(completeness={"enabled": False}), (THIRDS, 1.0), truth=Truth(POOR)
    ),
    "QueryTransformationMetric.score_mapping": Try(
        QUERY, {"score_mapping": {"completeness": {1: 0.25, 2: 0.8, 3: 1}}}, (0.8333, 0.9333), truth=Truth(FAIR)
    ),
    "QueryTransformationMetric.score_weights": Try(
        QUERY, {"score_weights": {"completeness": 2}}, (THIRDS, 0.5), truth=Truth(POOR)
    ),
    **{
        f"ScoreMapping.{name}": Try(
            QUERY,
            {"score_mapping": {name: {1: 0.2, 2: 0.7, 3: 0.9}}},
            (0.5, 0.7),
            part(name, "score"),
            Truth({**GOOD, name: 2}),
        )
        for name in GOOD
    },
    **{
        f"ScoreWeights.{name}": Try(
            QUERY,
            {"score_weights": {name: 0}},
            (THIRDS, 1.0),
            truth=Truth({**GOOD, name: 3 if name == "redundancy" else 1}),
        )
        for name in GOOD
    },
    # Summaries.
    "SummarizationMetric.type": Try(SUMMARY, {"type": "generation"}, (1.0, THIRDS), truth=Truth({**POOR, **SUMMED})),
    "SummarizationMetric.metrics": Try(
        SUMMARY, metrics(fluency={"enabled": False}), (0.75, 1.0), truth=Truth({**SUMMED, "fluency": 1})
    ),
    **{
        f"SummarizationParts.{name}": Try(
            SUMMARY, metrics(**{name: {"enabled": False}}), (0.75, 1.0), truth=Truth({**SUMMED, name: 1})
        )
        for name in SUMMED
    },
    # Retrieved texts.
    "LmRetrievalMetric.type": Try(
        RETRIEVAL,
        {"type": "generation", "include_reason": None},
        ("good", None),
        lambda found: found.metadata.get("relevancy_rating"),
        Truth(GOOD, chunks=("yes", "yes"), sentences=("yes",)),
        row=FOUND,
    ),
    "LmRetrievalMetric.metrics": Try(
        RETRIEVAL, metrics(contextual_precision={"threshold": 0.6}), (True, False), passed, RANKED, FOUND
    ),
    "LmRetrievalMetric.include_reason": Try(
        RETRIEVAL,
        {"include_reason": True},
        (False, True),
        lambda found: "so it is" in str(found.metadata),
        RANKED,
        FOUND,
    ),
    "LmRetrievalParts.contextual_precision": Try(
        RETRIEVAL, metrics(contextual_precision={"enabled": False}), (0.75, 1.0), truth=RANKED, row=FOUND
    ),
    "LmRetrievalParts.contextual_recall": Try(
        RETRIEVAL, metrics(contextual_recall={"enabled": False}), (0.75, 0.5), truth=RANKED, row=FOUND
    ),
    # Agents.
    "AgentMetric.type": Try(AGENT, {"type": "generation"}, (0.75, 1.0), row={**CALLED, **EXPECTED}),
    "AgentMetric.metrics": Try(AGENT, metrics(generation={"enabled": False}), (0.75, 0.5), row={**CALLED, **EXPECTED}),
    "AgentParts.tool_correctness": Try(
        AGENT,
        metrics(tool_correctness={"enabled": False}),
        (0.75, 1.0),
        row={**CALLED, **EXPECTED},
    ),
    "AgentParts.generation": Try(
        AGENT, metrics(generation={"enabled": False}), (0.75, 0.5), row={**CALLED, **EXPECTED}
    ),
    "AgentParts.trajectory_accuracy": Try(
        AGENT,
        metrics(trajectory_accuracy={"enabled": True}),
        (None, 0.0),
        part("langchain_agent_trajectory_accuracy", "score"),
        Truth(GOOD, trajectory="no"),
        {**CALLED, **EXPECTED},
    ),
    "ToolPart.enabled": Try(
        AGENT,
        metrics(tool_correctness={"enabled": False}),
        (0.75, 1.0),
        row={**CALLED, **EXPECTED},
    ),
    "ToolCallComparison.threshold": Try(
        AGENT, metrics(tool_correctness={"threshold": 0.9}), (True, False), passed, row={**CALLED, **EXPECTED}
    ),
    "ToolCallComparison.evaluation_params": compared({"evaluation_params": ["input_parameters"]}, (0.5, 0.25)),
    "ToolCallComparison.should_exact_match": compared({"should_exact_match": True}, (1.0, 0.0), BACKWARDS),
    "ToolCallComparison.should_consider_ordering": compared({"should_consider_ordering": True}, (1.0, 0.5), BACKWARDS),
    "ToolCallComparison.strict_mode": compared({"strict_mode": True}, (0.5, 0.0)),
    "GenerationPart.enabled": Try(
        AGENT, metrics(generation={"enabled": False}), (0.75, 0.5), row={**CALLED, **EXPECTED}
    ),
    "GenerationPart.threshold": Try(
        AGENT, metrics(generation={"threshold": 0.9}), (True, False), passed, Truth(FAIR), {**CALLED, **EXPECTED}
    ),
    "GenerationPart.metrics": Try(
        AGENT,
        metrics(generation=metrics(completeness={"enabled": False})),
        (False, True),
        inside("generation", "passed"),
        Truth(POOR),
        {**CALLED, **EXPECTED},
    ),
    "TrajectoryPart.enabled": Try(
        AGENT,
        metrics(trajectory_accuracy={"enabled": True}),
        (None, 0.5),
        part("langchain_agent_trajectory_accuracy", "score"),
        Truth(GOOD, trajectory="borderline"),
        {**CALLED, **EXPECTED},
    ),
    "TrajectoryPart.threshold": Try(
        {**AGENT, **metrics(trajectory_accuracy={"enabled": True})},
        metrics(trajectory_accuracy={"enabled": True, "threshold": 0.8}),
        (True, False),
        part("langchain_agent_trajectory_accuracy", "passed"),
        Truth(GOOD, trajectory="borderline"),
        {**CALLED, **EXPECTED},
    ),
    # Questions of our own.
    "RefusalMetric.type": Try(
        {"type": "refusal"}, {"type": "trajectory_accuracy"}, (1.0, 0.0), truth=Truth(trajectory="no"), row=NO_CALLS
    ),
    "RefusalMetric.expect=refusal": Try(
        {"type": "refusal"}, {"expect": "refusal"}, (0.0, 1.0), row={"response": "I will not"}
    ),
    "RefusalMetric.expect=as_expected_output": Try(
        {"type": "refusal"},
        {"expect": "as_expected_output"},
        (0.0, 1.0),
        row={"response": "I will not", "ground_truth": "I will not tell"},
    ),
    "RefusalMetric.model": Try(
        {"type": "refusal"}, {"model": OTHER}, ("openai/judge", "openai/another"), lambda found: found.metadata["judge"]
    ),
    "TrajectoryAccuracyMetric.type": Try(
        {"type": "trajectory_accuracy"},
        {"type": "refusal"},
        (0.5, 1.0),
        truth=Truth(trajectory="borderline"),
        row=NO_CALLS,
    ),
    "TrajectoryAccuracyMetric.threshold": Try(
        {"type": "trajectory_accuracy"},
        {"threshold": 0.8},
        (None, 0.8),
        lambda found: found.criteria.threshold if found.criteria.asserts else None,
    ),
    "TrajectoryAccuracyMetric.model": Try(
        {"type": "trajectory_accuracy"},
        {"model": OTHER},
        ("openai/judge", "openai/another"),
        lambda found: found.metadata["judge"],
        row=NO_CALLS,
    ),
    # Any metrics.
    "CompositeMetric.type": Try(
        {"type": "composite", "metrics": [{"type": "refusal"}]},
        {"type": "refusal", "metrics": None},
        ("composite", "refusal"),
        lambda found: found.criteria.kind,
    ),
    "CompositeMetric.metrics": Try(
        {"type": "composite", "metrics": [{"type": "standard", "metric": "f1_score", "threshold": 0.9}]},
        {"metrics": [{"type": "refusal"}]},
        (False, True),
        passed,
    ),
    "CompositeMetric.threshold": Try(
        {"type": "composite", "metrics": [{"type": "generation"}]},
        {"threshold": 0.9},
        (True, False),
        passed,
        Truth(FAIR),
    ),
}


def _case(name: str, entry: Try, metric: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    row: dict[str, Any] = {"response": "an answer", "ground_truth": "expected", **entry.row}
    evaluation = {key: value for key, value in metric.items() if value is not None}
    case: dict[str, Any] = {"name": name, "input": f"What is [{name}]?", "evaluations": [evaluation]}
    case |= {key: value for key, value in row.items() if key not in ("response", "tool_invocations")}
    if case["ground_truth"] is None:
        del case["ground_truth"]
    else:
        case["ground_truth"] = f"{case['ground_truth']} [{name}]"
    if "retrieval_context" in case:
        case["retrieval_context"] = [f"{text} [{name}]" for text in case["retrieval_context"]]
    answer: dict[str, Any] = {"case": name, "response": f"{row['response']} [{name}]"}
    if "retrieval_context" not in case:
        answer["retrieval_context"] = []
    return case, answer | {key: row[key] for key in ("tool_invocations",) if key in row}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evaluation]:
    """What came of all cases, by name."""
    project = Project(tmp_path_factory.mktemp("settings"))
    cases, answers, truths = [], [], {}
    for number, entry in enumerate(TRIES.values()):
        for place, metric in (("without", entry.metric), ("given", {**entry.metric, **entry.setting})):
            name = f"{place}{number}"
            case, answer = _case(name, entry, metric)
            cases.append(case)
            answers.append(answer)
            truths[name] = entry.truth
    with FakeModels(keys=[KEY]) as models:
        judge = PresetJudge(truths, steps={"Look for kindness.": "tone", "Look at the tone.": "written"})
        models.answer(judge)
        model = {"provider": "openai", "name": "judge", "endpoint": models.openai_url}
        project.suite(cases, model=model)
        written = json.dumps(cases).replace("http://HERE", models.openai_url)
        # JSON has no numbers as keys, and YAML has.
        written = written.replace('{"1":', "{1:").replace('"2":', "2:").replace('"3":', "3:")
        project.write("cases.yaml", f"test_cases: {written}")
        project.suite([], model=model, test_cases=None, test_cases_file="cases.yaml")
        project.answers(answers)
        project.policy(target="recorded:answers.jsonl")
        finished, record = project.evaluate(OPENAI_API_KEY=KEY)
        assert finished.code in (1, 3), finished.stderr
        assert models.violations == []
    return {str(case.name): evaluation for case in record.cases for evaluation in case.trials[0].turns[0].evaluations}


@pytest.mark.proves(*TRIES)
@pytest.mark.parametrize("key", TRIES)
def test_a_setting_of_a_preset_counts(seen: dict[str, Evaluation], key: str) -> None:
    number = [*TRIES].index(key)
    entry = TRIES[key]
    assert (entry.look(seen[f"without{number}"]), entry.look(seen[f"given{number}"])) == entry.seen
