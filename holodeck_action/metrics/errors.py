"""Errors of evaluation: the evaluation could not be done, which never means that the score was low."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EvaluationError(Exception):
    """An evaluation could not be done.

    Attributes:
        message: one sentence a person can act on.
        code: stable snake_case code, such as `missing_input` or `invalid_score`.
        context: further facts, JSON values only.
    """

    def __init__(
        self, message: str = "", *, code: str = "evaluation_failed", context: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context: Mapping[str, Any] = context or {}


class NLPMetricsError(EvaluationError):
    """A text metric could not be computed."""


class DeepEvalError(EvaluationError):
    """A DeepEval metric failed.

    Attributes:
        metric_name: name of the metric.
        original_error: what DeepEval raised; None when nothing did.
        test_case_summary: shortened input and output, for debugging.
    """

    def __init__(
        self,
        message: str,
        metric_name: str,
        original_error: Exception | None = None,
        test_case_summary: dict[str, Any] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code="judge_failed", context=context)
        self.metric_name = metric_name
        self.original_error = original_error
        self.test_case_summary = test_case_summary or {}


class ProviderNotSupportedError(EvaluationError):
    """An evaluator was given a model provider it cannot use.

    Attributes:
        evaluator_type: class of the evaluator.
        configured_provider: the provider it was given.
        supported_providers: the providers it can use.
    """

    def __init__(
        self, message: str, evaluator_type: str, configured_provider: str, supported_providers: list[str]
    ) -> None:
        super().__init__(message, code="provider_not_supported")
        self.evaluator_type = evaluator_type
        self.configured_provider = configured_provider
        self.supported_providers = supported_providers
