"""Metrics that compute: settings are fields, the score is the method `compute`. In a run and in Python code alike."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from holodeck_action.metrics.base import BaseEvaluator, Building, DeterministicEvaluator, RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import ParamSpec
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.record.evaluation import Score
from holodeck_action.suite.model.metric_base import Metric

M = TypeVar("M", bound=Metric)
S = TypeVar("S", bound="ScoringMetric")


class ScoringMetric(Metric):
    """A metric whose score is a method of its own."""

    PARAM_SPEC: ClassVar[ParamSpec] = ParamSpec()
    """Its inputs."""
    VERSION: ClassVar[str] = "1.0.0"
    """Changes whenever the same input may score differently."""

    @property
    def spec(self) -> ParamSpec:
        """The inputs with these settings."""
        return self.PARAM_SPEC

    @property
    def version(self) -> str:
        """What records keep as `evaluator_version`."""
        return self.VERSION

    @property
    def mark(self) -> float | None:
        """The threshold of its results; None if a result has its own verdict, or none."""
        return None if self.written_threshold is None else self.pass_mark

    @property
    def evaluator_name(self) -> str:
        """The name of its evaluator in messages."""
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
        """Return a result; its own verdict counts without a threshold only."""
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
    """A metric that only computes: a subclass declares `PARAM_SPEC` and implements `compute`."""

    QUICK_ON_SHORT_TEXTS: ClassVar[bool] = False
    """Whether it takes milliseconds if all inputs are short texts."""

    def compute(self, **given: Any) -> EvaluationResult:
        """Score one item.

        Args:
            **given: the inputs under the names of `PARAM_SPEC`, the required ones always, no others.

        Raises:
            EvaluationError: it cannot be scored.
        """
        raise NotImplementedError

    def evaluator(self, building: Building) -> DeterministicEvaluator:
        """Return the evaluator that calls `compute`."""
        return ComputedEvaluator(self, **building.options)


class OfMetric(BaseEvaluator, Generic[S]):
    """An evaluator that scores by a method of its metric, with the metric's names and version."""

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
        """The metric's version."""
        return self.config.version

    @property
    def threshold(self) -> float | None:
        """The threshold of results."""
        return self.config.mark


class ComputedEvaluator(OfMetric[ComputedMetric], DeterministicEvaluator):
    """Scores by a `ComputedMetric`; settings and methods of the metric are its attributes."""

    def __init__(
        self, config: ComputedMetric, timeout: float | None = 60.0, retry_config: RetryConfig | None = None
    ) -> None:
        super().__init__(timeout, retry_config)
        self.config = config
        self.PARAM_SPEC = config.spec
        self.QUICK_ON_SHORT_TEXTS = config.QUICK_ON_SHORT_TEXTS  # type: ignore[misc]

    def compute(self, **kwargs: Any) -> EvaluationResult:
        """Score one item; see the metric."""
        return self.config.compute(**kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "config":
            raise AttributeError(name)
        return getattr(self.config, name)


class PythonEvaluator(ComputedEvaluator):
    """An evaluator that a program builds from settings of its metric.

    A subclass names the metric (`of`) and the arguments in their order (`takes`): settings, and `timeout`, which is the
    last but `retry_config` if it is not among them. Other class arguments are settings that it always has.
    """

    __signature__: ClassVar[Signature]
    METRIC: ClassVar[type[ComputedMetric]]
    SETTLED: ClassVar[Mapping[str, Any]]

    def __init_subclass__(cls, of: type[ComputedMetric] | None = None, takes: str = "", **settled: Any) -> None:
        super().__init_subclass__()
        if of is None:
            return
        defaults = {name: field.get_default(call_default_factory=True) for name, field in of.model_fields.items()}
        defaults |= {"timeout": 60.0, "retry_config": None}
        names = dict.fromkeys((*takes.split(), "timeout", "retry_config"))
        kind = Parameter.POSITIONAL_OR_KEYWORD
        cls.METRIC, cls.SETTLED, cls.PARAM_SPEC, cls.VERSION = of, settled, of.PARAM_SPEC, of.VERSION
        cls.__signature__ = Signature([Parameter(name, kind, default=defaults[name]) for name in names])

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take the arguments of `__signature__`.

        Raises:
            TypeError: an argument that it does not take.
            ValueError: a setting that the metric refuses.
        """
        given = type(self).__signature__.bind(*arguments, **options).arguments
        shared = {name: given.pop(name) for name in ("timeout", "retry_config") if name in given}
        written = {name: value for name, value in given.items() if value is not None}
        config = checked(self.METRIC, {**self.SETTLED, **written})
        # A suite cannot write that there is no threshold where it has one by default.
        super().__init__(config.model_copy(update=dict.fromkeys(given.keys() - written)), **shared)


def checked(metric: type[M], given: Mapping[str, Any]) -> M:
    """Return a metric with these settings.

    Raises:
        ValueError: one is refused; the message is one line.
    """
    try:
        return metric(**given)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(": ".join((*map(str, wrong["loc"]), wrong["msg"]))) from None


def compared_texts(name: str, inputs: Mapping[str, Any], error: type[EvaluationError]) -> tuple[str, str]:
    """Return `response` and `ground_truth` of a metric that compares texts.

    Args:
        name: of the evaluator.
        inputs: value by parameter.
        error: what is raised.

    Raises:
        EvaluationError: of the class `error`: one of them is not a text (code `invalid_input`).
    """
    for parameter in ("response", "ground_truth"):
        value = inputs[parameter]
        if not isinstance(value, str):
            found = f"{parameter} is of type {type(value).__name__}"
            raise error(f"{name} compares texts, but {found}", code="invalid_input")
    return inputs["response"], inputs["ground_truth"]
