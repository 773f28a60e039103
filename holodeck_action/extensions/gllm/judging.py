"""The judges of gllm-evals' metrics: one model, several, or the same model several times; and fallback models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast, get_args

from msgspec import Struct

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.metrics.base import BaseEvaluator, JudgeEvaluatorFactory, RetryConfig
from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
from holodeck_action.metrics.judging.panel import PanelEvaluator, build_panel
from holodeck_action.metrics.params import require_choice
from holodeck_action.suite.model.judging import Aggregation
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.named_models import LARGE
from holodeck_action.suite.model.providers import LLMProvider, ProviderEnum

Model = DeepEvalModelConfig | LLMProvider | str
"""A judge: a configuration, or a text such as `openai/gpt-6.1-sol`."""
Models = Model | Sequence[Model] | None

TIMEOUT_S = 60.0
"""Time limit of one evaluation by all judges, in seconds, including retries."""


class AggregationMethod(StrEnum):
    """Methods of combining the verdicts of several judges."""

    MAJORITY_VOTE = "majority_vote"
    MEDIAN = "median"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"


class DefaultValues:
    """Default settings of the evaluators."""

    AGGREGATION_METHOD = AggregationMethod.MAJORITY_VOTE
    BATCH_STATUS_CHECK_INTERVAL = 30.0
    BATCH_MAX_ITERATIONS = 120


_OPTIONS: Mapping[str, str] = {
    "models": "models",
    "aggregation_method": "aggregation",
    "max_concurrent_judges": "max_concurrent",
    "fallback_models": "fallbacks",
}
"""Fields of `Grading` by the name of the constructor argument."""


class Grading(Struct, frozen=True):
    """The judges of a metric and how their verdicts are combined. If an option is None, the evaluator's option applies.

    Attributes:
        models: the judges.
        aggregation: how verdicts are combined; by default, the majority decides.
        max_concurrent: number of judges called concurrently; by default, all are called at once.
        fallbacks: models to call, in this order, if a judge gives no verdict; by default, no model is called.
    """

    models: tuple[JudgeModelConfig, ...] | None = None
    aggregation: Aggregation | None = None
    max_concurrent: int | None = None
    fallbacks: tuple[JudgeModelConfig, ...] | None = None

    def with_defaults(self, defaults: Grading) -> Grading:
        """Return these options; options that are None are taken from `defaults`."""
        own = {field: getattr(self, field) for field in _OPTIONS.values()}
        return Grading(**{name: getattr(defaults, name) if value is None else value for name, value in own.items()})

    def build_judged(self, _: Metric, build: JudgeEvaluatorFactory) -> BaseEvaluator:
        """Return the evaluator of a metric, which calls these judges; implements `BuildContext.judged`."""
        return self.evaluator(
            lambda model, timeout: build(
                None, {"timeout": timeout, "retry_config": RetryConfig(), "model_config": model}
            ),
            TIMEOUT_S,
        )

    def evaluator(
        self, build: Callable[[JudgeModelConfig | None, float | None], BaseEvaluator], timeout: float | None
    ) -> BaseEvaluator:
        """Return the evaluator that calls one model, or a panel of several.

        Args:
            build: creates the evaluator that calls one model, given its time limit in seconds.
            timeout: time limit of one evaluation, in seconds.
        """
        models = self.models or ()
        if len(models) < 2 and not (models and self.fallbacks):
            return build(models[0] if models else None, timeout)
        known: dict[JudgeModelConfig, _Judge] = {}
        judges, fallbacks = (
            [known.setdefault(config, _Judge(config)) for config in configs]
            for configs in (models, self.fallbacks or ())
        )
        seats = build_panel(judges, fallbacks, lambda judge: build(judge.config, None))
        aggregation = self.aggregation or DefaultValues.AGGREGATION_METHOD.value
        return PanelEvaluator(seats, aggregation=aggregation, max_concurrent=self.max_concurrent, timeout=timeout)


class _Judge(Struct, frozen=True):
    config: JudgeModelConfig

    @property
    def label(self) -> str:
        return f"{self.config.provider.value}/{self.config.model_name}"


def make_grading(
    models: Models = None,
    aggregation_method: str | None = None,
    max_concurrent_judges: int | None = None,
    fallback_models: Sequence[Model] | None = None,
) -> Grading:
    """Return the judges' options for the arguments that evaluators and metrics have in common.

    Raises:
        ValueError: a model is invalid, `models` is empty, the method is unknown, or `max_concurrent_judges` is below 1.
    """
    listed = None if models is None else list(models) if isinstance(models, list | tuple) else [models]
    if listed == []:
        raise ValueError("models must hold at least one model")
    if aggregation_method is not None:
        require_choice("aggregation_method", str(aggregation_method), get_args(Aggregation))
    if max_concurrent_judges is not None and max_concurrent_judges < 1:
        raise ValueError(f"max_concurrent_judges must be at least 1, not {max_concurrent_judges}")
    return Grading(
        None if listed is None else tuple(_model_config("models", model) for model in listed),
        None if aggregation_method is None else cast(Aggregation, str(aggregation_method)),
        max_concurrent_judges,
        None
        if fallback_models is None
        else tuple(_model_config("fallback_models", model) for model in fallback_models),
    )


def check_options_used(name: str, options: Grading, effective: Iterable[Grading]) -> None:
    """Refuse an option of an evaluator that none of its metrics uses.

    Args:
        name: name of the evaluator.
        options: options of the evaluator.
        effective: options of the evaluator's metrics, after the evaluator's options were applied.

    Raises:
        ValueError: an option has no effect, because every metric has its own value or no metric calls a model.
    """
    all_reached = list(effective)
    for option, field in _OPTIONS.items():
        value = getattr(options, field)
        # The majority vote is the default, so giving it explicitly has no effect.
        if not value or value == DefaultValues.AGGREGATION_METHOD:
            continue
        if all(getattr(each, field) != value for each in all_reached):
            raise ValueError(
                f"{option} of {name} has no effect: its metrics call no model or have their own {option}; leave it out"
            )


def _model_config(option: str, model: Any) -> DeepEvalModelConfig:
    if isinstance(model, DeepEvalModelConfig):
        return model
    if isinstance(model, LLMProvider):
        return _provider_config(option, model)
    if isinstance(model, str):
        provider, _, name = model.partition("/")
        if name and provider in {*ProviderEnum}:
            return DeepEvalModelConfig(provider=ProviderEnum(provider), model_name=name)
    raise ValueError(
        f"{option} must be DeepEvalModelConfig, LLMProvider or a text such as openai/{LARGE} (providers: "
        f"{', '.join(ProviderEnum)}), not {model!r:.80}"
    )


_SUPPORTED_FIELDS = frozenset(("provider", "name", "api_key", "endpoint", "api_version", "temperature"))
"""Fields of `LLMProvider` that apply to a judge."""


def _provider_config(option: str, model: LLMProvider) -> DeepEvalModelConfig:
    unused = sorted(model.model_fields_set - _SUPPORTED_FIELDS)
    if unused:
        raise ValueError(f"{option}: {unused[0]} of LLMProvider has no effect on a judge here; leave it out")
    if model.provider not in {*ProviderEnum}:
        raise ValueError(f"{option}: provider must be one of {', '.join(ProviderEnum)}, not {model.provider}")
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
