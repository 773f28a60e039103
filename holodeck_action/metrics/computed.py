"""Base classes of computed metrics, for suites and for Python code.

The settings of a metric are fields of its class. Its method `compute` scores one answer.
"""

from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any, ClassVar, Generic, TypeVar

from holodeck_action.metrics.base import BaseEvaluator, BuildContext, DeterministicEvaluator, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import EvalParam, ParamSpec
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.record.evaluation import Score
from holodeck_action.suite.model.metric_base import Metric

S = TypeVar("S", bound="ScoringMetric")

_ANSWERS = frozenset({EvalParam.RESPONSE, EvalParam.ACTUAL_OUTPUT})
_EXPECTED = frozenset({EvalParam.GROUND_TRUTH, EvalParam.EXPECTED_OUTPUT})


class ScoringMetric(Metric):
    """Base class of metrics that score items themselves: their evaluators call a method of the metric."""

    PARAM_SPEC: ClassVar[ParamSpec] = ParamSpec()
    """The metric's inputs."""
    VERSION: ClassVar[str] = "1.0.0"
    """Version of the scoring; it must change whenever the score of an input may change."""

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

    def evaluator(self, building: BuildContext) -> DeterministicEvaluator:
        """Return the evaluator that calls `compute`."""
        return ComputedEvaluator(self, **building.options)


class MetricEvaluator(BaseEvaluator, Generic[S]):
    """An evaluator that calls a method of its metric, and has the metric's names and version."""

    config: S

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
        return self.config.version

    @property
    def threshold(self) -> float | None:
        """The threshold that decides results; None if there is no threshold."""
        return self.config.mark


class ComputedEvaluator(MetricEvaluator[ComputedMetric], DeterministicEvaluator):
    """The evaluator of a `ComputedMetric`. It also has the metric's settings and methods as attributes."""

    def __init__(
        self, config: ComputedMetric, timeout: float | None = 60.0, retry_config: RetryConfig | None = None
    ) -> None:
        super().__init__(timeout, retry_config)
        self.config = config
        self.PARAM_SPEC = config.spec
        self.QUICK_ON_SHORT_TEXTS = config.QUICK_ON_SHORT_TEXTS  # type: ignore[misc]

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Score one item (see `compute` of the metric), by that of its several expected answers that counts."""
        references = kwargs.pop(EvalParam.GROUND_TRUTHS, None)
        if references is None:
            return self.config.compute(**kwargs)
        from holodeck_action.metrics.references import counted_result

        [texts] = references.values()
        return counted_result(references, [self.config.compute(**{**kwargs, "ground_truth": text}) for text in texts])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "config":
            raise AttributeError(name)
        return getattr(self.config, name)


class PythonEvaluator(ComputedEvaluator):
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
