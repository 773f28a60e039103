"""The Azure AI metrics of HoloDeck's evaluation API, row by row."""

from __future__ import annotations

import pytest

from tests.conformance.expressions import check_that_all_are_refused, check_that_all_hold

pytestmark = pytest.mark.needs()


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ModelConfig",
    "a model of pydantic: `issubclass(ModelConfig, BaseModel)`",
    "field `azure_endpoint`: `azure.azure_endpoint == 'https://a.example'`",
    "field `azure_deployment`: `azure.azure_deployment == 'gpt-4o'`",
    "field `api_key`: `azure.api_key == 'azure-key'`",
    "field `api_version`, 2024-02-15-preview by default: `azure.api_version == '2024-02-15-preview'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "AzureAIEvaluator",
    "a `BaseEvaluator`: `issubclass(AzureAIEvaluator, BaseEvaluator)`",
    "`evaluate` is awaited: `iscoroutinefunction(AzureAIEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(AzureAIEvaluator.get_param_spec(), ParamSpec)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "GroundednessEvaluator",
    "an `AzureAIEvaluator`: `issubclass(GroundednessEvaluator, AzureAIEvaluator)`",
    "`name` is that of the class: `GroundednessEvaluator(azure).name == 'GroundednessEvaluator'`",
    "attribute `timeout`, in seconds: `GroundednessEvaluator(azure, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `GroundednessEvaluator(azure, timeout=None).timeout is None`",
    "attribute `retry_config`: `GroundednessEvaluator(azure, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `GroundednessEvaluator(azure).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(GroundednessEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(GroundednessEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `model_config`: `GroundednessEvaluator(azure).model_config == azure`",
    "requires no other input: `len(GroundednessEvaluator.get_param_spec().required) == 2`",
    "`query` is optional: `'query' not in GroundednessEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RelevanceEvaluator",
    "an `AzureAIEvaluator`: `issubclass(RelevanceEvaluator, AzureAIEvaluator)`",
    "`name` is that of the class: `RelevanceEvaluator(azure).name == 'RelevanceEvaluator'`",
    "attribute `timeout`, in seconds: `RelevanceEvaluator(azure, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `RelevanceEvaluator(azure, timeout=None).timeout is None`",
    "attribute `retry_config`: `RelevanceEvaluator(azure, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `RelevanceEvaluator(azure).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(RelevanceEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(RelevanceEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `model_config`: `RelevanceEvaluator(azure).model_config == azure`",
    "requires no other input: `len(RelevanceEvaluator.get_param_spec().required) == 2`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "CoherenceEvaluator",
    "an `AzureAIEvaluator`: `issubclass(CoherenceEvaluator, AzureAIEvaluator)`",
    "`name` is that of the class: `CoherenceEvaluator(azure).name == 'CoherenceEvaluator'`",
    "attribute `timeout`, in seconds: `CoherenceEvaluator(azure, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `CoherenceEvaluator(azure, timeout=None).timeout is None`",
    "attribute `retry_config`: `CoherenceEvaluator(azure, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `CoherenceEvaluator(azure).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(CoherenceEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(CoherenceEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `model_config`: `CoherenceEvaluator(azure).model_config == azure`",
    "requires no other input: `len(CoherenceEvaluator.get_param_spec().required) == 2`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "FluencyEvaluator",
    "an `AzureAIEvaluator`: `issubclass(FluencyEvaluator, AzureAIEvaluator)`",
    "`name` is that of the class: `FluencyEvaluator(azure).name == 'FluencyEvaluator'`",
    "attribute `timeout`, in seconds: `FluencyEvaluator(azure, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `FluencyEvaluator(azure, timeout=None).timeout is None`",
    "attribute `retry_config`: `FluencyEvaluator(azure, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `FluencyEvaluator(azure).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(FluencyEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(FluencyEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `model_config`: `FluencyEvaluator(azure).model_config == azure`",
    "requires no other input: `len(FluencyEvaluator.get_param_spec().required) == 2`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "SimilarityEvaluator",
    "an `AzureAIEvaluator`: `issubclass(SimilarityEvaluator, AzureAIEvaluator)`",
    "`name` is that of the class: `SimilarityEvaluator(azure).name == 'SimilarityEvaluator'`",
    "attribute `timeout`, in seconds: `SimilarityEvaluator(azure, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `SimilarityEvaluator(azure, timeout=None).timeout is None`",
    "attribute `retry_config`: `SimilarityEvaluator(azure, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `SimilarityEvaluator(azure).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(SimilarityEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(SimilarityEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `model_config`: `SimilarityEvaluator(azure).model_config == azure`",
    "requires no other input: `len(SimilarityEvaluator.get_param_spec().required) == 3`",
    "`ground_truth` is required: `'ground_truth' in SimilarityEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "Azure AI Metrics Summary",
    "`GroundednessEvaluator` requires `response`: `'response' in GroundednessEvaluator.get_param_spec().required`",
    "`GroundednessEvaluator` requires `context`: `'context' in GroundednessEvaluator.get_param_spec().required`",
    "`GroundednessEvaluator` may be given `query`: `'query' in GroundednessEvaluator.get_param_spec().optional`",
    "`RelevanceEvaluator` requires `response`: `'response' in RelevanceEvaluator.get_param_spec().required`",
    "`RelevanceEvaluator` requires `query`: `'query' in RelevanceEvaluator.get_param_spec().required`",
    "`RelevanceEvaluator` may be given `context`: `'context' in RelevanceEvaluator.get_param_spec().optional`",
    "`CoherenceEvaluator` requires `response`: `'response' in CoherenceEvaluator.get_param_spec().required`",
    "`CoherenceEvaluator` requires `query`: `'query' in CoherenceEvaluator.get_param_spec().required`",
    "`CoherenceEvaluator` has no optional input: `not CoherenceEvaluator.get_param_spec().optional`",
    "`FluencyEvaluator` requires `response`: `'response' in FluencyEvaluator.get_param_spec().required`",
    "`FluencyEvaluator` requires `query`: `'query' in FluencyEvaluator.get_param_spec().required`",
    "`FluencyEvaluator` has no optional input: `not FluencyEvaluator.get_param_spec().optional`",
    "`SimilarityEvaluator` requires `response`: `'response' in SimilarityEvaluator.get_param_spec().required`",
    "`SimilarityEvaluator` requires `query`: `'query' in SimilarityEvaluator.get_param_spec().required`",
    "`SimilarityEvaluator` requires `ground_truth`: `'ground_truth' in SimilarityEvaluator.get_param_spec().required`",
    "`SimilarityEvaluator` has no optional input: `not SimilarityEvaluator.get_param_spec().optional`",
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request)


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ModelConfig",
    "`azure_endpoint` is required: `ModelConfig(api_key='k', azure_deployment='gpt-4o')`",
    "`api_key` is required: `ModelConfig(azure_endpoint='https://a.example', azure_deployment='gpt-4o')`",
    "`azure_deployment` is required: `ModelConfig(azure_endpoint='https://a.example', api_key='k')`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api", "GroundednessEvaluator", "`model_config` is required: `GroundednessEvaluator()`"
)
@pytest.mark.claims(
    "holodeck-evaluation-api", "RelevanceEvaluator", "`model_config` is required: `RelevanceEvaluator()`"
)
@pytest.mark.claims(
    "holodeck-evaluation-api", "CoherenceEvaluator", "`model_config` is required: `CoherenceEvaluator()`"
)
@pytest.mark.claims("holodeck-evaluation-api", "FluencyEvaluator", "`model_config` is required: `FluencyEvaluator()`")
@pytest.mark.claims(
    "holodeck-evaluation-api", "SimilarityEvaluator", "`model_config` is required: `SimilarityEvaluator()`"
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request)
