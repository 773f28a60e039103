"""The base class of wrappers of Azure AI Evaluation's evaluators (HoloDeck evaluation API, Azure AI metrics).

The wrapped evaluator runs in a separate process, in which all grading libraries run; see `measuring`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from holodeck_action.extensions.azure.prompts import unknown_placeholders
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.judge import JudgeModel, judge_plan
from holodeck_action.llm.providers import ModelPlan
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult, RetryConfig, describe
from holodeck_action.metrics.errors import EvaluationError, ProviderNotSupportedError
from holodeck_action.metrics.judging.libraries import LibraryError, evaluate_in_library
from holodeck_action.metrics.judging.own_judge import TRANSIENT, provide_judge
from holodeck_action.metrics.result import check_threshold
from holodeck_action.suite.model.providers import LLMProvider

API_VERSION = "2024-02-15-preview"
"""The default API version."""


class ModelConfig(BaseModel):
    """An Azure OpenAI deployment.

    Raises:
        ValidationError: a field is missing, empty or unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    azure_endpoint: str = Field(min_length=1)
    """Address of the resource, such as `https://my-resource.openai.azure.com/`."""
    api_key: str = Field(min_length=1, repr=False)
    azure_deployment: str = Field(min_length=1)
    """Name of the deployment."""
    api_version: str = Field(default=API_VERSION, min_length=1)

    def plan(self, environ: Mapping[str, str]) -> ModelPlan:
        """Return the URL and settings of calls to the deployment.

        Args:
            environ: the job's environment.

        Raises:
            ModelConfigError: the URL or the API key is invalid.
        """
        return judge_plan(
            LLMProvider(
                provider="azure_openai",
                name=self.azure_deployment,
                endpoint=self.azure_endpoint,
                api_key=SecretStr(self.api_key),
                api_version=self.api_version,
            ),
            environ,
            path="model_config",
        )


SUPPORTED_PROVIDERS = ("azure_openai",)
LOWEST, HIGHEST = 1, 5
"""The lowest and the highest raw score of Azure AI Evaluation."""


class FivePointResult(EvaluationResult):
    """A result that also has the raw score, 1 to 5, under the metric's name, as HoloDeck's documentation specifies."""

    __slots__ = ()

    def _items(self) -> dict[str, Any]:
        return super()._items() | {self.metric_name: self.raw_score}


class AzureAIEvaluator(BaseEvaluator):
    """Calls a judge through an evaluator of Azure AI Evaluation; the five metrics are subclasses.

    A user-defined subclass implements `_evaluate_impl` itself.

    Score = (raw - 1) / 4, with the raw score from 1 to 5.

    Attributes:
        model_config: the deployment that grades; None if a judge was given.
        threshold: lowest passing score, 0..1.
        JUDGE_INPUTS: names of the texts that the judge sees.
        CLASS: name of the evaluator class in Azure AI Evaluation.
    """

    METRIC: ClassVar[str] = ""
    CLASS: ClassVar[str] = ""
    JUDGE_INPUTS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        model_config: ModelConfig | None = None,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        *,
        threshold: float | None = None,
        custom_prompt: str | None = None,
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure the evaluator; this imports nothing and calls no model.

        Args:
            model_config: the deployment that grades.
            timeout: time limit of one evaluation in seconds, including retries; None if there is no limit.
            retry_config: retries of transient failures.
            threshold: lowest passing score, 0..1; None to give no verdict.
            custom_prompt: a prompt that replaces the one of Azure AI Evaluation; see `suite_prompt`.
            judge: a judge that uses the caller's connection; replaces `model_config`.

        Raises:
            ProviderNotSupportedError: the model's provider is not Azure OpenAI.
            TypeError: this base class was instantiated, or neither `model_config` nor `judge` is given.
            ValueError: the threshold is outside 0..1, or the prompt has placeholders for unknown inputs.
        """
        if not self.METRIC and type(self)._evaluate_impl is AzureAIEvaluator._evaluate_impl:
            raise TypeError("AzureAIEvaluator is a base class; use a metric such as GroundednessEvaluator")
        super().__init__(timeout=timeout, retry_config=retry_config)
        provider = judge.plan.provider if judge is not None else getattr(model_config, "provider", None)
        if provider is not None and provider not in SUPPORTED_PROVIDERS:
            raise self._provider_error(str(getattr(provider, "value", provider)))
        if judge is None and not isinstance(model_config, ModelConfig):
            raise TypeError(f"{self.name} needs a ModelConfig, not {type(model_config).__name__}")
        if custom_prompt is not None and (problem := self.prompt_problem(custom_prompt)) is not None:
            raise ValueError(problem)
        self.model_config = model_config
        self.threshold = check_threshold(threshold)
        self._custom_prompt = custom_prompt
        self._judge = judge

    @property
    def metric_name(self) -> str:
        """The metric's name in a suite, and the key of the raw score in results."""
        return self.METRIC or super().metric_name

    @classmethod
    def prompt_problem(cls, text: str) -> str | None:
        """Return a description of the defect in a `custom_prompt`; None if the prompt is valid."""
        unknown = unknown_placeholders(text, cls.JUDGE_INPUTS)
        if not unknown:
            return None
        places = ", ".join(f"{{{{{name}}}}}" for name in cls.JUDGE_INPUTS)
        return f"custom_prompt has a placeholder {unknown[0]:.40}, which {cls.METRIC} does not fill; it fills {places}"

    def is_transient(self, error: Exception) -> bool:
        """Return whether a retry may succeed after an error."""
        return is_transient_cause(error) or super().is_transient(error)

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        inputs = {name: join_texts(kwargs[name]) for name in self.JUDGE_INPUTS if kwargs.get(name) is not None}
        if not inputs["response"].strip():
            return self._result(float(LOWEST), "the answer is empty", {})
        request = {
            "evaluator": self.CLASS,
            "metric": self.METRIC,
            "inputs": inputs,
            "custom_prompt": self._custom_prompt,
            "seen": self.JUDGE_INPUTS,
        }
        async with provide_judge(self._judge, self._plan) as judge:
            return self._read_verdict(await ask_library(self.METRIC, request, judge), judge)

    def _read_verdict(self, result: Mapping[str, Any], judge: JudgeModel) -> EvaluationResult:
        raw = result["score"]
        if not isinstance(raw, int | float) or not LOWEST <= raw <= HIGHEST:
            raise EvaluationError(f"{self.METRIC} gave no score", code="bad_verdict", context={"judge": judge.label})
        return self._result(float(raw), str(result["reason"] or ""), {"judge": judge.label})

    def _result(self, raw: float, reason: str, facts: Mapping[str, Any]) -> FivePointResult:
        return FivePointResult(
            score=(raw - LOWEST) / (HIGHEST - LOWEST),
            reasoning=reason or f"{self.METRIC} gave the score {raw:g} (maximum {HIGHEST}) without an explanation",
            metric_name=self.METRIC,
            threshold=self.threshold,
            raw_score=raw,
            metadata={self.METRIC: raw, **facts},
        )

    def _plan(self, environ: Mapping[str, str]) -> ModelPlan:
        assert self.model_config is not None
        return self.model_config.plan(environ)

    def _provider_error(self, provider: str) -> ProviderNotSupportedError:
        return ProviderNotSupportedError(
            f"{self.name} can only be graded by a model of Azure OpenAI, not of {provider}",
            self.name,
            provider,
            list(SUPPORTED_PROVIDERS),
        )


async def ask_library(name: str, request: Mapping[str, Any], judge: JudgeModel) -> Any:
    """Run an evaluator of Azure AI Evaluation in a separate process; see `measuring.evaluate`.

    Raises:
        EvaluationError: the judge or Azure AI Evaluation failed; the message names the metric by `name`.
    """
    try:
        return await evaluate_in_library("azure", request, judge)
    except EvaluationError:
        raise
    except ModelCallError as error:
        context = {"cause": error.code, **error.context}
        raise EvaluationError(error.message, code="judge_failed", context=context) from error
    except Exception as error:
        message = str(error) if isinstance(error, LibraryError) else describe(error)
        raise EvaluationError(f"{name} failed: {message}", code="judge_failed") from error


def is_transient_cause(error: Exception) -> bool:
    """Return whether an error of `ask_library` is a failed judge call that may succeed in a retry."""
    cause = error.__cause__ if isinstance(error, EvaluationError) else error
    return isinstance(cause, ModelCallError) and cause.code in TRANSIENT


def join_texts(value: str | Iterable[object]) -> str:
    """Return a single string unchanged; join several strings with blank lines."""
    return value if isinstance(value, str) else "\n\n".join(str(part) for part in value)
