"""Errors of evaluations that have no result, as opposed to low scores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


class EvaluationError(Exception):
    """An evaluation has no result.

    Attributes:
        message: one sentence with the problem and a remedy.
        code: stable snake_case code, such as `missing_input` or `invalid_score`.
        context: further data, JSON values only.
    """

    def __init__(
        self, message: str = "", *, code: str = "evaluation_failed", context: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.context: Mapping[str, Any] = context or {}


class ItemsError(EvaluationError):
    """Items of a list could not be evaluated. The message and the code are those of the first one.

    Attributes:
        results: the results of all items in their order; None for those that failed.
        errors: the errors of the items that failed, by index.
    """

    def __init__(self, results: Sequence[Any], errors: Mapping[int, Exception]) -> None:
        first = next(iter(errors.values()))
        if isinstance(first, EvaluationError):
            super().__init__(first.message, code=first.code, context=first.context)
        else:
            code = "timeout" if isinstance(first, TimeoutError) else "evaluator_error"
            super().__init__(str(first) or type(first).__name__, code=code)
        self.results = tuple(results)
        self.errors = dict(errors)


async def evaluate_items(evaluations: Iterable[Awaitable[Result]]) -> list[Result]:
    """Run evaluations of items concurrently; return their results in the same order.

    Raises:
        ItemsError: an item failed; it has the results of the others, and is raised after all items are done.
    """
    found = await asyncio.gather(*evaluations, return_exceptions=True)
    results = [each for each in found if not isinstance(each, BaseException)]
    errors = {at: each for at, each in enumerate(found) if isinstance(each, Exception)}
    if errors:
        kept = [None if isinstance(each, BaseException) else each for each in found]
        raise ItemsError(kept, errors) from next(iter(errors.values()))
    return results


class NLPMetricsError(EvaluationError):
    """A text metric could not be computed."""


class DeepEvalError(EvaluationError):
    """A DeepEval metric failed.

    Attributes:
        metric_name: name of the metric.
        original_error: exception raised by DeepEval; None if there was no exception.
        test_case_summary: shortened input and output of the test case, for debugging.
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
    """An evaluator does not support the given model provider.

    Attributes:
        evaluator_type: name of the evaluator's class.
        configured_provider: the given provider.
        supported_providers: the providers that the evaluator supports.
    """

    def __init__(
        self, message: str, evaluator_type: str, configured_provider: str, supported_providers: list[str]
    ) -> None:
        super().__init__(message, code="provider_not_supported")
        self.evaluator_type = evaluator_type
        self.configured_provider = configured_provider
        self.supported_providers = supported_providers
