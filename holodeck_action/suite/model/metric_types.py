"""The available metrics, and annotations of fields whose value is the entry of a metric.

The available metrics are passed to validation as `context={METRICS: types}`.
"""

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic import ValidationInfo as Info
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.model.schema_marks import METRICS, PLACE, WRITTEN_AS, Place

PLACES: tuple[Place, ...] = get_args(Place)


class MetricTypes(Struct, frozen=True, eq=False):
    """The classes of metrics by the value of `type`, in the order in which messages list them."""

    classes: Mapping[str, type[Metric]]

    def allowed(self, place: Place) -> Mapping[str, type[Metric]]:
        """Return the metrics that are allowed at a place, by type."""
        if place == "expect":
            return {kind: metric for kind, metric in self.classes.items() if metric.SHORT is not None}
        if place != "member":
            return self.classes
        return {kind: metric for kind, metric in self.classes.items() if not (metric.HAS_MEMBERS or metric.OF_PAIR)}

    def read(self, place: Place, value: Any) -> Metric:
        """Return the metric for an entry; an entry that is a `Metric` is returned as it is.

        Raises:
            ValueError: the entry has no type, an unknown type, or invalid settings.
        """
        if isinstance(value, Metric):
            return value
        kind = self.kind_of(place, value)
        if place == "expect":
            metric = self.classes.get(kind or "")
            if metric is None or metric.SHORT is None:
                raise PydanticCustomError("expect", "is not a check")
            value = {"type": kind, **{metric.SHORT if key == kind else key: item for key, item in value.items()}}
            return metric.model_validate(value, context={METRICS: self})
        if kind is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "type"})
        metric = self.classes.get(kind)
        if metric is None or kind not in self.allowed(place):
            context = {"discriminator": "type", "tag": kind, "expected_tags": ", ".join(self.allowed(place))}
            raise PydanticKnownError("union_tag_invalid", context)
        return metric.of(value).model_validate(value, context={METRICS: self})

    def kind_of(self, place: Place, value: Any) -> str | None:
        """Return the type of an entry; None if it has no type.

        In a case, a key other than `type` may identify the type. In `expect`, the first key is the type.
        """
        if not isinstance(value, Mapping):
            return None
        if place == "expect":
            first = next(iter(value), None)
            return first if isinstance(first, str) else None
        if place == "case" and "type" not in value:
            keys = {kind: metric.IDENTIFYING_KEY for kind, metric in self.classes.items() if metric.IDENTIFYING_KEY}
            return next((kind for kind, key in keys.items() if key in value), next(iter(keys), None))
        kind = value.get("type")
        return kind if isinstance(kind, str) else None

    def written(self, kind: str) -> Literal["text", "texts"] | None:
        """Return how the value of a check is read: as text or as texts, even if it looks like a number.

        None for a value as usual in YAML, and if there is no such check.
        """
        metric = self.classes.get(kind)
        if metric is None or metric.SHORT is None:
            return None
        annotation: Any = metric.model_fields[metric.SHORT].annotation
        if get_origin(annotation) is list:
            return "texts"
        options = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        return "text" if {getattr(option, "__origin__", option) for option in options} <= {str, NoneType} else None

    def core_schema(self, place: Place, value: Any) -> Any:
        """Return pydantic's core schema of the entry's type, or a union of all types if its type is unknown."""
        kind = self.kind_of(place, value) or ""
        metric = self.classes.get(kind) if place == "expect" else self.allowed(place).get(kind)
        if metric is None:
            return {"type": "tagged-union", "choices": self.allowed(place)}
        if isinstance(value, Mapping):
            metric = metric.of(value)
        return {**metric.__pydantic_core_schema__, WRITTEN_AS: {metric.SHORT: kind} if place == "expect" else {}}

    def types_measuring(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield (type, key) for each type of metric whose setting `key` can have the value `name`."""
        for kind, metric in self.classes.items():
            for key in metric.settings_for(Role.KIND) - {"type"}:
                if name in get_args(metric.model_fields[key].annotation):
                    yield kind, key


class _Entry:
    """Annotation of a field whose value is a metric."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self._validate,
            metadata={PLACE: self._place},
            # Serialise the settings of the actual metric class.
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda value, serialise: serialise(value), schema=core_schema.any_schema()
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {PLACE: self._place}

    def _validate(self, value: Any, info: Info) -> Metric:
        if isinstance(value, Metric):
            # Created in Python, without a validation context.
            return value
        types: MetricTypes | None = (info.context or {}).get(METRICS)
        if types is None:
            raise PydanticCustomError("metric_types", "cannot be read as a metric here")
        return types.read(self._place, value)


SuiteMetric = Annotated[Metric, _Entry("suite")]
"""An entry of `evaluations.metrics`: `type` is required."""
CaseMetric = Annotated[Metric, _Entry("case")]
"""An entry of a case's or turn's `evaluations`: `type` may be omitted if a key identifies it."""
CheckMetric = Annotated[Metric, _Entry("expect")]
"""An entry of `expect`: `{TYPE: VALUE}`, with further settings beside it."""
MemberMetric = Annotated[Metric, _Entry("member")]
"""A member of a metric with members, which cannot have members itself."""
