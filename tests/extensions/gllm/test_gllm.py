"""gllm-evals as Python: its import names and constructors run what the YAML types run, and both its samples run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.metrics.errors import EvaluationError
from tests.extensions.gllm.gllm import ANSWER, GOOD, evaluated, judge, metric, model, models, named
from tests.extensions.presets.preset_judge import PresetJudge
from tests.llm.models import FakeModels, Fault

__all__ = ["judge", "model", "models"]


def message(name: str, number: int, **args: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(args)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{number}", "function": function}]}


MADE = [{"role": "user", "content": "Where?"}, message("search", 1, q="x")]
MADE += [{"role": "tool", "tool_call_id": "c1", "content": "found [a]"}]
EXPECTED = [message("search", 1, q="x"), message("book", 2)]


AGENT_SAMPLE = """
import os
from gllm_evals.evaluator import AgentEvaluator
from gllm_evals.metrics.tool_use.deepeval_tool_correctness import DeepEvalToolCorrectnessMetric
from gllm_evals.metrics.tool_use.langchain_agent_trajectory_accuracy import (
    LangChainAgentTrajectoryAccuracyMetric
)

tool_correctness = DeepEvalToolCorrectnessMetric()
trajectory_accuracy = LangChainAgentTrajectoryAccuracyMetric()

evaluator = AgentEvaluator(
    tool_correctness_metric=tool_correctness,
    trajectory_accuracy_metric=trajectory_accuracy,  # Optional; only runs if agent_trajectory is in input
)

async def main(data):
    result = await evaluator.evaluate(data)
    return result
"""


def test_the_sample_of_the_agent_evaluator(models: FakeModels) -> None:
    sample: dict[str, Any] = {}
    exec(AGENT_SAMPLE, sample)
    data = {**ANSWER, "agent_trajectory": MADE, "expected_agent_trajectory": EXPECTED}
    with pytest.raises(EvaluationError, match="has no model: give `models` to it or its evaluator"):
        asyncio.run(sample["main"](data))
    # The document leaves the model to its package's default; here it is named.
    exec(AGENT_SAMPLE.replace("AgentEvaluator(\n", "AgentEvaluator(\n    models='ollama/judge',\n"), sample)
    result = asyncio.run(sample["main"](data))
    assert json.loads(json.dumps(result)) == result
    assert set(result) == {
        "aggregate_explanation",
        "aggregate_success",
        "aggregate_score",
        "deepeval_tool_correctness",
        "langchain_agent_trajectory_accuracy",
        "generation",
        "judge",
    }
    tools, way, answer = (
        result[name] for name in ("deepeval_tool_correctness", "langchain_agent_trajectory_accuracy", "generation")
    )
    assert (tools["score"], tools["success"], tools["threshold"]) == (0.5, True, 0.5)
    assert (way["score"], way["success"]) == (0.0, False)
    assert (answer["aggregate_score"], answer["aggregate_success"]) == (1.0, True)
    assert answer["aggregate_explanation"].startswith("passed: completeness 1")
    assert {answer[name]["success"] for name in GOOD} == {True}
    assert (result["aggregate_score"], result["aggregate_success"]) == (0.75, True), "the trajectory takes no part"
    assert {request.model for request in models.requests} == {"judge"}


def test_no_trajectory_no_judgement_of_it(judge: PresetJudge, model: DeepEvalModelConfig) -> None:
    way = metric("LangChainAgentTrajectoryAccuracyMetric")(models=model)
    evaluator = named("AgentEvaluator")(models=model, trajectory_accuracy_metric=way)
    with pytest.raises(EvaluationError, match="agent needs agent_trajectory, which was not given"):
        evaluated(evaluator, ANSWER)
    assert "trajectory" not in judge.said
    assert evaluator.required_fields == {"agent_trajectory", "input", "actual_output", "expected_output"}
    assert named("AgentEvaluator").format_tool_violation(0.25, False, 0.5) == (
        "1 of 1 failed: deepeval_tool_correctness 0.25 is below its threshold 0.5"
    )


RETRIEVAL_SAMPLE = """
from gllm_evals.evaluator import ClassicalRetrievalEvaluator
from gllm_evals.types import RetrievalData

async def main():
    data = RetrievalData(
        retrieved_chunks={
            "chunk1": 0.9,
            "chunk2": 0.8,
            "chunk3": 0.7,
        },
        ground_truth_chunk_ids=["chunk1", "chunk2", "chunk3"],
    )

    evaluator = ClassicalRetrievalEvaluator()
    return await evaluator.evaluate(data)
"""


def test_the_sample_of_the_classical_retrieval_evaluator() -> None:
    sample: dict[str, Any] = {}
    exec(RETRIEVAL_SAMPLE, sample)
    result = asyncio.run(sample["main"]())
    scores = {name: found["score"] for name, found in result.items() if isinstance(found, dict)}
    perfect = dict.fromkeys(("recall_at_20", "hit_rate_at_20", "mrr_at_20", "map_at_20", "ndcg_at_20"), 1.0)
    assert scores == {"precision_at_20": 3 / 20, **perfect}
    assert result["aggregate_score"] == pytest.approx((5 + 3 / 20) / 6)
    assert result["aggregate_success"] is None, "no threshold, no verdict"


def test_ranks_and_metrics_of_the_classical_retrieval_evaluator() -> None:
    found = {"retrieved_chunks": ["x", "one"], "ground_truth_chunk_ids": ["one"]}
    kind = named("ClassicalRetrievalEvaluator")
    several = evaluated(kind(metrics=["recall_at_k"], k=[1, 2]), found)
    assert (several["recall_at_1"]["score"], several["recall_at_2"]["score"]) == (0.0, 1.0)
    own = metric("ClassicalRetrievalMetric")("recall_at_k", k=2, threshold=0.9)
    assert evaluated(kind(metrics=[own]), [found, found])[1]["aggregate_success"] is True
    assert kind(k=5).required_fields == {"retrieved_chunks", "ground_truth_chunk_ids"}
    assert kind.get_input_fields() == ["retrieved_chunks", "ground_truth_chunk_ids"]
    for wrong in ({"metrics": ["f1"]}, {"k": 0}):
        with pytest.raises(ValueError, match=r"must be one of|k: 0 is out of range"):
            kind(**wrong)


def test_generation_and_a_refusal(judge: PresetJudge, model: DeepEvalModelConfig) -> None:
    evaluator = named("GEvalGenerationEvaluator")(models=model, run_parallel=False)
    refused = {**ANSWER, "actual_output": "I will not [a]."}
    first, second = evaluated(evaluator, [{**ANSWER, "retrieved_context": "A text [a]."}, refused])
    assert (first["aggregate_score"], first["refused"], first["completeness"]["success"]) == (1.0, False, True)
    assert (second["aggregate_score"], second["aggregate_success"], second["refused"]) == (0.0, False, True)
    assert {*judge.models.values()} == {"judge"}
    kind = type(evaluator)
    assert issubclass(kind, named("BaseGenerationEvaluator"))
    assert [each.name for each in evaluator.metrics] == ["completeness", "groundedness", "redundancy"]


def test_a_panel_and_its_fallback(models: FakeModels, model: DeepEvalModelConfig, judge: PresetJudge) -> None:
    other = model.model_copy(update={"model_name": "other"})
    broken = model.model_copy(update={"model_name": "broken", "api_key": "sk-wrong"})
    one = metric("GEvalCompletenessMetric")([model, model, other], aggregation_method="median")
    told = evaluated(one, ANSWER)
    assert (told["score"], told["panel"]["aggregation"], len(told["panel"]["verdicts"])) == (1.0, "median", 3)
    assert [verdict["model"] for verdict in told["panel"]["verdicts"]] == ["openai/judge"] * 2 + ["openai/other"]
    stood_in = evaluated(metric("GEvalCompletenessMetric")(broken, fallback_models=[other]), ANSWER)
    assert stood_in["panel"]["fallback_share"] == 1.0
    for wrong in ([3], "gpt-4o", "nobody/gpt-4o"):
        with pytest.raises(ValueError, match="models must be"):
            named("GEvalGenerationEvaluator")(models=wrong)


def test_retrieved_texts_are_rated(model: DeepEvalModelConfig) -> None:
    kind = named("LMBasedRetrievalEvaluator")
    data = {**ANSWER, "retrieved_context": ["one [a]", "two [a]"]}
    found = evaluated(kind(models=model), data)
    assert (found["relevancy_rating"], found["score"], found["aggregate_success"]) == ("good", 0.5, True)
    strict = metric("DeepEvalContextualRecallMetric")(model, threshold=0.9)
    assert evaluated(kind(model, metrics=[strict]), data)["relevancy_rating"] == "incomplete"
    alone = kind(model, enabled_metrics=["contextual_precision"])
    assert [each.name for each in alone.metrics] == ["contextual_precision"]
    by_class = kind(model, enabled_metrics=[metric("DeepEvalContextualRecallMetric")])
    assert [each.name for each in by_class.metrics] == ["contextual_recall"]
    with pytest.raises(ValueError, match="enabled_metrics"):
        kind(model, enabled_metrics=["nothing"])


def test_rewritten_queries_are_weighted_and_mapped(model: DeepEvalModelConfig) -> None:
    mapping = {name: {1: 0.0, 2: 0.5, 3: 0.8} for name in ("completeness", "groundedness")}
    evaluator = named("QTEvaluator")(model, score_mapping=mapping, score_weights={"completeness": 3, "redundancy": 0})
    found = evaluated(evaluator, ANSWER)
    assert found["completeness"]["score"] == 0.8
    assert found["aggregate_score"] == pytest.approx(0.8)
    assert evaluator.hallucination_metric is evaluator.groundedness_metric
    harder = named("QTEvaluator")(model, completeness_metric=metric("GEvalCompletenessMetric")(model, threshold=1.0))
    assert evaluated(harder, ANSWER)["completeness"]["threshold"] == 1.0


def test_summaries_and_any_metrics_as_one(model: DeepEvalModelConfig) -> None:
    found = evaluated(named("SummarizationEvaluator")(model), ANSWER)
    assert (found["fluency"]["score"], found["aggregate_score"]) == (0.5, 0.875)
    bleu = named("BLEUEvaluator", "holodeck.lib.evaluators.nlp_metrics")(threshold=0.5)
    both = named("CompositeEvaluator")([metric("GEvalFluencyMetric")(model), bleu], name="both", parallel=False)
    told = evaluated(both, ANSWER)
    assert (both.name, told["bleu"]["success"], told["fluency"]["score"]) == ("both", True, 0.5)
    assert evaluated(named("BaseEvaluator")("base", [bleu]), ANSWER)["aggregate_success"] is True
    base = named("BaseEvaluator")
    assert base.can_evaluate_any(both.metrics, {"actual_output": "x"}) is False
    assert base.aggregate_required_fields(both.metrics, "union") >= {"input", "actual_output"}
    with pytest.raises(ValueError, match="list of dictionaries"):
        base.ensure_list_of_dicts({"calls": ["x"]}, "calls")
    with pytest.raises(ValueError, match="non-empty"):
        base.ensure_non_empty_list({"calls": []}, "calls")
    with pytest.raises(ValueError, match="positive"):
        named("GEvalGenerationEvaluator")(batch_max_iterations=0)


def test_objects_and_plain_calls_are_inputs_too(model: DeepEvalModelConfig) -> None:
    from deepeval.test_case import LLMTestCase, ToolCall

    tools = metric("DeepEvalToolCorrectnessMetric")(evaluation_params=["input_parameters"])
    case = LLMTestCase(
        input="x",
        actual_output="y",
        tools_called=[ToolCall(name="search", input_parameters={"q": 1})],
        expected_tools=[ToolCall(name="search", input_parameters={"q": 1})],
    )
    assert evaluated(tools, case)["score"] == 1.0
    plain = {
        "agent_trajectory": [{"name": "search", "args": {"q": 2}}],
        "expected_agent_trajectory": [{"name": "search", "args": {"q": 1}}],
    }
    assert evaluated(tools, plain)["score"] == 0.0
    for wrong in ("search", [{"role": "assistant", "tool_calls": [{"function": {}}]}], [3]):
        with pytest.raises(EvaluationError, match="agent_trajectory must be"):
            evaluated(tools, {**plain, "agent_trajectory": wrong})


def test_a_judge_that_fails_is_an_error(models: FakeModels, model: DeepEvalModelConfig) -> None:
    models.answer(lambda _: Fault("bad_request", times=None))
    with pytest.raises(EvaluationError):
        evaluated(named("SummarizationEvaluator")(model), ANSWER)
