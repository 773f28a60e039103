"""The base, the parameters and the text metrics of HoloDeck's evaluation API, row by row."""

from __future__ import annotations

import pytest

from tests.conformance.expressions import check_that_all_are_refused, check_that_all_hold

pytestmark = pytest.mark.needs()


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "BaseEvaluator",
    "an abstract class: `isabstract(BaseEvaluator)`",
    "`PARAM_SPEC` is a `ParamSpec` of the class: `isinstance(BaseEvaluator.PARAM_SPEC, ParamSpec)`",
    "the class says what it needs: `BaseEvaluator.get_param_spec() is BaseEvaluator.PARAM_SPEC`",
    "`evaluate` is awaited: `iscoroutinefunction(BaseEvaluator.evaluate)`",
    "`name` is a property: `isinstance(BaseEvaluator.name, property)`",
    "subclasses implement `_evaluate_impl`: `'_evaluate_impl' in BaseEvaluator.__abstractmethods__`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RetryConfig",
    "a model of pydantic: `issubclass(RetryConfig, BaseModel)`",
    "field `max_retries`, 3 by default: `RetryConfig().max_retries == 3`",
    "field `base_delay`, 2 seconds by default: `RetryConfig().base_delay == 2.0`",
    "field `max_delay`, 60 seconds by default: `RetryConfig().max_delay == 60.0`",
    "field `exponential_base`, 2 by default: `RetryConfig().exponential_base == 2.0`",
    "`max_retries` may be 0: `RetryConfig(max_retries=0).max_retries == 0`",
    "the sample: `RetryConfig(max_retries=3, base_delay=2.0) == RetryConfig()`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api", "EvaluationError", "an `Exception`: `issubclass(EvaluationError, Exception)`"
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "EvalParam",
    "a text: `issubclass(EvalParam, str)`",
    "an enumeration: `issubclass(EvalParam, Enum)`",
    "member `RESPONSE`: `EvalParam.RESPONSE == 'response'`",
    "member `QUERY`: `EvalParam.QUERY == 'query'`",
    "member `GROUND_TRUTH`: `EvalParam.GROUND_TRUTH == 'ground_truth'`",
    "member `ACTUAL_OUTPUT`: `EvalParam.ACTUAL_OUTPUT == 'actual_output'`",
    "member `INPUT`: `EvalParam.INPUT == 'input'`",
    "member `EXPECTED_OUTPUT`: `EvalParam.EXPECTED_OUTPUT == 'expected_output'`",
    "member `CONTEXT`: `EvalParam.CONTEXT == 'context'`",
    "member `RETRIEVAL_CONTEXT`: `EvalParam.RETRIEVAL_CONTEXT == 'retrieval_context'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ParamSpec",
    "a named tuple: `issubclass(ParamSpec, tuple)`",
    "the sample, `required`: `ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.QUERY}), optional=frozenset({EvalParam.CONTEXT}), uses_context=True).required == {'response', 'query'}`",
    "the sample, `optional`: `ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.QUERY}), optional=frozenset({EvalParam.CONTEXT}), uses_context=True).optional == {'context'}`",
    "the sample, `uses_context`: `ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.QUERY}), optional=frozenset({EvalParam.CONTEXT}), uses_context=True).uses_context is True`",
    "`uses_retrieval_context` is false unless said: `ParamSpec(required=frozenset({EvalParam.RESPONSE, EvalParam.QUERY}), optional=frozenset({EvalParam.CONTEXT}), uses_context=True).uses_retrieval_context is False`",
    "`uses_deepeval_params` is true for a required `input`: `ParamSpec(required=frozenset({EvalParam.INPUT})).uses_deepeval_params() is True`",
    "`uses_deepeval_params` is true for a required `actual_output`: `ParamSpec(required=frozenset({EvalParam.ACTUAL_OUTPUT})).uses_deepeval_params() is True`",
    "`uses_deepeval_params` is true for a required `expected_output`: `ParamSpec(required=frozenset({EvalParam.EXPECTED_OUTPUT})).uses_deepeval_params() is True`",
    "`uses_deepeval_params` is true for an optional `input`: `ParamSpec(required=frozenset(), optional=frozenset({EvalParam.INPUT})).uses_deepeval_params() is True`",
    "`uses_deepeval_params` is false for `response`: `ParamSpec(required=frozenset({EvalParam.RESPONSE})).uses_deepeval_params() is False`",
    "`uses_deepeval_params` is false for `query`: `ParamSpec(required=frozenset({EvalParam.QUERY})).uses_deepeval_params() is False`",
    "`uses_deepeval_params` is false for `ground_truth`: `ParamSpec(required=frozenset({EvalParam.GROUND_TRUTH})).uses_deepeval_params() is False`",
    "`uses_deepeval_params` is false for `context`: `ParamSpec(required=frozenset({EvalParam.CONTEXT})).uses_deepeval_params() is False`",
    "`uses_deepeval_params` is false for `retrieval_context`: `ParamSpec(required=frozenset({EvalParam.RETRIEVAL_CONTEXT})).uses_deepeval_params() is False`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "DEEPEVAL_PARAMS",
    "a frozenset: `type(DEEPEVAL_PARAMS) is frozenset`",
    "it has three members: `len(DEEPEVAL_PARAMS) == 3`",
    "`INPUT` is one: `EvalParam.INPUT in DEEPEVAL_PARAMS`",
    "`ACTUAL_OUTPUT` is one: `EvalParam.ACTUAL_OUTPUT in DEEPEVAL_PARAMS`",
    "`EXPECTED_OUTPUT` is one: `EvalParam.EXPECTED_OUTPUT in DEEPEVAL_PARAMS`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "Standard NLP Metrics",
    "`BLEUEvaluator` needs no model's answer and takes no input but the two texts: `BLEUEvaluator.get_param_spec().optional == frozenset()`",
    "`ROUGEEvaluator` needs no model's answer and takes no input but the two texts: `ROUGEEvaluator.get_param_spec().optional == frozenset()`",
    "`METEOREvaluator` needs no model's answer and takes no input but the two texts: `METEOREvaluator.get_param_spec().optional == frozenset()`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "BLEUEvaluator",
    "a `BaseEvaluator`: `issubclass(BLEUEvaluator, BaseEvaluator)`",
    "`name` is that of the class: `BLEUEvaluator().name == 'BLEUEvaluator'`",
    "attribute `timeout`, in seconds: `BLEUEvaluator(timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `BLEUEvaluator(timeout=None).timeout is None`",
    "attribute `retry_config`: `BLEUEvaluator(retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `BLEUEvaluator().retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(BLEUEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(BLEUEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `BLEUEvaluator(threshold=0.5).threshold == 0.5`",
    "needs `response` and `ground_truth`: `BLEUEvaluator.get_param_spec().required == {'response', 'ground_truth'}`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ROUGEEvaluator",
    "a `BaseEvaluator`: `issubclass(ROUGEEvaluator, BaseEvaluator)`",
    "`name` is that of the class: `ROUGEEvaluator().name == 'ROUGEEvaluator'`",
    "attribute `timeout`, in seconds: `ROUGEEvaluator(timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `ROUGEEvaluator(timeout=None).timeout is None`",
    "attribute `retry_config`: `ROUGEEvaluator(retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `ROUGEEvaluator().retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(ROUGEEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(ROUGEEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `ROUGEEvaluator(threshold=0.5).threshold == 0.5`",
    "needs `response` and `ground_truth`: `ROUGEEvaluator.get_param_spec().required == {'response', 'ground_truth'}`",
    "`variant` may be `rouge1`: `ROUGEEvaluator(variant='rouge1').variant == 'rouge1'`",
    "`variant` may be `rouge2`: `ROUGEEvaluator(variant='rouge2').variant == 'rouge2'`",
    "`variant` may be `rougeL`: `ROUGEEvaluator(variant='rougeL').variant == 'rougeL'`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "METEOREvaluator",
    "a `BaseEvaluator`: `issubclass(METEOREvaluator, BaseEvaluator)`",
    "`name` is that of the class: `METEOREvaluator().name == 'METEOREvaluator'`",
    "attribute `timeout`, in seconds: `METEOREvaluator(timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `METEOREvaluator(timeout=None).timeout is None`",
    "attribute `retry_config`: `METEOREvaluator(retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `METEOREvaluator().retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(METEOREvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(METEOREvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `METEOREvaluator(threshold=0.5).threshold == 0.5`",
    "needs `response` and `ground_truth`: `METEOREvaluator.get_param_spec().required == {'response', 'ground_truth'}`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api", "NLPMetricsError", "an `EvaluationError`: `issubclass(NLPMetricsError, EvaluationError)`"
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request)


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RetryConfig",
    "a negative number of attempts is refused: `RetryConfig(max_retries=-1)`",
    "a delay of 0 is refused: `RetryConfig(base_delay=0)`",
    "a negative delay is refused: `RetryConfig(base_delay=-1.0)`",
    "a longest delay of 0 is refused: `RetryConfig(max_delay=0)`",
    "a negative longest delay is refused: `RetryConfig(max_delay=-1.0)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api", "ROUGEEvaluator", "`ValueError` for another variant: `ROUGEEvaluator(variant='rouge3')`"
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request)
