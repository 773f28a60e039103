"""The DeepEval metrics and their errors of HoloDeck's evaluation API, row by row."""

from __future__ import annotations

import pytest

from tests.conformance.expressions import check_that_all_are_refused, check_that_all_hold

pytestmark = pytest.mark.needs()


@pytest.mark.full
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalModelConfig",
    "a model of pydantic: `issubclass(DeepEvalModelConfig, BaseModel)`",
    "`provider` is Ollama by default: `DeepEvalModelConfig().provider is ProviderEnum.OLLAMA`",
    "`model_name` is gpt-oss:20b by default: `DeepEvalModelConfig().model_name == 'gpt-oss:20b'`",
    "`temperature` is 0 by default: `DeepEvalModelConfig().temperature == 0.0`",
    "field `api_key`, none by default: `DeepEvalModelConfig().api_key is None`",
    "field `endpoint`, none by default: `DeepEvalModelConfig().endpoint is None`",
    "field `api_version`, none by default: `DeepEvalModelConfig().api_version is None`",
    "field `deployment_name`, none by default: `DeepEvalModelConfig().deployment_name is None`",
    "Ollama needs no key: `DeepEvalModelConfig(provider='ollama', model_name='llama3.2').api_key is None`",
    "the default becomes DeepEval's class for Ollama: `type(DeepEvalModelConfig().to_deepeval_model()).__name__ == 'OllamaModel'`",
    "a configuration of Anthropic becomes DeepEval's class for it: `type(DeepEvalModelConfig(provider='anthropic', model_name='claude-x', api_key='k').to_deepeval_model()).__name__ == 'AnthropicModel'`",
    "a configuration of Azure becomes DeepEval's class for it: `type(DeepEvalModelConfig(provider='azure_openai', model_name='gpt-4o', endpoint='https://a.example', deployment_name='d', api_key='k').to_deepeval_model()).__name__ == 'AzureOpenAIModel'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalBaseEvaluator",
    "a `BaseEvaluator`: `issubclass(DeepEvalBaseEvaluator, BaseEvaluator)`",
    "`name` is that of the class: `DeepEvalBaseEvaluator(judge).name == 'DeepEvalBaseEvaluator'`",
    "attribute `timeout`, in seconds: `DeepEvalBaseEvaluator(judge, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `DeepEvalBaseEvaluator(judge, timeout=None).timeout is None`",
    "attribute `retry_config`: `DeepEvalBaseEvaluator(judge, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `DeepEvalBaseEvaluator(judge).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(DeepEvalBaseEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(DeepEvalBaseEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `DeepEvalBaseEvaluator(judge, threshold=0.8).threshold == 0.8`",
    "attribute `model_config`: `DeepEvalBaseEvaluator(judge).model_config is judge`",
    "attribute `model`, of DeepEval: `type(FaithfulnessEvaluator(judge).model).__name__ == 'OllamaModel'`",
    "subclasses implement `_create_metric`: `'_create_metric' in vars(DeepEvalBaseEvaluator)`",
    "`_threshold` is there for subclasses: `DeepEvalBaseEvaluator(judge, threshold=0.8)._threshold == 0.8`",
    "`_model` is there for subclasses: `type(DeepEvalBaseEvaluator(judge)._model).__name__ == 'OllamaModel'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalError",
    "an `EvaluationError`: `issubclass(DeepEvalError, EvaluationError)`",
    "attribute `metric_name`: `DeepEvalError('broken', 'Faithfulness').metric_name == 'Faithfulness'`",
    "attribute `original_error`: `type(DeepEvalError('broken', 'x', ValueError('y')).original_error) is ValueError`",
    "`test_case_summary` is empty unless given: `DeepEvalError('broken', 'x').test_case_summary == {}`",
    "attribute `test_case_summary`: `DeepEvalError('broken', 'x', None, {'input': 'a'}).test_case_summary == {'input': 'a'}`",
    "its text is the message: `str(DeepEvalError('broken', 'x')) == 'broken'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ProviderNotSupportedError",
    "an `EvaluationError`: `issubclass(ProviderNotSupportedError, EvaluationError)`",
    "attribute `evaluator_type`: `ProviderNotSupportedError('no', 'GroundednessEvaluator', 'ollama', ['azure_openai']).evaluator_type == 'GroundednessEvaluator'`",
    "attribute `configured_provider`: `ProviderNotSupportedError('no', 'GroundednessEvaluator', 'ollama', ['azure_openai']).configured_provider == 'ollama'`",
    "attribute `supported_providers`: `ProviderNotSupportedError('no', 'GroundednessEvaluator', 'ollama', ['azure_openai']).supported_providers == ['azure_openai']`",
    "its text is the message: `str(ProviderNotSupportedError('no', 'GroundednessEvaluator', 'ollama', ['azure_openai'])) == 'no'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "GEvalEvaluator",
    "a `DeepEvalBaseEvaluator`: `issubclass(GEvalEvaluator, DeepEvalBaseEvaluator)`",
    "`name` is the metric's own: `GEvalEvaluator('Tone', 'polite').name == 'Tone'`",
    "attribute `timeout`, in seconds: `GEvalEvaluator('Tone', 'polite', timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `GEvalEvaluator('Tone', 'polite', timeout=None).timeout is None`",
    "attribute `retry_config`: `GEvalEvaluator('Tone', 'polite', retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `GEvalEvaluator('Tone', 'polite').retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(GEvalEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(GEvalEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `GEvalEvaluator('Tone', 'polite', threshold=0.7).threshold == 0.7`",
    "attribute `_metric_name`: `GEvalEvaluator('Tone', 'polite')._metric_name == 'Tone'`",
    "attribute `_criteria`: `GEvalEvaluator('Tone', 'polite')._criteria == 'polite'`",
    "attribute `_evaluation_params`: `[*GEvalEvaluator('Tone', 'polite', ['input', 'actual_output'])._evaluation_params] == ['input', 'actual_output']`",
    "`evaluation_params` is the answer by default: `[*GEvalEvaluator('Tone', 'polite')._evaluation_params] == ['actual_output']`",
    "attribute `_evaluation_steps`: `[*GEvalEvaluator('Tone', 'polite', evaluation_steps=['Look.'])._evaluation_steps] == ['Look.']`",
    "no steps are there unless given: `GEvalEvaluator('Tone', 'polite')._evaluation_steps is None`",
    "attribute `_strict_mode`: `GEvalEvaluator('Tone', 'polite', strict_mode=True)._strict_mode is True`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "G-Eval YAML Configuration",
    "`evaluation_params` may have `input`: `GEvalMetric(name='Tone', criteria='polite', evaluation_params=['input', 'actual_output'])`",
    "`evaluation_params` may have `actual_output`: `GEvalMetric(name='Tone', criteria='polite', evaluation_params=['actual_output'])`",
    "`evaluation_params` may have `expected_output`: `GEvalMetric(name='Tone', criteria='polite', evaluation_params=['expected_output', 'actual_output'])`",
    "`evaluation_params` may have `context`: `GEvalMetric(name='Tone', criteria='polite', evaluation_params=['context', 'actual_output'])`",
    "`evaluation_params` may have `retrieval_context`: `GEvalMetric(name='Tone', criteria='polite', evaluation_params=['retrieval_context', 'actual_output'])`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalModelConfig",
    "DeepEval's class for Azure has a temperature of 1, here `DeepEvalModelConfig(provider='azure_openai', model_name='gpt-4o', endpoint='https://a.example', deployment_name='d', api_key='k').to_deepeval_model().temperature == 0.0`",
    differs="It has the temperature of the configuration, 0 by default.",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalModelConfig",
    "Ollama is asked at port 11434 of this machine by default: `DeepEvalModelConfig().to_deepeval_model().base_url == 'http://localhost:11434'`",
    "`endpoint` is Ollama's address: `DeepEvalModelConfig(endpoint='http://127.0.0.1:9').to_deepeval_model().base_url == 'http://127.0.0.1:9'`",
    "the model for Ollama has its name: `DeepEvalModelConfig(model_name='llama3.2').to_deepeval_model().name == 'llama3.2'`",
    "the model for Ollama has the temperature: `DeepEvalModelConfig(temperature=0.5).to_deepeval_model().temperature == 0.5`",
    "the model for OpenAI has its name: `DeepEvalModelConfig(provider='openai', model_name='gpt-4o', api_key='k').to_deepeval_model().name == 'gpt-4o'`",
    "the model for OpenAI has the temperature: `DeepEvalModelConfig(provider='openai', model_name='gpt-4o', api_key='k', temperature=0.5).to_deepeval_model().temperature == 0.5`",
    "the model for Anthropic has its name: `DeepEvalModelConfig(provider='anthropic', model_name='claude-x', api_key='k').to_deepeval_model().name == 'claude-x'`",
    "the model for Anthropic has the temperature: `DeepEvalModelConfig(provider='anthropic', model_name='claude-x', api_key='k', temperature=0.5).to_deepeval_model().temperature == 0.5`",
    "the model for Azure has the deployment: `DeepEvalModelConfig(provider='azure_openai', model_name='gpt-4o', endpoint='https://a.example', deployment_name='d', api_key='k', api_version='2024-10-21').to_deepeval_model().deployment_name == 'd'`",
    "the model for Azure has the address: `DeepEvalModelConfig(provider='azure_openai', model_name='gpt-4o', endpoint='https://a.example', deployment_name='d', api_key='k', api_version='2024-10-21').to_deepeval_model().base_url == 'https://a.example'`",
    "the model for Azure has the version of the API: `DeepEvalModelConfig(provider='azure_openai', model_name='gpt-4o', endpoint='https://a.example', deployment_name='d', api_key='k', api_version='2024-10-21').to_deepeval_model().api_version == '2024-10-21'`",
    "the model for Azure has the model's name: `DeepEvalModelConfig(provider='azure_openai', model_name='gpt-4o', endpoint='https://a.example', deployment_name='d', api_key='k', api_version='2024-10-21').to_deepeval_model().name == 'gpt-4o'`",
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request)


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DeepEvalModelConfig",
    "Azure OpenAI requires `endpoint`: `DeepEvalModelConfig(provider='azure_openai', model_name='m', deployment_name='d', api_key='k')`",
    "Azure OpenAI requires `deployment_name`: `DeepEvalModelConfig(provider='azure_openai', model_name='m', endpoint='https://a.example', api_key='k')`",
    "Azure OpenAI requires `api_key`: `DeepEvalModelConfig(provider='azure_openai', model_name='m', endpoint='https://a.example', deployment_name='d')`",
    "another provider is refused: `DeepEvalModelConfig(provider='other', model_name='m')`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "GEvalEvaluator",
    "`ValueError` for an unknown parameter: `GEvalEvaluator('Tone', 'polite', ['mood'])`",
    "`threshold` is at most 1: `GEvalEvaluator('Tone', 'polite', threshold=1.5)`",
    "`threshold` is at least 0: `GEvalEvaluator('Tone', 'polite', threshold=-0.5)`",
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request)
