"""Metrics that grade items themselves: their base class, that of computed metrics, and the evaluator of both.

The settings of a metric are fields of its class. Its coroutine `grade` grades one item, or its method `compute`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from inspect import Parameter, Signature
from typing import Any, ClassVar

from msgspec import structs

from holodeck_action.metrics.base import BaseEvaluator, BuildContext, RetryConfig, Use
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec, declared_names
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.record.evaluation import Score
from holodeck_action.suite.model.metric_base import JudgedMetric, Metric
from holodeck_action.workers.threads import in_daemon_thread

_ANSWERS = frozenset({EvalParam.RESPONSE, EvalParam.ACTUAL_OUTPUT})
_EXPECTED = frozenset({EvalParam.GROUND_TRUTH, EvalParam.EXPECTED_OUTPUT})


_PARAM_NAMES = frozenset(param.value for param in EvalParam)
_SHORT = 4_000
"""Maximum characters of a short string; every computed metric takes only milliseconds for short strings."""


class ScoringMetric(Metric):
    """Base class of metrics that grade items themselves."""

    PARAM_SPEC: ClassVar[ParamSpec] = ParamSpec()
    """The metric's inputs."""
    VERSION: ClassVar[str] = "1.0.0"
    """Version of the scoring; it must change whenever the score of an input may change."""
    LIMITS_CALLS: ClassVar[bool] = False
    """Whether `grade` limits the time of its calls itself, by `Use.timeout`."""

    @property
    def spec(self) -> ParamSpec:
        """The inputs that the metric needs with its current settings."""
        return self.PARAM_SPEC

    @property
    def reads_expected_answer(self) -> bool:
        """Whether the expected answer is one of the metric's inputs."""
        return self._takes(_EXPECTED)

    @property
    def grades_content(self) -> bool:
        """Whether the metric grades what the answer says, which must be one of its inputs."""
        return super().grades_content and self._takes(_ANSWERS)

    def _takes(self, params: frozenset[EvalParam]) -> bool:
        return not params.isdisjoint(self.spec.required | self.spec.optional)

    @property
    def version(self) -> str:
        """The `evaluator_version` of records."""
        return self.VERSION

    @property
    def mark(self) -> float | None:
        """The threshold that decides whether a result passes; None if results have their own verdict or no verdict."""
        return None if self.written_threshold is None else self.pass_mark

    @property
    def evaluator_name(self) -> str:
        """The evaluator's name in messages."""
        return f"{type(self).__name__.removesuffix('Metric')}Evaluator"

    async def grade(self, inputs: Mapping[str, Any], use: Use) -> EvaluationResult:
        """Grade one item.

        Args:
            inputs: inputs under the names of `PARAM_SPEC`, with all required ones.
            use: the judge, the embedding model or the workers.

        Raises:
            ModelCallError: a model gives no answer.
            EvaluationError: the item cannot be graded.
        """
        raise NotImplementedError

    def prepare(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs before they are checked; a metric may take one from another, such as a missing context."""
        return inputs

    def version_with(self, use: Use) -> str:
        """Return the `evaluator_version` of records of items that were graded with `use`."""
        return self.version

    def is_transient(self, error: Exception, attempts: int) -> bool:
        """Return whether a retry may help: by default, if the failure of a model's provider may be temporary."""
        from holodeck_action.llm.errors import ModelCallError
        from holodeck_action.metrics.judging.own_judge import TRANSIENT

        cause = error.__cause__
        return isinstance(cause, ModelCallError) and cause.code in TRANSIENT

    def evaluator(self, building: BuildContext) -> BaseEvaluator:
        """Return the evaluator that calls `grade`."""
        return Grader(self, Use(pool=building.pool, timeout=building.options.get("timeout")), **building.options)

    def result(
        self,
        score: Score,
        reasoning: str,
        facts: Mapping[str, Any] | None = None,
        *,
        passed: bool | None = None,
        confidence: float | None = None,
    ) -> EvaluationResult:
        """Return a result with the metric's name and threshold; `passed` is ignored if there is a threshold."""
        return EvaluationResult(
            score=score,
            passed=passed if self.mark is None else None,
            reasoning=reasoning,
            metric_name=self.measure,
            threshold=self.mark,
            metadata=facts or {},
            polarity=self.polarity,
            confidence=confidence,
        )


class ComputedMetric(ScoringMetric):
    """A metric without model calls: a subclass declares `PARAM_SPEC` and implements `compute`."""

    QUICK_ON_SHORT_TEXTS: ClassVar[bool] = False
    """Whether `compute` takes only milliseconds if all inputs are short strings."""

    @property
    def spec(self) -> ParamSpec:
        """The metric's inputs; a metric that needs an expected answer may get several, and is computed for each."""
        found = super().spec
        several = {EvalParam.GROUND_TRUTHS} if EvalParam.GROUND_TRUTH in found.required else set[EvalParam]()
        return found._replace(optional=found.optional | several)

    def compute(self, **given: Any) -> EvaluationResult:
        """Score one item.

        Args:
            **given: the inputs under the names of `PARAM_SPEC`, with all required ones and no others.

        Raises:
            EvaluationError: the item cannot be scored.
        """
        raise NotImplementedError

    def score_item(self, inputs: Mapping[str, Any]) -> EvaluationResult:
        """Score one item (see `compute`), by that of its several expected answers that counts."""
        kwargs = dict(inputs)
        references = kwargs.pop(EvalParam.GROUND_TRUTHS, None)
        if references is None:
            return self.compute(**kwargs)
        from holodeck_action.metrics.references import counted_result

        [texts] = references.values()
        return counted_result(references, [self.compute(**{**kwargs, "ground_truth": text}) for text in texts])

    async def grade(self, inputs: Mapping[str, Any], use: Use) -> EvaluationResult:
        """Score one item in a thread."""
        return await asyncio.wrap_future(in_daemon_thread(lambda: self.score_item(inputs)))


class Grader(BaseEvaluator):
    """A metric with what it uses: its evaluator, which has the metric's names, inputs and version.

    Attributes:
        config: the metric.
        use: what the metric uses.
        path: the part of a JSON answer that is graded; without it the score is 0. None for the whole answer.
    """

    def __init__(
        self,
        config: ScoringMetric,
        use: Use | None = None,
        timeout: float | None = 60.0,
        retry_config: RetryConfig | None = None,
    ) -> None:
        super().__init__(None if config.LIMITS_CALLS else timeout, retry_config)
        self.config = config
        self.use = use or Use()
        self.path: str | None = None
        self.PARAM_SPEC = config.spec

    @property
    def name(self) -> str:
        """The evaluator's name in messages."""
        return self.config.evaluator_name

    @property
    def metric_name(self) -> str:
        """The metric's name in a suite."""
        return self.config.measure

    @property
    def version(self) -> str:
        """The metric's `evaluator_version`."""
        return self.config.version_with(self.use)

    @property
    def threshold(self) -> float | None:
        """The threshold that decides results; None if there is no threshold."""
        return self.config.mark

    @property
    def computes(self) -> bool:
        """Whether the metric is computed."""
        return isinstance(self.config, ComputedMetric)

    def compute(self, **inputs: Any) -> EvaluationResult:
        """Score one item by a computed metric, without an event loop."""
        part = inputs if self.path is None else select_part(inputs, self.path, self.metric_name)
        assert isinstance(self.config, ComputedMetric)
        return part if isinstance(part, EvaluationResult) else self.config.score_item(part)

    def is_quick(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether `compute` takes only milliseconds, less than a thread with a time limit would cost."""
        quick = isinstance(self.config, ComputedMetric) and self.config.QUICK_ON_SHORT_TEXTS and self.path is None
        return quick and all(isinstance(value, str) and len(value) <= _SHORT for value in arguments.values())

    def is_transient(self, error: Exception) -> bool:
        """Return whether a retry may help."""
        return self.config.is_transient(error, self.retry_config.attempts) or super().is_transient(error)

    def resolve(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Rename parameters to the declared names. A computed metric gets no parameters of other evaluators.

        Raises:
            EvaluationError: see `BaseEvaluator.resolve`; or a name is not an evaluation parameter (code
                `unknown_parameter`).
        """
        arguments = super().resolve(self.config.prepare(inputs))
        if not self.computes:
            return arguments
        declared = declared_names(self.PARAM_SPEC)
        if not arguments.keys() <= _PARAM_NAMES:
            name = next(name for name in arguments if name not in _PARAM_NAMES)
            raise EvaluationError(
                f"{self.name} has no parameter {name!r:.80} (it has: {', '.join(sorted(declared))})",
                code="unknown_parameter",
            )
        return {name: value for name, value in arguments.items() if name in declared}

    async def evaluate(self, **kwargs: Any) -> EvaluationResult:
        """Evaluate one item; the import of a library does not count as evaluation time."""
        if self.computes and self.config.library is not None:
            from holodeck_action.metrics.judging.libraries import import_library

            await import_library(self.config.library)
        return await super().evaluate(**kwargs)

    async def _evaluate_impl(self, **kwargs: Any) -> EvaluationResult:
        part = kwargs if self.path is None else select_part(kwargs, self.path, self.metric_name)
        if isinstance(part, EvaluationResult):
            return part
        if self.computes:
            return await self.config.grade(part, self.use)
        from holodeck_action.llm.errors import ModelCallError

        try:
            async with self._opened() as use:
                return await self.config.grade(part, use)
        except ModelCallError as error:
            context = {"cause": error.code, **error.context}
            raise EvaluationError(error.message, code="judge_failed", context=context) from error

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Use]:
        """Provide what the metric uses, with a judge if it needs one."""
        from holodeck_action.metrics.judging.own_judge import provide_judge, require_model

        if self.use.grading is not None or not isinstance(self.config, JudgedMetric):
            yield self.use
            return
        async with provide_judge(None, require_model(self.name, self.use.model).plan) as judge:
            yield structs.replace(self.use, grading=judge)


def select_part(inputs: Mapping[str, Any], path: str, metric_name: str) -> Mapping[str, Any] | EvaluationResult:
    """Return the inputs with only the part of the answer at `path`; a result with score 0 if there is no such part."""
    from holodeck_action.metrics.response_path import ResponsePathError, extract

    try:
        return {**inputs, "response": extract(inputs["response"], path)}
    except ResponsePathError as error:
        reason = f"response_path {path}: {error.message}"
        return EvaluationResult(score=0.0, passed=False, reasoning=reason, metric_name=metric_name)


class PythonEvaluator(Grader):
    """Base class of evaluators that programs create with a metric's settings as arguments.

    A subclass has two class arguments: `of` is the metric, `takes` lists the names of the positional arguments
    (settings and optionally `timeout`). `timeout` and `retry_config` are appended if they are missing. Further class
    arguments are settings with fixed values.
    """

    __signature__: ClassVar[Signature]
    METRIC: ClassVar[type[ComputedMetric]]
    FIXED_SETTINGS: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls, of: type[ComputedMetric] | None = None, takes: str = "", **fixed: Any) -> None:
        super().__init_subclass__()
        if of is None:
            return
        defaults = {name: field.get_default(call_default_factory=True) for name, field in of.model_fields.items()}
        defaults |= {"timeout": 60.0, "retry_config": None}
        names = dict.fromkeys((*takes.split(), "timeout", "retry_config"))
        kind = Parameter.POSITIONAL_OR_KEYWORD
        cls.METRIC, cls.FIXED_SETTINGS, cls.PARAM_SPEC, cls.VERSION = of, fixed, of.PARAM_SPEC, of.VERSION
        cls.__signature__ = Signature([Parameter(name, kind, default=defaults[name]) for name in names])

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Create the evaluator with the arguments of `__signature__`.

        Raises:
            TypeError: an argument is unknown.
            ValueError: a setting is invalid.
        """
        given = type(self).__signature__.bind(*arguments, **options).arguments
        shared = {name: given.pop(name) for name in ("timeout", "retry_config") if name in given}
        written = {name: value for name, value in given.items() if value is not None}
        config = self.METRIC(**{**self.FIXED_SETTINGS, **written})
        # Only Python code can remove a default threshold, with None.
        super().__init__(config.model_copy(update=dict.fromkeys(given.keys() - written)), **shared)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "config":
            raise AttributeError(name)
        return getattr(self.config, name)


def require_texts(name: str, inputs: Mapping[str, Any], error: type[EvaluationError]) -> tuple[str, str]:
    """Return the inputs `response` and `ground_truth` of a metric that compares texts, after checking that they are
    strings.

    Args:
        name: name of the evaluator, for messages.
        inputs: values by name of the parameter.
        error: class of the error to raise.

    Raises:
        EvaluationError: an input is not a string (class `error`, code `invalid_input`).
    """
    for parameter in ("response", "ground_truth"):
        value = inputs[parameter]
        if not isinstance(value, str):
            found = f"{parameter} is of type {type(value).__name__}"
            raise error(f"{name} compares texts, but {found}", code="invalid_input")
    return inputs["response"], inputs["ground_truth"]
