"""Converts HoneyHive's `EvaluationConfig` to metrics (HoneyHive evaluation data models, Evaluation Configuration)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.metrics.composite import CompositeMetric
from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.base import FormatModel, NonBlank
from holodeck_action.suite.model.metric_base import Metric

EVALUATORS = ("quality", "factual_accuracy", "toxicity", "relevance", "length")
"""HoneyHive's evaluators. Each one becomes the metric with this type."""
_RENAMED = {"confidence_threshold": "min_confidence"}
_FIXED_RETRY_SETTINGS = {"initial_delay_ms": 2000, "backoff_multiplier": 2}
"""The pauses before retries, which are fixed: 2, 4 and 8 seconds."""


class HoneyHiveEvaluationConfig(FormatModel):
    """The evaluators of a run, with their settings, in HoneyHive's terms.

    Raises:
        ArgumentError: an evaluator or a setting has no counterpart; the message names it.
    """

    model_config = ConfigDict(defer_build=False)

    evaluators: list[NonBlank] = Field(min_length=1)
    """Names of HoneyHive's evaluators: quality, factual_accuracy, toxicity, relevance, length."""
    evaluator_configs: dict[str, dict[str, Any]] = Field(default={})
    """Settings by evaluator: the settings of its metric, and `confidence_threshold` for factual_accuracy."""
    parallel_execution: bool = True
    """False: the evaluators run one after the other, as one composite metric."""
    timeout_ms: int | None = Field(default=None, gt=0)
    """Milliseconds that one evaluation may take: of each evaluator, or of all when they run one after the other."""
    retry_config: dict[str, Any] | None = None
    """`max_retries`, 0 to 3. `initial_delay_ms` and `backoff_multiplier` can only be 2000 and 2."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.evaluators:
            if name not in EVALUATORS:
                context = {"name": name, "close": did_you_mean(name, EVALUATORS), "all": ", ".join(EVALUATORS)}
                raise PydanticCustomError("evaluators", "{name} is unknown{close} (allowed: {all})", context)
        twice = next((name for name in self.evaluators if self.evaluators.count(name) > 1), None)
        if twice is not None:
            raise PydanticCustomError("evaluators", "{name} is given twice; name it once", {"name": twice})
        other = next((name for name in self.evaluator_configs if name not in self.evaluators), None)
        if other is not None:
            raise PydanticCustomError("evaluator_configs", "{name} is not among the evaluators", {"name": other})
        for key, value in (self.retry_config or {}).items():
            if key == "max_retries":
                if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 3:
                    raise PydanticCustomError("retry_config", "max_retries must be a whole number from 0 to 3")
            elif key not in _FIXED_RETRY_SETTINGS:
                allowed = ", ".join(("max_retries", *_FIXED_RETRY_SETTINGS))
                context = {
                    "key": key,
                    "close": did_you_mean(key, ("max_retries", *_FIXED_RETRY_SETTINGS)),
                    "all": allowed,
                }
                raise PydanticCustomError("retry_config", "{key} is unknown{close} (allowed: {all})", context)
            elif value != _FIXED_RETRY_SETTINGS[key]:
                told = f"{key} cannot be {value!r:.40}: retries wait 2, 4 and 8 seconds; leave it out"
                raise PydanticCustomError("retry_config", "{told}", {"told": told})
        # Raises an error for settings that the metrics do not have.
        self.metrics()
        return self

    def metrics(self) -> list[Metric]:
        """Return the metrics to evaluate, in order."""
        found = [self._metric(name) for name in self.evaluators]
        if self.parallel_execution or len(found) == 1:
            return found
        return [CompositeMetric(metrics=found, parallel=False, **self._shared_settings())]

    def _metric(self, name: str) -> Metric:
        given: Mapping[str, Any] = self.evaluator_configs.get(name, {})
        if name == "factual_accuracy" and (
            both := next((key for key in _RENAMED if {key, _RENAMED[key]} <= {*given}), "")
        ):
            context = {"both": f"{both} and {_RENAMED[both]}"}
            raise PydanticCustomError(
                "evaluator_configs", "factual_accuracy: {both} are one setting; give one", context
            )
        settings = {_RENAMED.get(key, key) if name == "factual_accuracy" else key: each for key, each in given.items()}
        alone = self._shared_settings() if self.parallel_execution or len(self.evaluators) == 1 else {}
        try:
            return built_in().classes[name](**{**alone, **settings})
        except ValueError as error:
            told = f"{name}: {error}"
            raise PydanticCustomError("evaluator_configs", "{told}", {"told": told}) from None

    def _shared_settings(self) -> dict[str, Any]:
        retries = (self.retry_config or {}).get("max_retries")
        shared = {"timeout_ms": self.timeout_ms, "retry_on_failure": retries or None}
        return {name: value for name, value in shared.items() if value is not None}
