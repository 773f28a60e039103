"""The base class of evaluators that run a metric of DeepEval (HoloDeck evaluation API, DeepEval metrics).

Built-in evaluators run in a separate process for grading libraries; user-defined ones run in the calling program.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig, native_model
from holodeck_action.extensions.deepeval.entities import EvaluationInput
from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.extensions.deepeval.model import Problem, deepeval_model
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.llm.spans import SpanScope
from holodeck_action.metrics.base import BaseEvaluator, EvaluationResult, RetryConfig, describe
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.copied import list_strings
from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
from holodeck_action.metrics.judging.libraries import LibraryError, LibraryJudge, LocalJudge, evaluate_in_library
from holodeck_action.metrics.judging.own_judge import TRANSIENT, provide_judge
from holodeck_action.metrics.params import OTHER_NAME, EvalParam, ParamSpec
from holodeck_action.metrics.result import check_threshold
from holodeck_action.record.evaluation import Polarity
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.model.metric_base import VALID_EVALUATION_PARAMS
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import cut

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.settings import Traces
    from holodeck_action.llm.providers import ModelPlan
    from holodeck_action.llm.spans import Span


def start_evaluation_span(name: str, inputs: Mapping[str, Any], config: Traces) -> Span:
    """Start the span of an evaluation as a child of the program's current span.

    Args:
        name: name of the metric.
        inputs: the evaluator's inputs; recorded only if `capture_content` or `capture_evaluation_content` is set.
        config: sampling, content and redaction of the span.

    Raises:
        EvaluationError: OpenTelemetry is not installed (code `not_installed`).
    """
    try:
        from holodeck_action.extensions.tracing.otel import program_span
    except ImportError as error:
        raise EvaluationError(
            f"observability_config needs a package that is not installed ({error.name or error}); {way_to_get('otel')}",
            code="not_installed",
        ) from error
    span = program_span(
        f"evaluate {name}",
        {"gen_ai.evaluation.name": name},
        rate=config.sample_rate,
        content=config.capture_content or config.capture_evaluation_content,
        patterns=config.redaction_patterns,
    )
    if span.content:
        span.set_content(
            "holodeck_action.evaluation.inputs", {key: _span_value(value) for key, value in inputs.items()}
        )
    return span


_EXPORT_SETTINGS = ("max_queue_size", "max_export_batch_size", "schedule_delay_millis")


def check_observability(config: Traces) -> None:
    """Refuse settings for exporting spans: they have no effect in a script, whose own OpenTelemetry SDK exports spans.

    Raises:
        ValueError: one of these settings is set.
    """
    for name in _EXPORT_SETTINGS:
        if getattr(config, name) is not None:
            raise ValueError(
                f"observability_config.{name} has no effect: the program's own tracer provider sends the spans; leave "
                "it out"
            )


def record_result(span: Span, result: EvaluationResult) -> None:
    """Add the result of an evaluation to its span."""
    score = result.score
    span.set(
        {
            "gen_ai.evaluation.score.value": float(score) if isinstance(score, bool | int | float) else None,
            "gen_ai.evaluation.score.label": None if result.passed is None else "pass" if result.passed else "fail",
        }
    )
    span.set_content("gen_ai.evaluation.explanation", result.reasoning)


def _span_value(value: Any) -> Any:
    return value if isinstance(value, str) else [str(part) for part in value] if isinstance(value, list) else str(value)


_JUDGE: ContextVar[tuple[LibraryJudge, list[str]]] = ContextVar("_JUDGE")
"""The judge of the current evaluation, and the texts that its prompts are filled with."""

_MARKER = "[DEEPEVAL:"
_NEUTRALIZED = "[\u200bDEEPEVAL:"
"""Replaces the start of a DeepEval marker, so that DeepEval does not load the file that the marker names."""

_SUMMARY_LENGTH = 200


class DeepEvalBaseEvaluator(BaseEvaluator):
    """An evaluator that calls a judge through a metric of DeepEval; subclasses implement `_create_metric`.

    In `_create_metric`, user-defined subclasses read `self._threshold` and `self._model`, as in HoloDeck's
    documentation.

    A subclass without a `PARAM_SPEC` accepts all inputs of DeepEval's test cases and requires the answer.

    Attributes:
        model_config: the model that grades; None if a judge was given.
        threshold: lowest passing score.
        model: the model in the form that DeepEval's metrics accept.
    """

    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.ACTUAL_OUTPUT}),
        optional=frozenset(map(EvalParam, VALID_EVALUATION_PARAMS)) - {EvalParam.ACTUAL_OUTPUT},
        uses_context=True,
        uses_retrieval_context=True,
    )
    METRIC: ClassVar[str] = "DeepEval"
    NEEDS_QUESTION: ClassVar[bool] = True
    """Whether an `EvaluationInput` must have a non-empty input."""

    def __init__(
        self,
        model_config: DeepEvalModelConfig | None = None,
        threshold: float | None = 0.5,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
        observability_config: Traces | None = None,
        *,
        judge: JudgeModel | None = None,
    ) -> None:
        """Configure the evaluator; this imports nothing and calls no model.

        Args:
            model_config: the model that grades; if neither it nor `judge` is given, Ollama's gpt-oss:20b on this
                machine, as in HoloDeck, with a warning.
            threshold: lowest passing score, 0..1; None to give no verdict.
            timeout: time limit of one evaluation, in seconds.
            retry_config: retries of transient failures.
            observability_config: settings of the span that each evaluation creates with the program's OpenTelemetry;
                None to create no spans.
            judge: a judge that uses the caller's connection; replaces `model_config`.

        Raises:
            ValueError: the threshold is outside 0..1, or a setting of `observability_config` has no effect here.
        """
        super().__init__(timeout, retry_config)
        self._model_config: JudgeModelConfig | None = model_config
        self._judge = judge
        if observability_config is not None:
            check_observability(observability_config)
        self._native_model: Any = None
        self._threshold = check_threshold(threshold)
        self._observability_config = observability_config
        self._polarity: Polarity = "maximize"

    @property
    def threshold(self) -> float | None:
        """Lowest passing score."""
        return self._threshold

    @property
    def metric_name(self) -> str:
        """The metric's name in results."""
        return self.METRIC

    @property
    def model_config(self) -> JudgeModelConfig | None:
        """The configuration of the judge model; None if there is no judge, or if the evaluator received a judge."""
        return self._model_config if self._judge is None else None

    @property
    def has_judge(self) -> bool:
        """Whether the evaluator was given a judge, which must not be replaced, instead of a model configuration."""
        return self._judge is not None

    def with_model(self, model_config: JudgeModelConfig, timeout: float | None) -> Self:
        """Return a copy of the evaluator that uses another model and the time limit `timeout` in seconds."""
        found = copy(self)
        found._model_config, found._native_model, found.timeout = model_config, None, timeout
        return found

    @property
    def model(self) -> Any:
        """The model for DeepEval's metrics: the judge during an evaluation, else an instance of DeepEval's model class.

        Raises:
            EvaluationError: no model is configured, or DeepEval or the provider's package is not installed.
        """
        return self._model

    @property
    def _model(self) -> Any:
        judge = _JUDGE.get(None)
        if judge is not None:
            return deepeval_model(judge[0], self._verdict_problem, judge[1])
        if self._native_model is None:
            self._native_model = native_model(self._require_model_config())
        return self._native_model

    def _check_judge(self) -> None:
        if self._judge is None:
            self._require_model_config()

    def _plan(self, environ: Mapping[str, str]) -> ModelPlan:
        return self._require_model_config().plan(environ)

    def _require_model_config(self) -> JudgeModelConfig:
        if self._model_config is None:
            self._model_config = DeepEvalModelConfig()
            default = f"Ollama's {self._model_config.model_name} on this machine"
            warnings.warn(f"{self.name} has no model_config: {default} grades, as in HoloDeck", stacklevel=2)
        return self._model_config

    def _create_metric(self) -> Any:
        """Return a new metric of DeepEval for one evaluation (a metric keeps the state of an evaluation)."""
        raise TypeError("DeepEvalBaseEvaluator is a base class: implement _create_metric in a subclass")

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor arguments except the judge as JSON values, to create a copy in another process."""
        return {"threshold": self._threshold}

    @property
    def uses_judge(self) -> bool:
        """Whether the metric calls a model."""
        return True

    def _case_fields(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of DeepEval's test case as JSON values."""
        return _test_case_fields(inputs)

    def _verdict_problem(self, verdict: Any) -> str | None:
        """Return a description of a defect that the schema of a verdict cannot express; None if there is no defect."""
        return None

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        """Return the results of a metric other than score and reason."""
        return {}

    def _prepare(self, metric: Any, test_case: Any) -> None:
        """Adapt a DeepEval metric before it evaluates the test case."""

    def _result_without_judge(self, inputs: Mapping[str, Any]) -> EvaluationResult | None:
        """Return the result for inputs that need no judge, else None."""
        return None

    def is_transient(self, error: Exception) -> bool:
        """Return whether a retry may succeed after an error."""
        cause = error.original_error if isinstance(error, DeepEvalError) else error
        return (isinstance(cause, ModelCallError) and cause.code in TRANSIENT) or super().is_transient(error)

    async def evaluate(self, evaluation_input: EvaluationInput | None = None, /, **kwargs: Any) -> EvaluationResult:
        """Evaluate one item, given as an `EvaluationInput` or by keywords.

        Raises:
            EvaluationError: the item has no `input` (code `missing_input`); otherwise see `BaseEvaluator.evaluate`.
        """
        if evaluation_input is not None:
            kwargs = {**evaluation_input.inputs(), **kwargs}
            question = kwargs.get(EvalParam.INPUT) or kwargs.get(EvalParam.QUERY) or ""
            if self.NEEDS_QUESTION and not str(question).strip():
                raise self._missing_error(EvalParam.INPUT)
        if not self._is_built_in:
            # The import takes seconds, which must not count as evaluation time; errors are raised on first use.
            with suppress(EvaluationError):
                load_module("deepeval.metrics")
        return await super().evaluate(**kwargs)

    @final
    async def _with_retries(self, arguments: Mapping[str, Any]) -> EvaluationResult:
        config = self._observability_config
        if config is None or not config.enabled:
            return await super()._with_retries(arguments)
        with SpanScope(start_evaluation_span(self.name, arguments, config)) as span:
            result = await super()._with_retries(arguments)
            record_result(span, result)
            return result

    @final
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        if self.uses_judge:
            self._check_judge()
        settled = self._result_without_judge(kwargs)
        if settled is not None:
            return settled
        case = self._case_fields(kwargs)
        if not self.uses_judge:
            return await self._evaluate_without_judge(case, kwargs)
        async with provide_judge(self._judge, self._plan) as judge:
            try:
                await self._prepare_steps(judge)
                if self._is_built_in:
                    return await self._evaluate_in_process(case, judge)
                return await self.measure_case(case, LocalJudge(judge))
            except Exception as error:
                raise self._wrap_error(_unwrap_error(error), kwargs, judge.redact) from error

    async def _evaluate_without_judge(self, case: Mapping[str, Any], inputs: Mapping[str, Any]) -> EvaluationResult:
        try:
            return await self._evaluate_in_process(case, None)
        except Exception as error:
            raise self._wrap_error(error, inputs, str) from error

    @property
    def _is_built_in(self) -> bool:
        return type(self).__module__.startswith(f"{__package__}.")

    async def _prepare_steps(self, judge: JudgeModel) -> None:
        """Let the judge write data that all evaluations share, such as the steps of a G-Eval."""

    async def _evaluate_in_process(self, case: Mapping[str, Any], judge: JudgeModel | None) -> EvaluationResult:
        """Evaluate a test case in a worker process, by default the one that loads the grading libraries."""
        found = await evaluate_in_library("deepeval", {**self._worker_arguments(), "case": case}, judge)
        steps = found.pop("evaluation_steps")
        return EvaluationResult(
            **found,
            evaluation_steps=None if steps is None else tuple(steps),
            metric_name=self.metric_name,
            threshold=self._threshold,
            polarity=self._polarity,
        )

    def _worker_arguments(self) -> dict[str, Any]:
        return {"evaluator": type(self).__name__, "arguments": self._arguments()}

    async def measure_case(self, case: Mapping[str, Any], judge: LibraryJudge) -> EvaluationResult:
        """Evaluate a test case in this process.

        Args:
            case: fields of DeepEval's test case.
            judge: the judge to call.

        Raises:
            Exception: any error of DeepEval or the judge.
        """
        test_case = self._build_test_case(case)
        with self.use_judge(judge, case):
            metric = self._create_metric()
            self._prepare(metric, test_case)
            await metric.a_measure(test_case, _show_indicator=False)
        return self._result(metric, test_case, judge.label)

    def _build_test_case(self, case: Mapping[str, Any]) -> Any:
        """Return a test case of DeepEval with these fields."""
        return load_module("deepeval.test_case").LLMTestCase(**case)

    @contextmanager
    def use_judge(self, judge: LibraryJudge, case: Mapping[str, Any]) -> Iterator[None]:
        """Within the `with` block, make new metrics use this judge; `case` has the fields of the test case."""
        token = _JUDGE.set((judge, list_filled(case, self._worker_arguments())))
        try:
            yield
        finally:
            _JUDGE.reset(token)

    def _result(self, metric: Any, test_case: Any, judge: str) -> EvaluationResult:
        score = float(metric.score)
        steps = getattr(metric, "evaluation_steps", None)
        return EvaluationResult(
            score=score,
            reasoning=metric.reason or "",
            metric_name=self.metric_name,
            threshold=self._threshold,
            polarity=self._polarity,
            evaluation_steps=None if steps is None else tuple(steps),
            metadata={**({"judge": judge} if self.uses_judge else {}), **self._metadata(metric, test_case)},
        )

    def _wrap_error(self, error: Exception, inputs: Mapping[str, Any], redact: Redact) -> EvaluationError:
        if isinstance(error, EvaluationError):
            return error
        summary = {
            name: cut(redact(value), _SUMMARY_LENGTH)
            for name in ("input", "actual_output", "expected_output")
            if isinstance(value := inputs.get(name), str)
        }
        if isinstance(error, ModelCallError):
            context = {"cause": error.code, **error.context}
            return DeepEvalError(error.message, self.metric_name, error, summary, context=context)
        message = str(error) if isinstance(error, LibraryError) else describe(error)
        return DeepEvalError(message, self.metric_name, error, summary)


def _test_case_fields(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of DeepEval's test case; a context that is a string becomes a list."""
    fields: dict[str, Any] = {"input": ""}
    for param in (EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT, EvalParam.EXPECTED_OUTPUT):
        if (value := inputs.get(param.value, inputs.get(OTHER_NAME[param].value))) is not None:
            # DeepEval rejects an empty answer, but the judge must grade it.
            fields[param.value] = neutralize_markers(str(value)) or " "
    for param in (EvalParam.CONTEXT, EvalParam.RETRIEVAL_CONTEXT):
        if (value := inputs.get(param.value)) is not None:
            texts = [value] if isinstance(value, str) else list(value)
            fields[param.value] = [neutralize_markers(str(text)) for text in texts]
    return fields


def list_filled(case: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Return the texts that the prompts for a test case are filled with; a prompt may show several as JSON."""
    return [*list_strings(case), *list_strings(arguments), json.dumps(case, ensure_ascii=False, default=str)]


def _unwrap_error(error: Exception) -> Exception:
    """Return the error of this package that DeepEval wrapped in `error`, if there is one, else `error`."""
    cause = error.__cause__
    return cause if isinstance(cause, ModelCallError | EvaluationError) else error


def neutralize_markers(text: str) -> str:
    """Return the text without markers that name a file for DeepEval to load."""
    return text.replace(_MARKER, _NEUTRALIZED)


__all__ = ["DeepEvalBaseEvaluator", "Problem"]
