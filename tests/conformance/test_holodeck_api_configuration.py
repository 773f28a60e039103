"""The configuration models of HoloDeck's evaluation API, row by row."""

from __future__ import annotations

import pytest

from tests.conformance.expressions import check_that_all_are_refused, check_that_all_hold

pytestmark = pytest.mark.needs()


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "Architecture Overview",
    "`BLEUEvaluator` is in `nlp_metrics.py`: `of('nlp_metrics').BLEUEvaluator is BLEUEvaluator`",
    "`ROUGEEvaluator` is in `nlp_metrics.py`: `of('nlp_metrics').ROUGEEvaluator is ROUGEEvaluator`",
    "`METEOREvaluator` is in `nlp_metrics.py`: `of('nlp_metrics').METEOREvaluator is METEOREvaluator`",
    "`AzureAIEvaluator` is in `azure_ai.py`: `of('azure_ai').AzureAIEvaluator is AzureAIEvaluator`",
    "`GroundednessEvaluator` is in `azure_ai.py`: `of('azure_ai').GroundednessEvaluator is GroundednessEvaluator`",
    "`RelevanceEvaluator` is in `azure_ai.py`: `of('azure_ai').RelevanceEvaluator is RelevanceEvaluator`",
    "`CoherenceEvaluator` is in `azure_ai.py`: `of('azure_ai').CoherenceEvaluator is CoherenceEvaluator`",
    "`FluencyEvaluator` is in `azure_ai.py`: `of('azure_ai').FluencyEvaluator is FluencyEvaluator`",
    "`SimilarityEvaluator` is in `azure_ai.py`: `of('azure_ai').SimilarityEvaluator is SimilarityEvaluator`",
    "`BaseEvaluator` is in `base.py`: `of('base').BaseEvaluator is BaseEvaluator`",
    "`DeepEvalBaseEvaluator` is in `deepeval/base.py`: `of('deepeval.base').DeepEvalBaseEvaluator is DeepEvalBaseEvaluator`",
    "`GEvalEvaluator` is in `deepeval/geval.py`: `of('deepeval.geval').GEvalEvaluator is GEvalEvaluator`",
    "`FaithfulnessEvaluator` is in `deepeval/faithfulness.py`: `of('deepeval.faithfulness').FaithfulnessEvaluator is FaithfulnessEvaluator`",
    "`AnswerRelevancyEvaluator` is in `deepeval/answer_relevancy.py`: `of('deepeval.answer_relevancy').AnswerRelevancyEvaluator is AnswerRelevancyEvaluator`",
    "`ContextualRelevancyEvaluator` is in `deepeval/contextual_relevancy.py`: `of('deepeval.contextual_relevancy').ContextualRelevancyEvaluator is ContextualRelevancyEvaluator`",
    "`ContextualPrecisionEvaluator` is in `deepeval/contextual_precision.py`: `of('deepeval.contextual_precision').ContextualPrecisionEvaluator is ContextualPrecisionEvaluator`",
    "`ContextualRecallEvaluator` is in `deepeval/contextual_recall.py`: `of('deepeval.contextual_recall').ContextualRecallEvaluator is ContextualRecallEvaluator`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "EvaluationConfig",
    "a model of pydantic: `issubclass(EvaluationConfig, BaseModel)`",
    "field `model`, none by default: `EvaluationConfig(metrics=[EvaluationMetric(metric='bleu')]).model is None`",
    "`model` is a default model: `EvaluationConfig(model=LLMProvider(provider='openai', name='gpt-4o'), metrics=[EvaluationMetric(metric='bleu')]).model.name == 'gpt-4o'`",
    "`metrics` may have an `EvaluationMetric`: `EvaluationConfig(metrics=[EvaluationMetric(metric='bleu')]).metrics[0].type == 'standard'`",
    "`metrics` may have a `GEvalMetric`: `EvaluationConfig(metrics=[GEvalMetric(name='Tone', criteria='polite')]).metrics[0].type == 'geval'`",
    "`metrics` may have a `RAGMetric`: `EvaluationConfig(metrics=[RAGMetric(metric_type='faithfulness')]).metrics[0].type == 'rag'`",
    "`metrics` may have a `CodeMetric`: `EvaluationConfig(metrics=[CodeMetric(grader='a.b:c')]).metrics[0].type == 'code'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "MetricType",
    "`type: standard` leads to its model: `EvaluationConfig(metrics=[{'type': 'standard', 'metric': 'bleu'}]).metrics[0].type == 'standard'`",
    "`type: geval` leads to its model: `EvaluationConfig(metrics=[{'type': 'geval', 'name': 'Tone', 'criteria': 'polite'}]).metrics[0].type == 'geval'`",
    "`type: rag` leads to its model: `EvaluationConfig(metrics=[{'type': 'rag', 'metric_type': 'faithfulness'}]).metrics[0].type == 'rag'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "EvaluationMetric",
    "`metric` may be `bleu`: `EvaluationMetric(metric='bleu').metric == 'bleu'`",
    "`metric` may be `rouge`: `EvaluationMetric(metric='rouge').metric == 'rouge'`",
    "`metric` may be `meteor`: `EvaluationMetric(metric='meteor').metric == 'meteor'`",
    "`type` is `standard`: `EvaluationMetric(metric='bleu').type == 'standard'`",
    "`enabled` is true by default: `EvaluationMetric(metric='bleu').enabled is True`",
    "`fail_on_error` is false by default: `EvaluationMetric(metric='bleu').fail_on_error is False`",
    "`threshold` may be missing: `EvaluationMetric(metric='bleu').threshold is None`",
    "`threshold` may be a whole number: `EvaluationMetric(metric='bleu', threshold=1).threshold == 1`",
    "`timeout_ms` may be missing: `EvaluationMetric(metric='bleu').timeout_ms is None`",
    "`retry_on_failure` may be missing: `EvaluationMetric(metric='bleu').retry_on_failure is None`",
    "`scale` may be missing: `EvaluationMetric(metric='bleu').scale is None`",
    "`custom_prompt` may be missing: `EvaluationMetric(metric='bleu').custom_prompt is None`",
    "`model` may be missing: `EvaluationMetric(metric='bleu').model is None`",
    "`retry_on_failure` may be 1: `EvaluationMetric(metric='bleu', retry_on_failure=1).retry_on_failure == 1`",
    "`retry_on_failure` may be 2: `EvaluationMetric(metric='bleu', retry_on_failure=2).retry_on_failure == 2`",
    "`retry_on_failure` may be 3: `EvaluationMetric(metric='bleu', retry_on_failure=3).retry_on_failure == 3`",
    "its own model: `EvaluationMetric(metric='groundedness', model={'provider': 'openai', 'name': 'gpt-4o'}).model.name == 'gpt-4o'`",
    "`scale` may be 5: `EvaluationMetric(metric='groundedness', scale=5).scale == 5`",
    "`timeout_ms` may be 1: `EvaluationMetric(metric='bleu', timeout_ms=1).timeout_ms == 1`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "GEvalMetric",
    "a model of pydantic: `issubclass(GEvalMetric, BaseModel)`",
    "`type` is `geval`: `GEvalMetric(name='Tone', criteria='polite').type == 'geval'`",
    "`threshold` may be missing: `GEvalMetric(name='Tone', criteria='polite').threshold is None`",
    "`threshold` may be 0: `GEvalMetric(name='Tone', criteria='polite', threshold=0.0).threshold == 0`",
    "`threshold` may be 1: `GEvalMetric(name='Tone', criteria='polite', threshold=1.0).threshold == 1`",
    "`evaluation_params` is the answer by default: `[*GEvalMetric(name='Tone', criteria='polite').evaluation_params] == ['actual_output']`",
    "`evaluation_steps` may be missing: `GEvalMetric(name='Tone', criteria='polite').evaluation_steps is None`",
    "`strict_mode` is false by default: `GEvalMetric(name='Tone', criteria='polite').strict_mode is False`",
    "the sample: `GEvalMetric(name='Professionalism', criteria='Evaluate if the response uses professional language', threshold=0.7).threshold == 0.7`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RAGMetric",
    "a model of pydantic: `issubclass(RAGMetric, BaseModel)`",
    "`type` is `rag`: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS).type == 'rag'`",
    "`threshold` is 0.5 by default: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS).threshold == 0.5`",
    "`include_reason` is true by default: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS).include_reason is True`",
    "`threshold` may be 0: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS, threshold=0.0).threshold == 0`",
    "`threshold` may be 1: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS, threshold=1.0).threshold == 1`",
    "the sample: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS, threshold=0.8).threshold == 0.8`",
    "a metric of kind `faithfulness`: `RAGMetric(metric_type='faithfulness').metric_type == 'faithfulness'`",
    "a metric of kind `contextual_relevancy`: `RAGMetric(metric_type='contextual_relevancy').metric_type == 'contextual_relevancy'`",
    "a metric of kind `contextual_precision`: `RAGMetric(metric_type='contextual_precision').metric_type == 'contextual_precision'`",
    "a metric of kind `contextual_recall`: `RAGMetric(metric_type='contextual_recall').metric_type == 'contextual_recall'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RAGMetricType",
    "a text: `issubclass(RAGMetricType, str)`",
    "an enumeration: `issubclass(RAGMetricType, Enum)`",
    "member `FAITHFULNESS`: `RAGMetricType.FAITHFULNESS == 'faithfulness'`",
    "member `ANSWER_RELEVANCY`: `RAGMetricType.ANSWER_RELEVANCY == 'answer_relevancy'`",
    "member `CONTEXTUAL_RELEVANCY`: `RAGMetricType.CONTEXTUAL_RELEVANCY == 'contextual_relevancy'`",
    "member `CONTEXTUAL_PRECISION`: `RAGMetricType.CONTEXTUAL_PRECISION == 'contextual_precision'`",
    "member `CONTEXTUAL_RECALL`: `RAGMetricType.CONTEXTUAL_RECALL == 'contextual_recall'`",
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request)


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "EvaluationConfig",
    "no metrics are refused: `EvaluationConfig(metrics=[])`",
    "`metrics` is required: `EvaluationConfig()`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "MetricType",
    "another `type` is refused: `EvaluationConfig(metrics=[{'type': 'other', 'metric': 'bleu'}])`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "EvaluationMetric",
    "an empty `custom_prompt` is refused: `EvaluationMetric(metric='groundedness', custom_prompt='')`",
    "a blank `custom_prompt` is refused: `EvaluationMetric(metric='groundedness', custom_prompt=' ')`",
    "`enabled` that is not a boolean is refused: `EvaluationMetric(metric='groundedness', enabled='perhaps')`",
    "`fail_on_error` that is not a boolean is refused: `EvaluationMetric(metric='groundedness', fail_on_error='perhaps')`",
    "`retry_on_failure` of 0 is refused: `EvaluationMetric(metric='groundedness', retry_on_failure=0)`",
    "`retry_on_failure` of 4 is refused: `EvaluationMetric(metric='groundedness', retry_on_failure=4)`",
    "`scale` of 0 is refused: `EvaluationMetric(metric='groundedness', scale=0)`",
    "a negative `scale` is refused: `EvaluationMetric(metric='groundedness', scale=-1)`",
    "`threshold` that is not a number is refused: `EvaluationMetric(metric='groundedness', threshold='high')`",
    "`timeout_ms` of 0 is refused: `EvaluationMetric(metric='groundedness', timeout_ms=0)`",
    "a negative `timeout_ms` is refused: `EvaluationMetric(metric='groundedness', timeout_ms=-1)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "GEvalMetric",
    "an empty `name` is refused: `GEvalMetric(name='', criteria='polite')`",
    "a blank `name` is refused: `GEvalMetric(name=' ', criteria='polite')`",
    "an empty `criteria` is refused: `GEvalMetric(name='Tone', criteria='')`",
    "a blank `criteria` is refused: `GEvalMetric(name='Tone', criteria=' ')`",
    "no `evaluation_params` are refused: `GEvalMetric(name='Tone', criteria='polite', evaluation_params=[])`",
    "unknown `evaluation_params` are refused: `GEvalMetric(name='Tone', criteria='polite', evaluation_params=['mood'])`",
    "a `threshold` above 1 is refused: `GEvalMetric(name='Tone', criteria='polite', threshold=1.5)`",
    "a negative `threshold` is refused: `GEvalMetric(name='Tone', criteria='polite', threshold=-0.5)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RAGMetric",
    "a `threshold` above 1 is refused: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS, threshold=1.1)`",
    "a negative `threshold` is refused: `RAGMetric(metric_type=RAGMetricType.FAITHFULNESS, threshold=-0.1)`",
    "another `metric_type` is refused: `RAGMetric(metric_type='mood')`",
    "`metric_type` is required: `RAGMetric()`",
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request)
