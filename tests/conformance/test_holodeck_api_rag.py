"""The RAG metrics of HoloDeck's evaluation API, row by row."""

from __future__ import annotations

import pytest

from tests.conformance.expressions import check_that_all_are_refused, check_that_all_hold

pytestmark = pytest.mark.needs()


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RAG Pipeline Metrics",
    "`FaithfulnessEvaluator` requires `retrieval_context`: `'retrieval_context' in FaithfulnessEvaluator.get_param_spec().required`",
    "`AnswerRelevancyEvaluator` does not require `retrieval_context`: `'retrieval_context' not in AnswerRelevancyEvaluator.get_param_spec().required`",
    "`ContextualRelevancyEvaluator` requires `retrieval_context`: `'retrieval_context' in ContextualRelevancyEvaluator.get_param_spec().required`",
    "`ContextualPrecisionEvaluator` requires `retrieval_context`: `'retrieval_context' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "`ContextualRecallEvaluator` requires `retrieval_context`: `'retrieval_context' in ContextualRecallEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "FaithfulnessEvaluator",
    "a `DeepEvalBaseEvaluator`: `issubclass(FaithfulnessEvaluator, DeepEvalBaseEvaluator)`",
    "`name` is that of the metric: `FaithfulnessEvaluator(judge).name == 'Faithfulness'`",
    "attribute `timeout`, in seconds: `FaithfulnessEvaluator(judge, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `FaithfulnessEvaluator(judge, timeout=None).timeout is None`",
    "attribute `retry_config`: `FaithfulnessEvaluator(judge, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `FaithfulnessEvaluator(judge).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(FaithfulnessEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(FaithfulnessEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `FaithfulnessEvaluator(judge, threshold=0.8).threshold == 0.8`",
    "attribute `model_config`: `FaithfulnessEvaluator(judge).model_config is judge`",
    "attribute `_include_reason`: `FaithfulnessEvaluator(judge, include_reason=False)._include_reason is False`",
    "requires `actual_output`: `'actual_output' in FaithfulnessEvaluator.get_param_spec().required`",
    "requires `retrieval_context`: `'retrieval_context' in FaithfulnessEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "AnswerRelevancyEvaluator",
    "a `DeepEvalBaseEvaluator`: `issubclass(AnswerRelevancyEvaluator, DeepEvalBaseEvaluator)`",
    "`name` is that of the metric: `AnswerRelevancyEvaluator(judge).name == 'AnswerRelevancy'`",
    "attribute `timeout`, in seconds: `AnswerRelevancyEvaluator(judge, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `AnswerRelevancyEvaluator(judge, timeout=None).timeout is None`",
    "attribute `retry_config`: `AnswerRelevancyEvaluator(judge, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `AnswerRelevancyEvaluator(judge).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(AnswerRelevancyEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(AnswerRelevancyEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `AnswerRelevancyEvaluator(judge, threshold=0.8).threshold == 0.8`",
    "attribute `model_config`: `AnswerRelevancyEvaluator(judge).model_config is judge`",
    "attribute `_include_reason`: `AnswerRelevancyEvaluator(judge, include_reason=False)._include_reason is False`",
    "attribute `_strict_mode`: `AnswerRelevancyEvaluator(judge, strict_mode=True)._strict_mode is True`",
    "requires `input`: `'input' in AnswerRelevancyEvaluator.get_param_spec().required`",
    "requires `actual_output`: `'actual_output' in AnswerRelevancyEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualRelevancyEvaluator",
    "a `DeepEvalBaseEvaluator`: `issubclass(ContextualRelevancyEvaluator, DeepEvalBaseEvaluator)`",
    "`name` is that of the metric: `ContextualRelevancyEvaluator(judge).name == 'ContextualRelevancy'`",
    "attribute `timeout`, in seconds: `ContextualRelevancyEvaluator(judge, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `ContextualRelevancyEvaluator(judge, timeout=None).timeout is None`",
    "attribute `retry_config`: `ContextualRelevancyEvaluator(judge, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `ContextualRelevancyEvaluator(judge).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(ContextualRelevancyEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(ContextualRelevancyEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `ContextualRelevancyEvaluator(judge, threshold=0.8).threshold == 0.8`",
    "attribute `model_config`: `ContextualRelevancyEvaluator(judge).model_config is judge`",
    "attribute `_include_reason`: `ContextualRelevancyEvaluator(judge, include_reason=False)._include_reason is False`",
    "requires `input`: `'input' in ContextualRelevancyEvaluator.get_param_spec().required`",
    "requires `actual_output`: `'actual_output' in ContextualRelevancyEvaluator.get_param_spec().required`",
    "requires `retrieval_context`: `'retrieval_context' in ContextualRelevancyEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualPrecisionEvaluator",
    "a `DeepEvalBaseEvaluator`: `issubclass(ContextualPrecisionEvaluator, DeepEvalBaseEvaluator)`",
    "`name` is that of the metric: `ContextualPrecisionEvaluator(judge).name == 'ContextualPrecision'`",
    "attribute `timeout`, in seconds: `ContextualPrecisionEvaluator(judge, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `ContextualPrecisionEvaluator(judge, timeout=None).timeout is None`",
    "attribute `retry_config`: `ContextualPrecisionEvaluator(judge, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `ContextualPrecisionEvaluator(judge).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(ContextualPrecisionEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(ContextualPrecisionEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `ContextualPrecisionEvaluator(judge, threshold=0.8).threshold == 0.8`",
    "attribute `model_config`: `ContextualPrecisionEvaluator(judge).model_config is judge`",
    "attribute `_include_reason`: `ContextualPrecisionEvaluator(judge, include_reason=False)._include_reason is False`",
    "requires `input`: `'input' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "requires `actual_output`: `'actual_output' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "requires `expected_output`: `'expected_output' in ContextualPrecisionEvaluator.get_param_spec().required`",
    "requires `retrieval_context`: `'retrieval_context' in ContextualPrecisionEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualRecallEvaluator",
    "a `DeepEvalBaseEvaluator`: `issubclass(ContextualRecallEvaluator, DeepEvalBaseEvaluator)`",
    "`name` is that of the metric: `ContextualRecallEvaluator(judge).name == 'ContextualRecall'`",
    "attribute `timeout`, in seconds: `ContextualRecallEvaluator(judge, timeout=30.0).timeout == 30.0`",
    "`timeout` may be none: `ContextualRecallEvaluator(judge, timeout=None).timeout is None`",
    "attribute `retry_config`: `ContextualRecallEvaluator(judge, retry_config=RetryConfig(max_retries=1)).retry_config.max_retries == 1`",
    "tries again as `RetryConfig()` says, unless told otherwise: `ContextualRecallEvaluator(judge).retry_config == RetryConfig()`",
    "inherits `evaluate`, which is awaited: `iscoroutinefunction(ContextualRecallEvaluator.evaluate)`",
    "inherits `get_param_spec`: `isinstance(ContextualRecallEvaluator.get_param_spec(), ParamSpec)`",
    "attribute `threshold`: `ContextualRecallEvaluator(judge, threshold=0.8).threshold == 0.8`",
    "attribute `model_config`: `ContextualRecallEvaluator(judge).model_config is judge`",
    "attribute `_include_reason`: `ContextualRecallEvaluator(judge, include_reason=False)._include_reason is False`",
    "requires `input`: `'input' in ContextualRecallEvaluator.get_param_spec().required`",
    "requires `actual_output`: `'actual_output' in ContextualRecallEvaluator.get_param_spec().required`",
    "requires `expected_output`: `'expected_output' in ContextualRecallEvaluator.get_param_spec().required`",
    "requires `retrieval_context`: `'retrieval_context' in ContextualRecallEvaluator.get_param_spec().required`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "RAG Metrics Summary",
    "`FaithfulnessEvaluator` requires these inputs and no other: `FaithfulnessEvaluator.get_param_spec().required == {'actual_output', 'retrieval_context'}`",
    "`FaithfulnessEvaluator` uses retrieved texts: `FaithfulnessEvaluator.get_param_spec().uses_retrieval_context`",
    "`AnswerRelevancyEvaluator` requires these inputs and no other: `AnswerRelevancyEvaluator.get_param_spec().required == {'input', 'actual_output'}`",
    "`AnswerRelevancyEvaluator` uses no retrieved texts: `not AnswerRelevancyEvaluator.get_param_spec().uses_retrieval_context`",
    "`ContextualRelevancyEvaluator` requires these inputs and no other: `ContextualRelevancyEvaluator.get_param_spec().required == {'input', 'actual_output', 'retrieval_context'}`",
    "`ContextualRelevancyEvaluator` uses retrieved texts: `ContextualRelevancyEvaluator.get_param_spec().uses_retrieval_context`",
    "`ContextualPrecisionEvaluator` requires these inputs and no other: `ContextualPrecisionEvaluator.get_param_spec().required == {'input', 'actual_output', 'expected_output', 'retrieval_context'}`",
    "`ContextualPrecisionEvaluator` uses retrieved texts: `ContextualPrecisionEvaluator.get_param_spec().uses_retrieval_context`",
    "`ContextualRecallEvaluator` requires these inputs and no other: `ContextualRecallEvaluator.get_param_spec().required == {'input', 'actual_output', 'expected_output', 'retrieval_context'}`",
    "`ContextualRecallEvaluator` uses retrieved texts: `ContextualRecallEvaluator.get_param_spec().uses_retrieval_context`",
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request)


@pytest.mark.claims(
    "holodeck-evaluation-api",
    "FaithfulnessEvaluator",
    "`threshold` is at most 1: `FaithfulnessEvaluator(judge, threshold=1.5)`",
    "`threshold` is at least 0: `FaithfulnessEvaluator(judge, threshold=-0.5)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "AnswerRelevancyEvaluator",
    "`threshold` is at most 1: `AnswerRelevancyEvaluator(judge, threshold=1.5)`",
    "`threshold` is at least 0: `AnswerRelevancyEvaluator(judge, threshold=-0.5)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualRelevancyEvaluator",
    "`threshold` is at most 1: `ContextualRelevancyEvaluator(judge, threshold=1.5)`",
    "`threshold` is at least 0: `ContextualRelevancyEvaluator(judge, threshold=-0.5)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualPrecisionEvaluator",
    "`threshold` is at most 1: `ContextualPrecisionEvaluator(judge, threshold=1.5)`",
    "`threshold` is at least 0: `ContextualPrecisionEvaluator(judge, threshold=-0.5)`",
)
@pytest.mark.claims(
    "holodeck-evaluation-api",
    "ContextualRecallEvaluator",
    "`threshold` is at most 1: `ContextualRecallEvaluator(judge, threshold=1.5)`",
    "`threshold` is at least 0: `ContextualRecallEvaluator(judge, threshold=-0.5)`",
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request)
