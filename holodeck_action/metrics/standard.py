"""`type: standard`: the settings of text comparison metrics and of the legacy Azure AI metrics.

Source of names and defaults: HoloDeck evaluation API, Standard NLP Metrics.
"""

import builtins
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.seam import registry
from holodeck_action.suite.model.base import Flag, Integer, LazySection, NonBlank, Number, with_values
from holodeck_action.suite.model.metric_base import GROUND_TRUTH, JudgedMetric, Metric, Role
from holodeck_action.suite.model.patterns import RESPONSE_PATH
from holodeck_action.suite.model.providers import LLMProvider

_TYPE = "standard"
_HERE = "holodeck_action.metrics"
_OF_EXTENSIONS = {name: metric.to for (kind, name), metric in registry.metrics().items() if kind == _TYPE}
_OWN = {
    "bleu": f"{_HERE}.text_similarity:BleuMetric",
    "rouge": f"{_HERE}.text_similarity:RougeMetric",
    "meteor": f"{_HERE}.text_similarity:MeteorMetric",
    "f1_score": f"{_HERE}.text_similarity:F1Metric",
    "equality": f"{_HERE}.deterministic:EqualityMetric",
    "numeric": f"{_HERE}.deterministic:NumericMetric",
}
_NAMES = {to: name for name, to in _OWN.items()}
_CLASSES = _OF_EXTENSIONS | _OWN
"""The classes of the metrics by name, each as `module:name`."""
_USED_BY = {
    **dict.fromkeys(("case_insensitive", "strip_whitespace", "strip_punctuation"), ("equality",)),
    **dict.fromkeys(
        ("absolute_tolerance", "relative_tolerance", "accept_percent", "accept_thousands_separators"), ("numeric",)
    ),
    **dict.fromkeys(("variant", "use_stemmer"), ("rouge",)),
    **dict.fromkeys(("custom_prompt", "model"), tuple(_OF_EXTENSIONS)),
}

if TYPE_CHECKING:
    StandardName = str
else:
    StandardName = Literal[tuple(_CLASSES)]

ROUGE_VARIANTS = ("rouge1", "rouge2", "rougeL")


class StandardMetric(JudgedMetric):
    """`type: standard`: text comparison without a model, or a legacy Azure AI metric."""

    PLACE = 1
    IDENTIFYING_KEY = "metric"
    SCHEMA_RULES = ({"if": with_values("scale"), "else": {"properties": {"threshold": {"maximum": 1}}}},)
    SCORE_IS_THRESHOLD_FREE = True

    type: Annotated[Literal["standard"], Role.KIND] = "standard"
    metric: Annotated[StandardName, Role.KIND]
    """The measure. Example: `rouge`."""
    threshold: Annotated[Annotated[Number, Field(ge=0.0)] | None, Role.PASS_MARK] = None
    """Lowest passing score, from 0 to `scale`. `equality` and `numeric` pass at 1 when absent, the others are
    informational. Example: `0.5`."""
    scale: Annotated[Annotated[Integer, Field(gt=0)] | None, Role.SCALE] = None
    """The threshold is written from 0 to this number; the score stays 0 to 1. Example: `5`."""
    custom_prompt: NonBlank | None = None
    """Of an Azure AI metric: a prompt that replaces the package's prompt. Example: `Grade {{response}} from 1 to
    5.`."""
    model: Annotated[LazySection[LLMProvider] | None, Role.JUDGES] = None
    """Of an Azure AI metric: the judge, of provider `azure_openai`."""
    case_insensitive: Flag = False
    """Of `equality`: compare case-folded text."""
    strip_whitespace: Flag = False
    """Of `equality`: replace runs of white space by one space, and trim."""
    strip_punctuation: Flag = False
    """Of `equality`: delete ASCII punctuation."""
    absolute_tolerance: Annotated[Number, Field(ge=0.0)] = 1e-6
    """Of `numeric`: largest difference, inclusive."""
    relative_tolerance: Annotated[Number, Field(ge=0.0)] = 0.0
    """Of `numeric`: largest difference as a share of the expected number, inclusive."""
    accept_percent: Flag = False
    """Of `numeric`: a number that ends in `%` is divided by 100."""
    accept_thousands_separators: Flag = False
    """Of `numeric`: delete comma, underscore and narrow spaces."""
    response_path: Annotated[str, Field(pattern=RESPONSE_PATH)] | None = None
    """Compare this part of a JSON answer. Example: `result.items[0].total`."""
    variant: Literal["rouge1", "rouge2", "rougeL"] = "rougeL"
    """Of `rouge`: which of the three F-measures is the score."""
    use_stemmer: Flag = False
    """Of `rouge`: use the Porter stemmer."""

    @model_validator(mode="after")
    def _check_threshold(self) -> Self:
        top = self.scale or 1
        if self.threshold is not None and self.threshold > top:
            raise PydanticCustomError(
                "threshold", "can never be reached: the highest score is {top} (allowed: 0 to {top})", {"top": top}
            )
        return self

    @model_validator(mode="after")
    def _check_judges(self) -> Self:
        if self.judges is not None and not self.needs_judge:
            raise PydanticCustomError(
                "judges", "have no effect here: no model is called for {metric}", {"metric": self.metric}
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _set_metric(cls, value: Any) -> Any:
        # Not a default of the field, because criteria omit defaults, and different metrics must not look equal.
        name = standard_name(cls)
        if name is None or not isinstance(value, Mapping) or value.get("metric") == name:
            return value
        if "metric" in value:
            raise PydanticCustomError("metric", "is not {name}, the metric of this class", {"name": name})
        return {**value, "metric": name}

    def __new__(cls, **settings: Any) -> "StandardMetric":
        """Return an instance of the subclass for the setting `metric`."""
        return super().__new__(cls.of(settings))

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> builtins.type["StandardMetric"]:
        """Return the subclass for the setting `metric` in `value`."""
        to = _CLASSES.get(name) if isinstance(name := value.get("metric"), str) else None
        return cls if to is None or cls is not StandardMetric else registry.resolve(to)

    @property
    def needs(self) -> frozenset[str]:
        """The inputs: the reference text."""
        return GROUND_TRUTH

    @property
    def pass_mark(self) -> float | None:
        """The threshold on the 0..1 scale; None if there is no threshold."""
        return None if self.threshold is None else self.threshold / (self.scale or 1)

    @property
    def measure(self) -> str:
        """The metric's name."""
        return self.metric

    @property
    def answer_path(self) -> str | None:
        """The path of the compared part of a JSON answer; None if the whole answer is compared."""
        return self.response_path

    def judged_parts(self) -> Iterator[tuple[str, Metric]]:
        """Yield nothing, because no judge grades."""
        yield from ()

    def notices(self, place: str) -> Iterator[str]:
        """Yield a notice for each setting without effect."""
        for name, metrics in _USED_BY.items():
            if name in self.model_fields_set and self.metric not in metrics and getattr(self, name) is not None:
                yield f"{place}: {name} has no effect on {self.metric}"


def standard_name(metric: type) -> str | None:
    """Return the name in `metric` of a class of this package; None if it is the class of none."""
    return _NAMES.get(f"{metric.__module__}:{metric.__qualname__}")
