"""The base of evaluators that run a metric of DeepEval (HoloDeck evaluation API, DeepEval metrics).

Our own run it in the process of the libraries, as a copy of themselves; those of a program's own in the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig, native_model
from holodeck_action.extensions.deepeval.entities import EvaluationInput
from holodeck_action.extensions.deepeval.library import module
from holodeck_action.extensions.deepeval.model import Problem, deepeval_model
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.judge import JudgeModel
from holodeck_action.llm.spans import Scope
from holodeck_action.metrics.base import EvaluationResult, RetryConfig, describe
from holodeck_action.metrics.errors import DeepEvalError, EvaluationError
from holodeck_action.metrics.judging.judge_model import JudgeModelConfig
from holodeck_action.metrics.judging.libraries import AskedJudge, LibraryError, LocalJudge, evaluated
from holodeck_action.metrics.judging.model_judged import ModelJudgedEvaluator
from holodeck_action.metrics.judging.own_judge import TRANSIENT, own_judge
from holodeck_action.metrics.params import OTHER_NAME, EvalParam, ParamSpec
from holodeck_action.metrics.result import check_threshold
from holodeck_action.record.evaluation import Polarity
from holodeck_action.suite.model.metric_base import VALID_EVALUATION_PARAMS
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import cut

if TYPE_CHECKING:
    from holodeck_action.extensions.tracing.settings import Traces
    from holodeck_action.llm.spans import Span


def evaluation_span(name: str, given: Mapping[str, Any], config: Traces) -> Span:
    """Start the span of an evaluation, below the program's current one.

    Args:
        name: of the metric.
        given: the evaluator's inputs; in the span only where `capture_content` or `capture_evaluation_content` asks for
            them.
        config: what is kept of it. How many spans wait is the program's own provider's to say.

    Raises:
        EvaluationError: OpenTelemetry is not installed (code `not_installed`).
    """
    try:
        from holodeck_action.extensions.tracing.otel import program_span
    except ImportError as error:
        raise EvaluationError(
            f"observability_config needs a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[otel]'",
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
        span.set_content("holodeck_action.evaluation.inputs", {key: _shown(value) for key, value in given.items()})
    return span


_OF_THE_EXPORT = ("max_queue_size", "max_export_batch_size", "schedule_delay_millis")


def check_observability(config: Traces) -> None:
    """Refuse settings of a run's own export: in a script the program's OpenTelemetry sends the spans.

    Raises:
        ValueError: one is set.
    """
    for name in _OF_THE_EXPORT:
        if getattr(config, name) is not None:
            raise ValueError(
                f"observability_config.{name} has no effect: the program's own tracer provider sends the spans; leave "
                "it out"
            )


def tell_result(span: Span, result: EvaluationResult) -> None:
    """Add what came of an evaluation to its span."""
    score = result.score
    span.set(
        {
            "gen_ai.evaluation.score.value": float(score) if isinstance(score, bool | int | float) else None,
            "gen_ai.evaluation.score.label": None if result.passed is None else "pass" if result.passed else "fail",
        }
    )
    span.set_content("gen_ai.evaluation.explanation", result.reasoning)


def _shown(value: Any) -> Any:
    return value if isinstance(value, str) else [str(part) for part in value] if isinstance(value, list) else str(value)


_ASKED: ContextVar[AskedJudge] = ContextVar("_ASKED")
"""The judge of the evaluation under way."""

_MARKER = "[DEEPEVAL:"
_HARMLESS = "[\u200bDEEPEVAL:"
"""DeepEval loads files that such markers name: with a zero-width space they are text."""

_SHOWN = 200


class DeepEvalBaseEvaluator(ModelJudgedEvaluator):
    """An evaluator that asks a judge through a metric of DeepEval: a subclass implements `_create_metric`.

    A subclass of your own reads `self._threshold` and `self._model` there, as HoloDeck's documents show.

    Without a `PARAM_SPEC` of its own it takes all inputs of DeepEval's test cases, and needs the answer.

    Attributes:
        model_config: the model that grades; None without one, and if a judge was given.
        threshold: lowest passing score.
        model: the model as DeepEval's metrics take it.
    """

    PARAM_SPEC = ParamSpec(
        required=frozenset({EvalParam.ACTUAL_OUTPUT}),
        optional=frozenset(map(EvalParam, VALID_EVALUATION_PARAMS)) - {EvalParam.ACTUAL_OUTPUT},
        uses_context=True,
        uses_retrieval_context=True,
    )
    METRIC: ClassVar[str] = "DeepEval"
    NEEDS_QUESTION: ClassVar[bool] = True
    """Whether an `EvaluationInput` must have an input that is not empty."""

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
        """Configure; nothing is imported or asked.

        Args:
            model_config: the model that grades; it is an error if neither it nor `judge` is given.
            threshold: lowest passing score, 0..1; None for no verdict.
            timeout: seconds one evaluation may take.
            retry_config: retries of transient failures.
            observability_config: opens a span per evaluation with the program's own OpenTelemetry; none without it.
            judge: who grades, on a wire that somebody else holds; instead of `model_config`.

        Raises:
            ValueError: a threshold outside 0..1, or a setting of `observability_config` that has no effect here.
        """
        super().__init__(model_config, timeout, retry_config, judge)
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

    def graded_by(self, model_config: JudgeModelConfig, timeout: float | None) -> Self:
        """Return a copy that another model grades, `timeout` seconds at most."""
        found = super().graded_by(model_config, timeout)
        found._native_model = None
        return found

    @property
    def model(self) -> Any:
        """The model as DeepEval's metrics take it: during an evaluation the judge, else DeepEval's own class.

        Raises:
            EvaluationError: there is no model, or DeepEval, or what its own class for the provider needs, is not there.
        """
        return self._model

    @property
    def _model(self) -> Any:
        judge = _ASKED.get(None)
        if judge is not None:
            return deepeval_model(judge, self._problem)
        if self._native_model is None:
            self._native_model = native_model(self._configured())
        return self._native_model

    def _create_metric(self) -> Any:
        """Return a new metric of DeepEval: metrics hold the state of one evaluation."""
        raise TypeError("DeepEvalBaseEvaluator is the base of metrics: a subclass implements _create_metric")

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments that a copy is built with, JSON values; who is asked is not among them."""
        return {"threshold": self._threshold}

    def _problem(self, verdict: Any) -> str | None:
        """Say what is wrong with a verdict beyond its schema, None when nothing is."""
        return None

    def _metadata(self, metric: Any, test_case: Any) -> Mapping[str, Any]:
        """Return what a measured metric found besides its score."""
        return {}

    def _prepare(self, metric: Any, test_case: Any) -> None:
        """Do what has to happen before the metric measures."""

    def _settled(self, given: Mapping[str, Any]) -> EvaluationResult | None:
        """Return the result that needs no judge, None when one must be asked."""
        return None

    def is_transient(self, error: Exception) -> bool:
        """Tell whether trying again may help: what the provider may get over."""
        cause = error.original_error if isinstance(error, DeepEvalError) else error
        return (isinstance(cause, ModelCallError) and cause.code in TRANSIENT) or super().is_transient(error)

    async def evaluate(self, given: EvaluationInput | None = None, /, **kwargs: Any) -> EvaluationResult:
        """Evaluate one item, given as a value or by keyword.

        Raises:
            EvaluationError: the value has no `input` (code `missing_input`); else see `BaseEvaluator.evaluate`.
        """
        if given is not None:
            kwargs = {**given.given(), **kwargs}
            question = kwargs.get(EvalParam.INPUT) or kwargs.get(EvalParam.QUERY) or ""
            if self.NEEDS_QUESTION and not str(question).strip():
                raise self._missing(EvalParam.INPUT)
        if not self._is_ours:
            # Its import takes seconds, which are no time of an evaluation. What goes wrong is told where it is needed.
            with suppress(EvaluationError):
                module("deepeval.metrics")
        return await super().evaluate(**kwargs)

    @final
    async def _with_retries(self, arguments: Mapping[str, Any]) -> EvaluationResult:
        config = self._observability_config
        if config is None or not config.enabled:
            return await super()._with_retries(arguments)
        with Scope(evaluation_span(self.name, arguments, config)) as span:
            result = await super()._with_retries(arguments)
            tell_result(span, result)
            return result

    @final
    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        self.check_judge()
        settled = self._settled(kwargs)
        if settled is not None:
            return settled
        case = _fields(kwargs)
        async with own_judge(self._judge, self._plan) as judge:
            try:
                await self._begin(judge)
                if self._is_ours:
                    return await self._evaluated(case, judge)
                return await self.measured(case, LocalJudge(judge))
            except Exception as error:
                raise self._failed(_own(error), kwargs, judge.redact) from error

    @property
    def _is_ours(self) -> bool:
        return type(self).__module__.startswith(f"{__package__}.")

    async def _begin(self, judge: JudgeModel) -> None:
        """Ask the judge what is asked once for all evaluations."""

    async def _evaluated(self, case: Mapping[str, Any], judge: JudgeModel) -> EvaluationResult:
        """Evaluate in the process of the libraries."""
        found = await evaluated("deepeval", {**self._request(), "case": case}, judge)
        steps = found.pop("evaluation_steps")
        return EvaluationResult(
            **found,
            evaluation_steps=None if steps is None else tuple(steps),
            metric_name=self.metric_name,
            threshold=self._threshold,
            polarity=self._polarity,
        )

    def _request(self) -> dict[str, Any]:
        return {"evaluator": type(self).__name__, "arguments": self._arguments()}

    async def measured(self, case: Mapping[str, Any], judge: AskedJudge) -> EvaluationResult:
        """Evaluate in this process.

        Args:
            case: fields of DeepEval's test case.
            judge: who grades.

        Raises:
            Exception: whatever DeepEval and the judge raise.
        """
        test_case = module("deepeval.test_case").LLMTestCase(**case)
        with self.asking(judge):
            metric = self._create_metric()
            self._prepare(metric, test_case)
            await metric.a_measure(test_case, _show_indicator=False)
        return self._result(metric, test_case, judge.label)

    @contextmanager
    def asking(self, judge: AskedJudge) -> Iterator[None]:
        """Let metrics that are made in the block ask a judge."""
        token = _ASKED.set(judge)
        try:
            yield
        finally:
            _ASKED.reset(token)

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
            metadata={"judge": judge, **self._metadata(metric, test_case)},
        )

    def _failed(self, error: Exception, given: Mapping[str, Any], redact: Redact) -> EvaluationError:
        if isinstance(error, EvaluationError):
            return error
        summary = {
            name: cut(redact(value), _SHOWN)
            for name in ("input", "actual_output", "expected_output")
            if isinstance(value := given.get(name), str)
        }
        if isinstance(error, ModelCallError):
            context = {"cause": error.code, **error.context}
            return DeepEvalError(error.message, self.metric_name, error, summary, context=context)
        told = str(error) if isinstance(error, LibraryError) else describe(error)
        return DeepEvalError(told, self.metric_name, error, summary)


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of DeepEval's test case; a context that is one text becomes a list of it."""
    fields: dict[str, Any] = {"input": ""}
    for param in (EvalParam.INPUT, EvalParam.ACTUAL_OUTPUT, EvalParam.EXPECTED_OUTPUT):
        if (value := given.get(param.value, given.get(OTHER_NAME[param].value))) is not None:
            # DeepEval refuses an answer without characters: the judge shall see that there is none.
            fields[param.value] = _harmless(str(value)) or " "
    for param in (EvalParam.CONTEXT, EvalParam.RETRIEVAL_CONTEXT):
        if (value := given.get(param.value)) is not None:
            texts = [value] if isinstance(value, str) else list(value)
            fields[param.value] = [_harmless(str(text)) for text in texts]
    return fields


def _own(error: Exception) -> Exception:
    """Return an error of ours that DeepEval has wrapped because of a word in it, else the error itself."""
    cause = error.__cause__
    return cause if isinstance(cause, ModelCallError | EvaluationError) else error


def _harmless(text: str) -> str:
    return text.replace(_MARKER, _HARMLESS)


__all__ = ["DeepEvalBaseEvaluator", "Problem"]
