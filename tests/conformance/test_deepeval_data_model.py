"""HoloDeck's data model of the DeepEval metrics, row by row."""

from __future__ import annotations

import pytest

from tests.conformance.expressions import Names, check_that_all_are_refused, check_that_all_hold, named

pytestmark = pytest.mark.needs("deepeval", "holodeck")
AZURE = {
    "provider": "azure_openai",
    "model_name": "gpt-4o",
    "endpoint": "https://a.example",
    "deployment_name": "judge",
    "api_key": "key",
}


def names() -> Names:
    return Names(without=lambda name: {key: value for key, value in AZURE.items() if key != name}, complete=AZURE)


@pytest.mark.full
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "Data Model: DeepEval Metrics Integration",
    "the evaluators are in `holodeck.lib.evaluators.deepeval`: `of('deepeval').GEvalEvaluator is GEvalEvaluator`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "Overview",
    "configuration is a model of pydantic: `issubclass(DeepEvalModelConfig, BaseModel)`",
    "input is a model of pydantic: `issubclass(EvaluationInput, BaseModel)`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1. Configuration Entities",
    "`DeepEvalModelConfig` has its import name: `of('deepeval.config').DeepEvalModelConfig is DeepEvalModelConfig`",
    "`GEvalConfig` has its import name: `of('deepeval.config').GEvalConfig is GEvalConfig`",
    "`RAGMetricConfig` has its import name: `of('deepeval.config').RAGMetricConfig is RAGMetricConfig`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.1 DeepEvalModelConfig",
    "`provider` may be `openai`: `ProviderEnum('openai') is ProviderEnum.OPENAI`",
    "`provider` may be `azure_openai`: `ProviderEnum('azure_openai') is ProviderEnum.AZURE_OPENAI`",
    "`provider` may be `anthropic`: `ProviderEnum('anthropic') is ProviderEnum.ANTHROPIC`",
    "`provider` may be `ollama`: `ProviderEnum('ollama') is ProviderEnum.OLLAMA`",
    "field `model_name`: `DeepEvalModelConfig(model_name='llama3').model_name == 'llama3'`",
    "field `api_key`: `DeepEvalModelConfig(provider='openai', model_name='gpt-4o', api_key='k').api_key == 'k'`",
    "`api_key` may be missing for Ollama: `DeepEvalModelConfig().api_key is None`",
    "field `endpoint`: `DeepEvalModelConfig(endpoint='http://localhost:1').endpoint == 'http://localhost:1'`",
    "field `api_version`: `DeepEvalModelConfig(**complete, api_version='2025-01-01').api_version == '2025-01-01'`",
    "the default of `api_version` for Azure is 2024-02-15-preview: `DeepEvalModelConfig(**complete).to_deepeval_model().api_version == '2024-02-15-preview'`",
    "field `deployment_name`: `DeepEvalModelConfig(**complete).deployment_name == 'judge'`",
    "field `temperature`, 0 by default: `DeepEvalModelConfig().temperature == 0.0`",
    "another `temperature`: `DeepEvalModelConfig(temperature=0.5).temperature == 0.5`",
    "Azure OpenAI becomes `AzureOpenAIModel`: `type(DeepEvalModelConfig(**complete).to_deepeval_model()).__name__ == 'AzureOpenAIModel'`",
    "Anthropic becomes `AnthropicModel`: `type(DeepEvalModelConfig(provider='anthropic', model_name='claude', api_key='k').to_deepeval_model()).__name__ == 'AnthropicModel'`",
    "Ollama becomes `OllamaModel`: `type(DeepEvalModelConfig().to_deepeval_model()).__name__ == 'OllamaModel'`",
    "the default provider is Ollama: `DeepEvalModelConfig().provider is ProviderEnum.OLLAMA`",
    "the default model is gpt-oss:20b: `DeepEvalModelConfig().model_name == 'gpt-oss:20b'`",
    "the default instance may be written out: `DeepEvalModelConfig(provider=ProviderEnum.OLLAMA, model_name='gpt-oss:20b', endpoint='http://localhost:11434', temperature=0.0).to_deepeval_model().name == 'gpt-oss:20b'`",
    "without an `endpoint` Ollama's is http://localhost:11434: `DeepEvalModelConfig().to_deepeval_model().base_url == 'http://localhost:11434'`",
    "an `endpoint` of Ollama counts: `DeepEvalModelConfig(endpoint='http://localhost:1').to_deepeval_model().base_url == 'http://localhost:1'`",
    "the name is handed to OpenAI's class: `DeepEvalModelConfig(provider='openai', model_name='gpt-4o', api_key='k').to_deepeval_model().name == 'gpt-4o'`",
    "the temperature is handed to OpenAI's class: `DeepEvalModelConfig(provider='openai', model_name='gpt-4o', api_key='k', temperature=0.5).to_deepeval_model().temperature == 0.5`",
    "the name is handed to Anthropic's class: `DeepEvalModelConfig(provider='anthropic', model_name='claude', api_key='k').to_deepeval_model().name == 'claude'`",
    "the temperature is handed to Anthropic's class: `DeepEvalModelConfig(provider='anthropic', model_name='claude', api_key='k', temperature=0.5).to_deepeval_model().temperature == 0.5`",
    "the temperature is handed to Ollama's class: `DeepEvalModelConfig(temperature=0.5).to_deepeval_model().temperature == 0.5`",
    "name of Azure's class: `DeepEvalModelConfig(**complete).to_deepeval_model().name == 'gpt-4o'`",
    "deployment of Azure's class: `DeepEvalModelConfig(**complete).to_deepeval_model().deployment_name == 'judge'`",
    "endpoint of Azure's class: `DeepEvalModelConfig(**complete).to_deepeval_model().base_url == 'https://a.example'`",
    "key of Azure's class: `DeepEvalModelConfig(**complete).to_deepeval_model().api_key.get_secret_value() == 'key'`",
    "version of Azure's class: `DeepEvalModelConfig(**complete, api_version='2025-01-01').to_deepeval_model().api_version == '2025-01-01'`",
    "temperature of Azure's class: `DeepEvalModelConfig(**complete, temperature=0.5).to_deepeval_model().temperature == 0.5`",
    "the key of OpenAI may come from a variable, so the field may be missing: `DeepEvalModelConfig(provider='openai', model_name='gpt-4o').api_key is None`",
    "the key of Anthropic may come from a variable, so the field may be missing: `DeepEvalModelConfig(provider='anthropic', model_name='claude').api_key is None`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.2 GEvalConfig",
    "field `name`: `GEvalConfig('Tone', 'polite').name == 'Tone'`",
    "field `criteria`: `GEvalConfig('Tone', 'polite').criteria == 'polite'`",
    "`evaluation_steps` may be missing: `GEvalConfig('Tone', 'polite').evaluation_steps is None`",
    "field `evaluation_steps`: `GEvalConfig('Tone', 'polite', evaluation_steps=['Look.']).evaluation_steps == ['Look.']`",
    "field `evaluation_params`: `GEvalConfig('Tone', 'polite', evaluation_params=['input', 'actual_output']).evaluation_params == ['input', 'actual_output']`",
    "`evaluation_params` may have `input`: `'input' in GEvalConfig('Tone', 'polite', evaluation_params=['actual_output', 'input']).evaluation_params`",
    "`evaluation_params` may have `expected_output`: `'expected_output' in GEvalConfig('Tone', 'polite', evaluation_params=['actual_output', 'expected_output']).evaluation_params`",
    "`evaluation_params` may have `context`: `'context' in GEvalConfig('Tone', 'polite', evaluation_params=['actual_output', 'context']).evaluation_params`",
    "`evaluation_params` may have `retrieval_context`: `'retrieval_context' in GEvalConfig('Tone', 'polite', evaluation_params=['actual_output', 'retrieval_context']).evaluation_params`",
    "`evaluation_params` may be `actual_output` alone: `GEvalConfig('Tone', 'polite', evaluation_params=['actual_output']).evaluation_params == ['actual_output']`",
    "`threshold` is 0.5 by default: `GEvalConfig('Tone', 'polite').threshold == 0.5`",
    "`strict_mode` is false by default: `GEvalConfig('Tone', 'polite').strict_mode is False`",
    "field `strict_mode`: `GEvalConfig('Tone', 'polite', strict_mode=True).strict_mode is True`",
    "`threshold` may be 0: `GEvalConfig('Tone', 'polite', threshold=0.0).threshold == 0`",
    "`threshold` may be 1: `GEvalConfig('Tone', 'polite', threshold=1.0).threshold == 1`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.3 RAGMetricConfig",
    "`threshold` is 0.5 by default: `RAGMetricConfig().threshold == 0.5`",
    "`include_reason` is true by default: `RAGMetricConfig().include_reason is True`",
    "`model_config` may be missing: `RAGMetricConfig().model_config is None`",
    "`model_config` of the metric: `RAGMetricConfig(model_config=judge).model_config is judge`",
    "it configures `FaithfulnessEvaluator`: `FaithfulnessEvaluator.from_config(RAGMetricConfig(threshold=0.2, model_config=judge)).threshold == 0.2`",
    "it configures `AnswerRelevancyEvaluator`: `AnswerRelevancyEvaluator.from_config(RAGMetricConfig(threshold=0.2, model_config=judge)).threshold == 0.2`",
    "it configures `ContextualRelevancyEvaluator`: `ContextualRelevancyEvaluator.from_config(RAGMetricConfig(threshold=0.2, model_config=judge)).threshold == 0.2`",
    "it configures `ContextualPrecisionEvaluator`: `ContextualPrecisionEvaluator.from_config(RAGMetricConfig(threshold=0.2, model_config=judge)).threshold == 0.2`",
    "it configures `ContextualRecallEvaluator`: `ContextualRecallEvaluator.from_config(RAGMetricConfig(threshold=0.2, model_config=judge)).threshold == 0.2`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "2. Input Entities",
    "`EvaluationInput` has its import name: `of('deepeval').EvaluationInput is EvaluationInput`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "2.1 EvaluationInput",
    "field `input`: `EvaluationInput(input='x', actual_output='a').input == 'x'`",
    "field `actual_output`: `EvaluationInput(actual_output='x').actual_output == 'x'`",
    "field `expected_output`: `EvaluationInput(expected_output='x', actual_output='a').expected_output == 'x'`",
    "field `context`: `EvaluationInput(context='x', actual_output='a').context == 'x'`",
    "field `retrieval_context`: `EvaluationInput(actual_output='a', retrieval_context=['c']).retrieval_context == ['c']`",
    "field `metadata`: `EvaluationInput(actual_output='a', metadata={'id': 1}).metadata == {'id': 1}`",
    "`expected_output` may be missing: `EvaluationInput(actual_output='a').expected_output is None`",
    "`context` may be missing: `EvaluationInput(actual_output='a').context is None`",
    "`retrieval_context` may be missing: `EvaluationInput(actual_output='a').retrieval_context is None`",
    "`metadata` may be missing: `EvaluationInput(actual_output='a').metadata is None`",
    "`query` is an alias of `input`: `EvaluationInput(query='q', actual_output='a').input == 'q'`",
    "`response` is an alias of `actual_output`: `EvaluationInput(response='a').actual_output == 'a'`",
    "`ground_truth` is an alias of `expected_output`: `EvaluationInput(response='a', ground_truth='t').expected_output == 't'`",
    "faithfulness needs no `input`: `'input' not in FaithfulnessEvaluator.get_param_spec().required`",
    "`AnswerRelevancyEvaluator` requires `input`: `'input' in AnswerRelevancyEvaluator.get_param_spec().required`",
    "`ContextualRelevancyEvaluator` requires `input`: `'input' in ContextualRelevancyEvaluator.get_param_spec().required`",
    "`ContextualPrecisionEvaluator` requires `input`: `'input' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "`ContextualRecallEvaluator` requires `input`: `'input' in ContextualRecallEvaluator.get_param_spec().required`",
    "`FaithfulnessEvaluator` requires `actual_output`: `'actual_output' in FaithfulnessEvaluator.get_param_spec().required`",
    "`AnswerRelevancyEvaluator` requires `actual_output`: `'actual_output' in AnswerRelevancyEvaluator.get_param_spec().required`",
    "`ContextualRelevancyEvaluator` requires `actual_output`: `'actual_output' in ContextualRelevancyEvaluator.get_param_spec().required`",
    "`ContextualPrecisionEvaluator` requires `actual_output`: `'actual_output' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "`ContextualRecallEvaluator` requires `actual_output`: `'actual_output' in ContextualRecallEvaluator.get_param_spec().required`",
    "`FaithfulnessEvaluator` requires `retrieval_context`: `'retrieval_context' in FaithfulnessEvaluator.get_param_spec().required`",
    "`ContextualRelevancyEvaluator` requires `retrieval_context`: `'retrieval_context' in ContextualRelevancyEvaluator.get_param_spec().required`",
    "`ContextualPrecisionEvaluator` requires `retrieval_context`: `'retrieval_context' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "`ContextualRecallEvaluator` requires `retrieval_context`: `'retrieval_context' in ContextualRecallEvaluator.get_param_spec().required`",
    "`ContextualPrecisionEvaluator` requires `expected_output`: `'expected_output' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "`ContextualRecallEvaluator` requires `expected_output`: `'expected_output' in ContextualRecallEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "3. Output Entities",
    "`EvaluationResult` has its import name: `of('deepeval').EvaluationResult is EvaluationResult`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "3.1 EvaluationResult",
    "field `score`: `EvaluationResult(0.5).score == 0.5`",
    "field `passed`: `EvaluationResult(0.5, passed=True).passed is True`",
    "field `reasoning`: `EvaluationResult(0.5, reasoning='why').reasoning == 'why'`",
    "field `metric_name`: `EvaluationResult(0.5, metric_name='GEval').metric_name == 'GEval'`",
    "field `threshold`: `EvaluationResult(0.5, threshold=0.7).threshold == 0.7`",
    "field `raw_score`: `EvaluationResult(0.5, raw_score=3.0).raw_score == 3`",
    "`raw_score` may be missing: `EvaluationResult(0.5).raw_score is None`",
    "field `evaluation_steps`: `EvaluationResult(0.5, evaluation_steps=('Look.',)).evaluation_steps == ('Look.',)`",
    "`evaluation_steps` may be missing: `EvaluationResult(0.5).evaluation_steps is None`",
    "field `metadata`: `EvaluationResult(0.5, metadata={'claims_count': 2}).metadata == {'claims_count': 2}`",
    "a score at its threshold passes: `EvaluationResult(0.5, threshold=0.5).passed is True`",
    "a score below its threshold does not pass: `EvaluationResult(0.4, threshold=0.5).passed is False`",
    "a score of 0 is a score: `EvaluationResult(0.0).score == 0`",
    "a score of 1 is a score: `EvaluationResult(1.0).score == 1`",
    "`reasoning` is never empty: `EvaluationResult(0.5, reasoning='').reasoning != ''`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "4. Error Entities",
    "`ProviderNotSupportedError` has its import name: `of('deepeval.errors').ProviderNotSupportedError is ProviderNotSupportedError`",
    "`DeepEvalError` has its import name: `of('deepeval.errors').DeepEvalError is DeepEvalError`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "4.1 ProviderNotSupportedError",
    "an `EvaluationError`: `issubclass(ProviderNotSupportedError, EvaluationError)`",
    "field `message`: `ProviderNotSupportedError('no', 'AzureAIEvaluator', 'openai', ['azure_openai']).message == 'no'`",
    "field `evaluator_type`: `ProviderNotSupportedError('no', 'AzureAIEvaluator', 'openai', ['azure_openai']).evaluator_type == 'AzureAIEvaluator'`",
    "field `configured_provider`: `ProviderNotSupportedError('no', 'AzureAIEvaluator', 'openai', ['azure_openai']).configured_provider == 'openai'`",
    "field `supported_providers`: `ProviderNotSupportedError('no', 'AzureAIEvaluator', 'openai', ['azure_openai']).supported_providers == ['azure_openai']`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "4.2 DeepEvalError",
    "an `EvaluationError`: `issubclass(DeepEvalError, EvaluationError)`",
    "field `message`: `DeepEvalError('failed', 'GEval').message == 'failed'`",
    "`original_error` may be missing: `DeepEvalError('failed', 'GEval').original_error is None`",
    "field `original_error`: `str(DeepEvalError('failed', 'GEval', ValueError('x')).original_error) == 'x'`",
    "field `metric_name`: `DeepEvalError('failed', 'GEval').metric_name == 'GEval'`",
    "field `test_case_summary`: `DeepEvalError('failed', 'GEval', None, {'input': 'q'}).test_case_summary == {'input': 'q'}`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "5. Entity Relationships",
    "`DeepEvalBaseEvaluator` inherits from `BaseEvaluator`: `issubclass(DeepEvalBaseEvaluator, BaseEvaluator)`",
    "`GEvalEvaluator` inherits from `DeepEvalBaseEvaluator`: `issubclass(GEvalEvaluator, DeepEvalBaseEvaluator)`",
    "`FaithfulnessEvaluator` inherits from `DeepEvalBaseEvaluator`: `issubclass(FaithfulnessEvaluator, DeepEvalBaseEvaluator)`",
    "`AnswerRelevancyEvaluator` inherits from `DeepEvalBaseEvaluator`: `issubclass(AnswerRelevancyEvaluator, DeepEvalBaseEvaluator)`",
    "`ContextualRelevancyEvaluator` inherits from `DeepEvalBaseEvaluator`: `issubclass(ContextualRelevancyEvaluator, DeepEvalBaseEvaluator)`",
    "`ContextualPrecisionEvaluator` inherits from `DeepEvalBaseEvaluator`: `issubclass(ContextualPrecisionEvaluator, DeepEvalBaseEvaluator)`",
    "`ContextualRecallEvaluator` inherits from `DeepEvalBaseEvaluator`: `issubclass(ContextualRecallEvaluator, DeepEvalBaseEvaluator)`",
    "a `GEvalConfig` configures its evaluator: `GEvalEvaluator.from_config(GEvalConfig('Tone', 'polite', threshold=0.9), model_config=judge).threshold == 0.9`",
    "an evaluator has its `DeepEvalModelConfig`: `FaithfulnessEvaluator(judge).model_config is judge`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "6. State Transitions",
    "an evaluator is configured when it is made: `FaithfulnessEvaluator(judge, threshold=0.8).threshold == 0.8`",
    "`max_retries` may be set: `RetryConfig(max_retries=2).max_retries == 2`",
    "`evaluate` is awaited: `iscoroutinefunction(DeepEvalBaseEvaluator.evaluate)`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "7. Validation Summary",
    "a complete configuration of Azure is accepted: `DeepEvalModelConfig(**complete).provider is ProviderEnum.AZURE_OPENAI`",
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names())


@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.1 DeepEvalModelConfig",
    "OpenAI becomes `GPTModel`: `type(DeepEvalModelConfig(provider='openai', model_name='gpt-4o', api_key='k').to_deepeval_model()).__name__ == 'OpenAIModel'`",
    differs="DeepEval renamed the class to `OpenAIModel`.",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "2.1 EvaluationInput",
    "`input` is required by the model: `EvaluationInput(actual_output='a').input is None`",
    differs="The metric decides: faithfulness has no need of it, and the others are an error without it.",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.2 GEvalConfig",
    "`evaluation_params` has no default: `GEvalConfig('Tone', 'polite').evaluation_params == ('actual_output',)`",
    differs="The default is the answer alone, as in the evaluator.",
)
def test_what_holds_in_another_way(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names())


@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.1 DeepEvalModelConfig",
    "Azure OpenAI without `endpoint` is refused: `DeepEvalModelConfig(**without('endpoint'))`",
    "Azure OpenAI without `deployment_name` is refused: `DeepEvalModelConfig(**without('deployment_name'))`",
    "Azure OpenAI without `api_key` is refused: `DeepEvalModelConfig(**without('api_key'))`",
    "a field that is not known is refused: `DeepEvalModelConfig(mood='good')`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.2 GEvalConfig",
    "empty `criteria` are refused: `GEvalConfig('Tone', '')`",
    "`evaluation_params` without `actual_output` are refused: `GEvalConfig('Tone', 'polite', evaluation_params=['input'])`",
    "another parameter is refused: `GEvalConfig('Tone', 'polite', evaluation_params=['actual_output', 'mood'])`",
    "`name` is required: `GEvalConfig(criteria='polite')`",
    "`criteria` is required: `GEvalConfig('Tone')`",
    "`threshold` above 1 is refused: `GEvalConfig('Tone', 'polite', threshold=1.1)`",
    "`threshold` below 0 is refused: `GEvalConfig('Tone', 'polite', threshold=-0.1)`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "1.3 RAGMetricConfig",
    "`threshold` above 1 is refused: `RAGMetricConfig(threshold=1.1)`",
    "`threshold` below 0 is refused: `RAGMetricConfig(threshold=-0.1)`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "2.1 EvaluationInput",
    "without `actual_output` it is refused: `EvaluationInput(input='q')`",
    "`retrieval_context` is a list: `EvaluationInput(actual_output='a', retrieval_context='c')`",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "7. Validation Summary",
    "`provider` must be known: `DeepEvalModelConfig(provider='mood', model_name='x')`",
    "`api_key` is required for Azure: `DeepEvalModelConfig(**without('api_key'))`",
    "`endpoint` is required for Azure: `DeepEvalModelConfig(**without('endpoint'))`",
    "`criteria` must not be empty: `GEvalConfig('Tone', ' ')`",
    "`threshold` of a G-Eval is from 0 to 1: `GEvalConfig('Tone', 'polite', threshold=2)`",
    "`evaluation_params` must contain `actual_output`: `GEvalConfig('Tone', 'polite', evaluation_params=[])`",
    "`actual_output` is required: `EvaluationInput()`",
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request, names())


@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "3.1 EvaluationResult",
    "a score above 1 is refused",
    "a score below 0 is refused",
    "`passed` that contradicts score and threshold is refused",
)
@pytest.mark.claims(
    "holodeck-deepeval-data-model",
    "7. Validation Summary",
    "a score is from 0 to 1",
    "`passed` is whether the score reaches the threshold",
)
def test_a_result_keeps_its_invariants() -> None:
    for wrong in ({"score": 1.1}, {"score": -0.1}, {"score": 0.4, "threshold": 0.5, "passed": True}):
        with pytest.raises(named("EvaluationError")):
            named("EvaluationResult", ("holodeck.lib.evaluators.deepeval",))(**wrong)
