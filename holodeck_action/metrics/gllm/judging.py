"""Who grades, as gllm-evals is told: one model, the same one several times, or several; and those that stand in."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, cast, get_args

from msgspec import Struct

from holodeck_action.metrics.base import BaseEvaluator, OfJudge, RetryConfig
from holodeck_action.metrics.deepeval.config import DeepEvalModelConfig
from holodeck_action.metrics.judging.panel import PanelEvaluator, seats_of
from holodeck_action.metrics.params import one_of
from holodeck_action.suite.judging import Aggregation
from holodeck_action.suite.metric_base import Metric
from holodeck_action.suite.providers import LLMProvider, ProviderEnum

Model = DeepEvalModelConfig | LLMProvider | str
"""A model that grades: a configuration, or a text such as `openai/gpt-4o`."""
Models = Model | Sequence[Model] | None

TIMEOUT_S = 60.0
"""Seconds that one question to all judges may take, retries included."""


class AggregationMethod(StrEnum):
    """How the verdicts of several judges become one."""

    MAJORITY_VOTE = "majority_vote"
    MEDIAN = "median"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"


class DefaultValues:
    """Defaults of the evaluators."""

    AGGREGATION_METHOD = AggregationMethod.MAJORITY_VOTE
    BATCH_STATUS_CHECK_INTERVAL = 30.0
    BATCH_MAX_ITERATIONS = 120


class _Judge(Struct, frozen=True):
    label: str
    config: DeepEvalModelConfig


class Grading:
    """Finds who grades the metrics of an evaluator."""

    def __init__(
        self,
        models: Models = None,
        aggregation_method: str | None = None,
        max_concurrent_judges: int | None = None,
        fallback_models: Sequence[Model] | None = None,
    ) -> None:
        """Configure; nothing is asked.

        Args:
            models: one or several; Ollama's gpt-oss:20b when absent.
            aggregation_method: how several verdicts become one, a value of `AggregationMethod`; the majority's when
                absent.
            max_concurrent_judges: judges asked at once; all when absent.
            fallback_models: stand in for a judge that gives no verdict, in this order.

        Raises:
            ValueError: a model that is none, or another method.
        """
        known: dict[DeepEvalModelConfig, _Judge] = {}
        self._judges = [_judge(model, known) for model in _listed(models)]
        self._fallbacks = [_judge(model, known) for model in fallback_models or ()]
        method = str(aggregation_method or DefaultValues.AGGREGATION_METHOD)
        self._aggregation = cast(Aggregation, one_of("aggregation_method", method, get_args(Aggregation)))
        if max_concurrent_judges is not None and max_concurrent_judges < 1:
            raise ValueError(f"max_concurrent_judges must be at least 1, not {max_concurrent_judges}")
        self._at_once = max_concurrent_judges

    def grade(self, _: Metric, build: OfJudge) -> BaseEvaluator:
        """Return the evaluator of a metric: one that asks a model, or a panel of them."""
        retries = RetryConfig()
        if len(self._judges) < 2 and not self._fallbacks:
            config = self._judges[0].config if self._judges else None
            return build(None, {"timeout": TIMEOUT_S, "retry_config": retries, "model_config": config})
        judges = self._judges or [_judge(DeepEvalModelConfig(), {})]
        seats = seats_of(
            judges,
            self._fallbacks,
            lambda judge: build(None, {"timeout": None, "retry_config": retries, "model_config": judge.config}),
        )
        return PanelEvaluator(seats, aggregation=self._aggregation, max_concurrent=self._at_once, timeout=TIMEOUT_S)


def _listed(models: Models) -> Sequence[Model]:
    if models is None:
        return ()
    return list(models) if isinstance(models, list | tuple) else [models]  # type: ignore[list-item]


def _judge(model: Model, known: dict[DeepEvalModelConfig, _Judge]) -> _Judge:
    config = _config(model)
    return known.setdefault(config, _Judge(f"{config.provider.value}/{config.model_name}", config))


def _config(model: Model) -> DeepEvalModelConfig:
    if isinstance(model, DeepEvalModelConfig):
        return model
    if isinstance(model, LLMProvider):
        azure = model.provider == "azure_openai"
        given = {
            "api_key": None if model.api_key is None else model.api_key.get_secret_value(),
            "endpoint": model.endpoint,
            "api_version": model.api_version,
            "deployment_name": model.name if azure else None,
            "temperature": model.temperature if "temperature" in model.model_fields_set else None,
        }
        written: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return DeepEvalModelConfig(provider=ProviderEnum(model.provider), model_name=model.name, **written)
    if isinstance(model, str):
        provider, _, name = model.partition("/")
        if name and provider in {*ProviderEnum}:
            return DeepEvalModelConfig(provider=ProviderEnum(provider), model_name=name)
    raise ValueError(
        "models must be DeepEvalModelConfig, LLMProvider or a text such as openai/gpt-4o (providers: "
        f"{', '.join(ProviderEnum)}), not {model!r:.80}"
    )
