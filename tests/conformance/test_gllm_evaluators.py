"""The evaluators of gllm-evals, row by row: arguments, attributes, inputs, results and refusals."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from tests.conformance.expressions import Names, check_that_all_are_refused, check_that_all_hold, named, rows
from tests.extensions.gllm.gllm import ANSWER, evaluated, judge, model, models
from tests.llm.models import FakeModels

__all__ = ["judge", "model", "models"]
pytestmark = pytest.mark.needs("holodeck")
MODULES = ("gllm_evals.evaluator", "gllm_evals.metrics", "gllm_evals.types", "gllm_evals.constant")
CALLS = {"agent_trajectory": ["search"], "expected_agent_trajectory": ["search"]}
DATA = {**ANSWER, "retrieved_context": ["one [a]", "two [a]"], **CALLS}
FOUND = {"retrieved_chunks": {"chunk1": 0.9, "chunk2": 0.8}, "ground_truth_chunk_ids": ["chunk1"]}
PANELISTS = (
    "AgentEvaluator",
    "BaseGenerationEvaluator",
    "GEvalGenerationEvaluator",
    "LMBasedRetrievalEvaluator",
    "QTEvaluator",
    "SummarizationEvaluator",
)


def names() -> Names:
    bleu = named("BLEUEvaluator")(threshold=0.5)
    own = type("Own", (named("MetricsAggregator", MODULES),), {})()
    tools, queries = (named(name, MODULES)() for name in ("DeepEvalToolCorrectnessMetric", "QTEvaluator"))
    return Names(
        MODULES, answer=ANSWER, bleu=bleu, found=FOUND, evaluated=evaluated, own=own, tools=tools, queries=queries
    )


@pytest.mark.claims(
    "gllm-evals-evaluators",
    "AgentEvaluator",
    "argument `models=None`",
    "argument `tool_correctness_metric=None`",
    "argument `generation_evaluator=None`",
    "argument `trajectory_accuracy_metric=None`",
    "argument `metrics_aggregator=None`",
    "argument `aggregation_method=DefaultValues.AGGREGATION_METHOD`",
    "argument `fallback_models=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator",
    "argument `name`",
    "argument `metrics=None`",
    "argument `batch_status_check_interval=DefaultValues.BATCH_STATUS_CHECK_INTERVAL`",
    "argument `batch_max_iterations=DefaultValues.BATCH_MAX_ITERATIONS`",
    "argument `metrics_aggregator=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseGenerationEvaluator",
    "argument `models=None`",
    "argument `metrics=None`",
    "argument `aggregation_method=None`",
    "argument `max_concurrent_judges=None`",
    "argument `run_parallel=True`",
    "argument `refusal_metric=None`",
    "argument `batch_status_check_interval=DefaultValues.BATCH_STATUS_CHECK_INTERVAL`",
    "argument `batch_max_iterations=DefaultValues.BATCH_MAX_ITERATIONS`",
    "argument `metrics_aggregator=None`",
    "argument `fallback_models=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "ClassicalRetrievalEvaluator",
    "argument `metrics=None`",
    "argument `k=20`",
    "argument `metrics_aggregator=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "CompositeEvaluator",
    "argument `metrics`",
    "argument `name='composite'`",
    "argument `parallel=True`",
    "argument `metrics_aggregator=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "GEvalGenerationEvaluator",
    "argument `models=None`",
    "argument `metrics=None`",
    "argument `aggregation_method=None`",
    "argument `max_concurrent_judges=None`",
    "argument `run_parallel=True`",
    "argument `refusal_metric=None`",
    "argument `batch_status_check_interval=DefaultValues.BATCH_STATUS_CHECK_INTERVAL`",
    "argument `batch_max_iterations=DefaultValues.BATCH_MAX_ITERATIONS`",
    "argument `metrics_aggregator=None`",
    "argument `fallback_models=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "LMBasedRetrievalEvaluator",
    "argument `models=None`",
    "argument `metrics=None`",
    "argument `enabled_metrics=None`",
    "argument `run_parallel=True`",
    "argument `metrics_aggregator=None`",
    "argument `fallback_models=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator",
    "argument `models=None`",
    "argument `completeness_metric=None`",
    "argument `groundedness_metric=None`",
    "argument `redundancy_metric=None`",
    "argument `aggregation_method=None`",
    "argument `max_concurrent_judges=None`",
    "argument `run_parallel=True`",
    "argument `score_mapping=None`",
    "argument `score_weights=None`",
    "argument `batch_status_check_interval=DefaultValues.BATCH_STATUS_CHECK_INTERVAL`",
    "argument `batch_max_iterations=DefaultValues.BATCH_MAX_ITERATIONS`",
    "argument `metrics_aggregator=None`",
    "argument `fallback_models=None`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "SummarizationEvaluator",
    "argument `models=None`",
    "argument `metrics=None`",
    "argument `aggregation_method=DefaultValues.AGGREGATION_METHOD`",
    "argument `run_parallel=True`",
    "argument `batch_status_check_interval=DefaultValues.BATCH_STATUS_CHECK_INTERVAL`",
    "argument `batch_max_iterations=DefaultValues.BATCH_MAX_ITERATIONS`",
    "argument `metrics_aggregator=None`",
    "argument `fallback_models=None`",
)
def test_arguments_and_their_defaults_in_order(request: pytest.FixtureRequest) -> None:
    for name, documented in rows(request):
        for text, (ours, taken) in zip(
            documented, inspect.signature(named(name, MODULES)).parameters.items(), strict=True
        ):
            argument, _, default = text.partition("=")
            assert argument == ours, name
            assert taken.default == (eval(default, {}, names()) if default else taken.empty), f"{name}: {text}"


@pytest.mark.claims(
    "gllm-evals-evaluators",
    "Evaluator",
    "`BaseGenerationEvaluator` is an evaluator: `issubclass(BaseGenerationEvaluator, BaseEvaluator)`",
    "`GEvalGenerationEvaluator` is an evaluator: `issubclass(GEvalGenerationEvaluator, BaseEvaluator)`",
    "`ClassicalRetrievalEvaluator` is an evaluator: `issubclass(ClassicalRetrievalEvaluator, BaseEvaluator)`",
    "`LMBasedRetrievalEvaluator` is an evaluator: `issubclass(LMBasedRetrievalEvaluator, BaseEvaluator)`",
    "`CompositeEvaluator` is an evaluator: `issubclass(CompositeEvaluator, BaseEvaluator)`",
    "`QTEvaluator` is an evaluator: `issubclass(QTEvaluator, BaseEvaluator)`",
    "`AgentEvaluator` is an evaluator: `issubclass(AgentEvaluator, BaseEvaluator)`",
    "`SummarizationEvaluator` is an evaluator: `issubclass(SummarizationEvaluator, BaseEvaluator)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "AgentEvaluator",
    "attribute `name`: `AgentEvaluator(judge).name == 'agent'`",
    "attribute `tool_correctness_metric`: `isinstance(AgentEvaluator(judge).tool_correctness_metric, DeepEvalToolCorrectnessMetric)`",
    "attribute `generation_evaluator`: `isinstance(AgentEvaluator(judge).generation_evaluator, GEvalGenerationEvaluator)`",
    "attribute `trajectory_accuracy_metric`: `isinstance(AgentEvaluator(judge, trajectory_accuracy_metric=LangChainAgentTrajectoryAccuracyMetric()).trajectory_accuracy_metric, LangChainAgentTrajectoryAccuracyMetric)`",
    "attribute `metrics_aggregator`: `isinstance(AgentEvaluator(judge).metrics_aggregator, MetricsAggregator)`",
    "the accuracy of the trajectory is off by default: `AgentEvaluator(judge).trajectory_accuracy_metric is None`",
    "generation is graded by three metrics: `len(AgentEvaluator(judge).generation_evaluator.metrics) == 3`",
    "the metric of tool calls that is passed in is used: `AgentEvaluator(judge, tool_correctness_metric=tools).tool_correctness_metric is tools`",
    "input `agent_trajectory`: `'agent_trajectory' in AgentEvaluator.get_input_fields()`",
    "input `expected_agent_trajectory`: `'expected_agent_trajectory' in AgentEvaluator.get_input_fields()`",
    "input `input`: `'input' in AgentEvaluator.get_input_fields()`",
    "input `actual_output`: `'actual_output' in AgentEvaluator.get_input_fields()`",
    "input `expected_output`: `'expected_output' in AgentEvaluator.get_input_fields()`",
    "input `retrieved_context`: `'retrieved_context' in AgentEvaluator.get_input_fields()`",
    "`retrieved_context` is optional: `{'name': 'retrieved_context', 'required': False} in AgentEvaluator.get_input_spec()`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "AgentEvaluator.required_fields",
    "`agent_trajectory` is required: `'agent_trajectory' in AgentEvaluator(judge).required_fields`",
    "`input` is required: `'input' in AgentEvaluator(judge).required_fields`",
    "`actual_output` is required: `'actual_output' in AgentEvaluator(judge).required_fields`",
    "`expected_output` is required: `'expected_output' in AgentEvaluator(judge).required_fields`",
    "they are a set: `isinstance(AgentEvaluator(judge).required_fields, set)`",
    "those of the generation evaluator are among them: `AgentEvaluator(judge).generation_evaluator.required_fields <= AgentEvaluator(judge).required_fields`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "AgentEvaluator.format_tool_violation",
    "it takes `tool_score`, `tool_passed` and `tool_threshold`: `isinstance(AgentEvaluator.format_tool_violation(tool_score=0.25, tool_passed=False, tool_threshold=0.5), str)`",
    "the message has the score: `'0.25' in AgentEvaluator.format_tool_violation(0.25, False, 0.5)`",
    "the message has the threshold: `'0.5' in AgentEvaluator.format_tool_violation(0.25, False, 0.5)`",
    "it says whether the tool passed: `AgentEvaluator.format_tool_violation(0.75, True, 0.5) != AgentEvaluator.format_tool_violation(0.75, False, 0.5)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator",
    "attribute `name`: `BaseEvaluator('mine', [bleu]).name == 'mine'`",
    "attribute `required_fields`: `BaseEvaluator('mine', [bleu]).required_fields == {'actual_output', 'expected_output'}`",
    "attribute `input_type`: `BaseEvaluator('mine', [bleu]).input_type is None`",
    "without `metrics` there are none: `BaseEvaluator('mine').metrics == []`",
    "`metrics` are those given: `len(BaseEvaluator('mine', [bleu]).metrics) == 1`",
    "the default of `batch_status_check_interval` is 30 seconds: `BaseEvaluator('mine', batch_status_check_interval=30.0).batch_status_check_interval == 30`",
    "the default of `batch_max_iterations` is 120: `BaseEvaluator('mine', batch_max_iterations=120).batch_max_iterations == 120`",
    "an aggregator of its own by default: `type(BaseEvaluator('mine').metrics_aggregator) is MetricsAggregator`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.aggregate_required_fields",
    "`union` has what any metric requires: `BaseEvaluator.aggregate_required_fields([GEvalFluencyMetric(), GEvalCompletenessMetric()], 'union') == {'input', 'actual_output', 'expected_output'}`",
    "`intersection` has what all require: `BaseEvaluator.aggregate_required_fields([GEvalFluencyMetric(), GEvalCompletenessMetric()], mode='intersection') == {'input', 'actual_output'}`",
    "`any` has nothing: `BaseEvaluator.aggregate_required_fields([GEvalFluencyMetric(), GEvalCompletenessMetric()], 'any') == set()`",
    "the default is `any`: `BaseEvaluator.aggregate_required_fields([GEvalFluencyMetric(), GEvalCompletenessMetric()]) == set()`",
    "a static method: `isinstance(BaseEvaluator.__dict__['aggregate_required_fields'], staticmethod)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.can_evaluate_any",
    "true where one metric has its inputs: `BaseEvaluator.can_evaluate_any([GEvalFluencyMetric(), GEvalCompletenessMetric()], {'input': 'q', 'actual_output': 'a'}) is True`",
    "false where none has: `BaseEvaluator.can_evaluate_any([GEvalFluencyMetric(), GEvalCompletenessMetric()], {'actual_output': 'a'}) is False`",
    "a static method: `isinstance(BaseEvaluator.__dict__['can_evaluate_any'], staticmethod)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.ensure_list_of_dicts",
    "it takes a field that fits: `BaseEvaluator.ensure_list_of_dicts({'calls': [{}]}, 'calls') is None`",
    "a static method: `isinstance(BaseEvaluator.__dict__['ensure_list_of_dicts'], staticmethod)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.ensure_non_empty_list",
    "it takes a field that fits: `BaseEvaluator.ensure_non_empty_list({'calls': ['x']}, 'calls') is None`",
    "a static method: `isinstance(BaseEvaluator.__dict__['ensure_non_empty_list'], staticmethod)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.evaluate",
    "it is awaited: `iscoroutinefunction(BaseEvaluator.evaluate)`",
    "one item has one result: `evaluated(BaseEvaluator('mine', [bleu]), answer)['aggregate_success'] is True`",
    "a list has a list: `len(evaluated(BaseEvaluator('mine', [bleu]), [answer, answer])) == 2`",
    "the result has `aggregate_explanation`: `'bleu' in evaluated(BaseEvaluator('mine', [bleu]), answer)['aggregate_explanation']`",
    "the result of each metric is under its name: `evaluated(BaseEvaluator('mine', [bleu]), answer)['bleu']['score'] == 1.0`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.get_input_fields",
    "names of the inputs, in a list: `ClassicalRetrievalEvaluator.get_input_fields() == ['retrieved_chunks', 'ground_truth_chunk_ids']`",
    "none without `input_type`: `BaseEvaluator.get_input_fields() is None`",
    "a class method: `isinstance(BaseEvaluator.__dict__['get_input_fields'], classmethod)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.get_input_spec",
    "a mapping for each input: `ClassicalRetrievalEvaluator.get_input_spec()[0] == {'name': 'retrieved_chunks', 'required': True}`",
    "none without `input_type`: `BaseEvaluator.get_input_spec() is None`",
    "a class method: `isinstance(BaseEvaluator.__dict__['get_input_spec'], classmethod)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseGenerationEvaluator",
    "`input` is required: `{'name': 'input', 'required': True} in BaseGenerationEvaluator.get_input_spec()`",
    "`actual_output` is required: `{'name': 'actual_output', 'required': True} in BaseGenerationEvaluator.get_input_spec()`",
    "`expected_output` is required: `{'name': 'expected_output', 'required': True} in BaseGenerationEvaluator.get_input_spec()`",
    "`retrieved_context` is an optional input: `{'name': 'retrieved_context', 'required': False} in BaseGenerationEvaluator.get_input_spec()`",
    "attribute `name`: `BaseGenerationEvaluator(judge).name == 'generation'`",
    "attribute `metrics`: `[BaseGenerationEvaluator(judge).metrics[0].name, BaseGenerationEvaluator(judge).metrics[1].name, BaseGenerationEvaluator(judge).metrics[2].name] == ['completeness', 'groundedness', 'redundancy']`",
    "attribute `run_parallel`: `BaseGenerationEvaluator(judge, run_parallel=False).run_parallel is False`",
    "attribute `metrics_aggregator`: `isinstance(BaseGenerationEvaluator(judge).metrics_aggregator, MetricsAggregator)`",
    "attribute `models`: `BaseGenerationEvaluator(judge).models is judge`",
    "without `refusal_metric` the built-in one is used: `isinstance(BaseGenerationEvaluator(judge).refusal_metric, GEvalRefusalMetric)`",
    "`metrics` replace the built-in ones: `BaseGenerationEvaluator(judge, [GEvalFluencyMetric()]).metrics[0].name == 'fluency'`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "GEvalGenerationEvaluator",
    "a `BaseGenerationEvaluator`: `issubclass(GEvalGenerationEvaluator, BaseGenerationEvaluator)`",
    "`input` is required: `{'name': 'input', 'required': True} in GEvalGenerationEvaluator.get_input_spec()`",
    "`actual_output` is required: `{'name': 'actual_output', 'required': True} in GEvalGenerationEvaluator.get_input_spec()`",
    "`expected_output` is required: `{'name': 'expected_output', 'required': True} in GEvalGenerationEvaluator.get_input_spec()`",
    "`retrieved_context` is an optional input: `{'name': 'retrieved_context', 'required': False} in GEvalGenerationEvaluator.get_input_spec()`",
    "attribute `name`: `GEvalGenerationEvaluator(judge).name == 'generation'`",
    "attribute `metrics`: `[GEvalGenerationEvaluator(judge).metrics[0].name, GEvalGenerationEvaluator(judge).metrics[1].name, GEvalGenerationEvaluator(judge).metrics[2].name] == ['completeness', 'groundedness', 'redundancy']`",
    "attribute `run_parallel`: `GEvalGenerationEvaluator(judge, run_parallel=False).run_parallel is False`",
    "attribute `metrics_aggregator`: `isinstance(GEvalGenerationEvaluator(judge).metrics_aggregator, MetricsAggregator)`",
    "attribute `models`: `GEvalGenerationEvaluator(judge).models is judge`",
    "without `refusal_metric` the built-in one is used: `isinstance(GEvalGenerationEvaluator(judge).refusal_metric, GEvalRefusalMetric)`",
    "`metrics` replace the built-in ones: `GEvalGenerationEvaluator(judge, [GEvalFluencyMetric()]).metrics[0].name == 'fluency'`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "ClassicalRetrievalEvaluator",
    "input `retrieved_chunks`: `'retrieved_chunks' in ClassicalRetrievalEvaluator.get_input_fields()`",
    "input `ground_truth_chunk_ids`: `'ground_truth_chunk_ids' in ClassicalRetrievalEvaluator.get_input_fields()`",
    "`RetrievalData` holds both: `RetrievalData(retrieved_chunks={'c': 0.9}, ground_truth_chunk_ids=['c']) == {'retrieved_chunks': {'c': 0.9}, 'ground_truth_chunk_ids': ['c']}`",
    "attribute `name`: `ClassicalRetrievalEvaluator().name == 'classical_retrieval'`",
    "attribute `k`: `ClassicalRetrievalEvaluator(k=5).k == 5`",
    "attribute `metrics`: `ClassicalRetrievalEvaluator(['mrr_at_k'], k=3).metrics[0].name == 'mrr_at_3'`",
    "all metrics by default: `len(ClassicalRetrievalEvaluator().metrics) == 6`",
    "20 chunks count by default: `ClassicalRetrievalEvaluator().metrics[0].name.endswith('_20')`",
    "`k` may be a list: `len(ClassicalRetrievalEvaluator(['recall_at_k'], k=[1, 5]).metrics) == 2`",
    "a metric itself may be given: `ClassicalRetrievalEvaluator([ClassicalRetrievalMetric('recall_at_k', 2)]).metrics[0].name == 'recall_at_2'`",
    "chunks are ranked by their scores: `evaluated(ClassicalRetrievalEvaluator(['mrr_at_k']), found)['mrr_at_20']['score'] == 1.0`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "ClassicalRetrievalEvaluator.required_fields",
    "both inputs are required: `ClassicalRetrievalEvaluator().required_fields == {'retrieved_chunks', 'ground_truth_chunk_ids'}`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "CompositeEvaluator",
    "attribute `metrics`: `len(CompositeEvaluator([bleu]).metrics) == 1`",
    "attribute `name`: `CompositeEvaluator([bleu], name='both').name == 'both'`",
    "attribute `parallel`: `CompositeEvaluator([bleu], parallel=False).parallel is False`",
    "attribute `metrics_aggregator`: `isinstance(CompositeEvaluator([bleu]).metrics_aggregator, MetricsAggregator)`",
    "the default name is `composite`: `CompositeEvaluator([bleu]).name == 'composite'`",
    "one result of its metrics: `evaluated(CompositeEvaluator([bleu]), answer)['aggregate_score'] == 1.0`",
    "metrics may run one by one: `evaluated(CompositeEvaluator([bleu], parallel=False), answer)['aggregate_success'] is True`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "LMBasedRetrievalEvaluator",
    "input `input`: `{'name': 'input', 'required': True} in LMBasedRetrievalEvaluator.get_input_spec()`",
    "input `expected_output`: `{'name': 'expected_output', 'required': True} in LMBasedRetrievalEvaluator.get_input_spec()`",
    "input `retrieved_context`: `{'name': 'retrieved_context', 'required': True} in LMBasedRetrievalEvaluator.get_input_spec()`",
    "attribute `name`: `LMBasedRetrievalEvaluator(judge).name == 'lm_retrieval'`",
    "attribute `metrics`: `len(LMBasedRetrievalEvaluator(judge).metrics) == 2`",
    "attribute `enabled_metrics`: `LMBasedRetrievalEvaluator(judge, enabled_metrics=['contextual_recall']).enabled_metrics == ['contextual_recall']`",
    "attribute `run_parallel`: `LMBasedRetrievalEvaluator(judge, run_parallel=False).run_parallel is False`",
    "contextual precision by default: `isinstance(LMBasedRetrievalEvaluator(judge).metrics[0], DeepEvalContextualPrecisionMetric)`",
    "contextual recall by default: `isinstance(LMBasedRetrievalEvaluator(judge).metrics[1], DeepEvalContextualRecallMetric)`",
    "`enabled_metrics` may have names: `LMBasedRetrievalEvaluator(judge, enabled_metrics=['contextual_recall']).metrics[0].name == 'contextual_recall'`",
    "`enabled_metrics` may have classes: `LMBasedRetrievalEvaluator(judge, enabled_metrics=[DeepEvalContextualRecallMetric]).metrics[0].name == 'contextual_recall'`",
    "one of `metrics` replaces the default of its name: `len(LMBasedRetrievalEvaluator(judge, [DeepEvalContextualRecallMetric(threshold=0.9)]).metrics) == 2`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "LMBasedRetrievalEvaluator.required_fields",
    "the union over its metrics: `LMBasedRetrievalEvaluator(judge).required_fields == {'input', 'expected_output', 'retrieved_context'}`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator",
    "input `input`: `'input' in QTEvaluator.get_input_fields()`",
    "input `expected_output`: `'expected_output' in QTEvaluator.get_input_fields()`",
    "input `actual_output`: `'actual_output' in QTEvaluator.get_input_fields()`",
    "attribute `completeness_metric`: `QTEvaluator(judge).completeness_metric.name == 'completeness'`",
    "attribute `hallucination_metric`: `QTEvaluator(judge).hallucination_metric.name == 'groundedness'`",
    "attribute `redundancy_metric`: `QTEvaluator(judge).redundancy_metric.name == 'redundancy'`",
    "attribute `run_parallel`: `QTEvaluator(judge, run_parallel=False).run_parallel is False`",
    "attribute `score_mapping`: `QTEvaluator(judge, score_mapping={'completeness': {1: 0.0, 2: 0.5, 3: 1.0}}).score_mapping == {'completeness': {1: 0.0, 2: 0.5, 3: 1.0}}`",
    "attribute `score_weights`: `QTEvaluator(judge, score_weights={'completeness': 2}).score_weights == {'completeness': 2}`",
    "`groundedness_metric` is that of `hallucination_metric`: `queries.hallucination_metric is queries.groundedness_metric`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator.required_fields",
    "`input` is required: `'input' in QTEvaluator(judge).required_fields`",
    "`expected_output` is required: `'expected_output' in QTEvaluator(judge).required_fields`",
    "`actual_output` is required: `'actual_output' in QTEvaluator(judge).required_fields`",
    "they are a set: `isinstance(QTEvaluator(judge).required_fields, set)`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "SummarizationEvaluator",
    "input `input`: `{'name': 'input', 'required': True} in SummarizationEvaluator.get_input_spec()`",
    "input `actual_output`: `{'name': 'actual_output', 'required': True} in SummarizationEvaluator.get_input_spec()`",
    "four metrics by default: `len(SummarizationEvaluator(judge).metrics) == 4`",
    "coherence is one of them: `SummarizationEvaluator(judge).metrics[0].name == 'coherence'`",
    "consistency is one of them: `SummarizationEvaluator(judge).metrics[1].name == 'consistency'`",
    "fluency is one of them: `SummarizationEvaluator(judge).metrics[2].name == 'fluency'`",
    "relevance is one of them: `SummarizationEvaluator(judge).metrics[3].name == 'relevance'`",
    "nothing else is required: `SummarizationEvaluator(judge).required_fields == {'input', 'actual_output'}`",
    "`metrics` replace them: `len(SummarizationEvaluator(judge, [GEvalFluencyMetric()]).metrics) == 1`",
    "attribute `run_parallel`: `SummarizationEvaluator(judge, run_parallel=False).run_parallel is False`",
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names())


@pytest.mark.claims(
    "gllm-evals-evaluators",
    "SummarizationEvaluator",
    "its base is `BaseGenerationEvaluator`: `not issubclass(SummarizationEvaluator, BaseGenerationEvaluator)`",
    differs="Its base is `BaseEvaluator`: it has no metric of refusals and needs no expected output.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator",
    "it is abstract: `not isabstract(BaseEvaluator)`",
    differs="It runs the metrics that it is given, so it can be used as it is.",
)
def test_what_holds_in_another_way(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names())


@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator",
    "`batch_status_check_interval` must be positive: `BaseEvaluator('mine', batch_status_check_interval=0)`",
    "`batch_max_iterations` must be positive: `BaseEvaluator('mine', batch_max_iterations=0)`",
    "`name` is required: `BaseEvaluator()`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.aggregate_required_fields",
    "another `mode` is refused: `BaseEvaluator.aggregate_required_fields([], 'some')`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.ensure_list_of_dicts",
    "a field that is not a list is refused: `BaseEvaluator.ensure_list_of_dicts({'calls': {}}, 'calls')`",
    "a list of other values is refused: `BaseEvaluator.ensure_list_of_dicts({'calls': ['x']}, 'calls')`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator.ensure_non_empty_list",
    "a field that is not a list is refused: `BaseEvaluator.ensure_non_empty_list({'calls': 'x'}, 'calls')`",
    "an empty list is refused: `BaseEvaluator.ensure_non_empty_list({'calls': []}, 'calls')`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseGenerationEvaluator",
    "`models` with something else is refused: `BaseGenerationEvaluator([3])`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator",
    "`models` with something else is refused: `QTEvaluator([3])`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "CompositeEvaluator",
    "`metrics` is required: `CompositeEvaluator()`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "LMBasedRetrievalEvaluator",
    "an unknown name in `enabled_metrics` is refused: `LMBasedRetrievalEvaluator(judge, enabled_metrics=['nothing'])`",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator",
    "`batch_status_check_interval` of another length: `BaseEvaluator('mine', batch_status_check_interval=10.0)`",
    "`batch_max_iterations` of another number: `BaseEvaluator('mine', batch_max_iterations=5)`",
    refused="Leave it out: judges are called one by one, not in batch jobs of a provider.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseGenerationEvaluator",
    "`batch_status_check_interval` of another length: `BaseGenerationEvaluator(batch_status_check_interval=10.0)`",
    "`batch_max_iterations` of another number: `BaseGenerationEvaluator(batch_max_iterations=5)`",
    refused="Leave it out: judges are called one by one, not in batch jobs of a provider.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "GEvalGenerationEvaluator",
    "`batch_status_check_interval` of another length: `GEvalGenerationEvaluator(batch_status_check_interval=10.0)`",
    "`batch_max_iterations` of another number: `GEvalGenerationEvaluator(batch_max_iterations=5)`",
    refused="Leave it out: judges are called one by one, not in batch jobs of a provider.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator",
    "`batch_status_check_interval` of another length: `QTEvaluator(batch_status_check_interval=10.0)`",
    "`batch_max_iterations` of another number: `QTEvaluator(batch_max_iterations=5)`",
    refused="Leave it out: judges are called one by one, not in batch jobs of a provider.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "SummarizationEvaluator",
    "`batch_status_check_interval` of another length: `SummarizationEvaluator(batch_status_check_interval=10.0)`",
    "`batch_max_iterations` of another number: `SummarizationEvaluator(batch_max_iterations=5)`",
    refused="Leave it out: judges are called one by one, not in batch jobs of a provider.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "AgentEvaluator",
    "another `metrics_aggregator`: `AgentEvaluator(metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseEvaluator",
    "another `metrics_aggregator`: `BaseEvaluator('mine', metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseGenerationEvaluator",
    "another `metrics_aggregator`: `BaseGenerationEvaluator(metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "ClassicalRetrievalEvaluator",
    "another `metrics_aggregator`: `ClassicalRetrievalEvaluator(metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "CompositeEvaluator",
    "another `metrics_aggregator`: `CompositeEvaluator([bleu], metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "GEvalGenerationEvaluator",
    "another `metrics_aggregator`: `GEvalGenerationEvaluator(metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "LMBasedRetrievalEvaluator",
    "another `metrics_aggregator`: `LMBasedRetrievalEvaluator(metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator",
    "another `metrics_aggregator`: `QTEvaluator(metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "SummarizationEvaluator",
    "another `metrics_aggregator`: `SummarizationEvaluator(metrics_aggregator=own)`",
    refused="Scores are combined in one way; use `gates.summary` of the policy file for another.",
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request, names())


@pytest.mark.parametrize("kind", PANELISTS)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "AgentEvaluator",
    "`models` may be one model",
    "`models` may be a list of one model",
    "the same model several times in `models` grades so often",
    "different models in `models` all grade",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseGenerationEvaluator",
    "`models` may be one model",
    "`models` may be a list of one model",
    "the same model several times in `models` grades so often",
    "different models in `models` all grade",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "GEvalGenerationEvaluator",
    "`models` may be one model",
    "`models` may be a list of one model",
    "the same model several times in `models` grades so often",
    "different models in `models` all grade",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "LMBasedRetrievalEvaluator",
    "`models` may be one model",
    "`models` may be a list of one model",
    "the same model several times in `models` grades so often",
    "different models in `models` all grade",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator",
    "`models` may be one model",
    "`models` may be a list of one model",
    "the same model several times in `models` grades so often",
    "different models in `models` all grade",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "SummarizationEvaluator",
    "`models` may be one model",
    "`models` may be a list of one model",
    "the same model several times in `models` grades so often",
    "different models in `models` all grade",
)
def test_one_model_or_several_grade(models: FakeModels, model: DeepEvalModelConfig, kind: str) -> None:
    other = model.model_copy(update={"model_name": "other"})
    evaluator = named(kind, MODULES)
    calls = []
    for given in (model, [model], [model, model], [model, other]):
        before = len(models.requests)
        evaluated(evaluator(given), DATA)
        calls.append(sorted(request.model for request in models.requests[before:]))
    one, alone, twice, both = calls
    assert {*one} == {"judge"}
    assert alone == one
    assert twice == one * 2
    assert both == one + ["other"] * len(one)


@pytest.mark.claims(
    "gllm-evals-evaluators",
    "AgentEvaluator",
    "without `models` a default model grades",
    differs="Name the model: nothing is sent to a model that was not chosen.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "BaseGenerationEvaluator",
    "without `models` a default model grades",
    differs="Name the model: nothing is sent to a model that was not chosen.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "GEvalGenerationEvaluator",
    "without `models` a default model grades",
    differs="Name the model: nothing is sent to a model that was not chosen.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "LMBasedRetrievalEvaluator",
    "without `models` a default model grades",
    differs="Name the model: nothing is sent to a model that was not chosen.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "QTEvaluator",
    "without `models` a default model grades",
    differs="Name the model: nothing is sent to a model that was not chosen.",
)
@pytest.mark.claims(
    "gllm-evals-evaluators",
    "SummarizationEvaluator",
    "without `models` a default model grades",
    differs="Name the model: nothing is sent to a model that was not chosen.",
)
def test_without_a_model_there_is_no_judge(models: FakeModels) -> None:
    for kind in PANELISTS:
        with pytest.raises(named("EvaluationError"), match="no model"):
            asyncio.run(named(kind, MODULES)().evaluate(DATA))
    assert models.requests == []
