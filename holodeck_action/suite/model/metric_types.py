"""The metrics that there are, as a value, and fields of documents that hold an entry of one of them.

Which metrics there are is not known here: whoever validates gives it as `context={METRICS: types}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic import ValidationInfo as Info
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from holodeck_action.suite.model.metric_base import Metric, Role

METRICS = "metrics"
"""Key of the validation's context."""
PLACE = "metric_place"
"""Key of the place of an entry in the metadata of core schemas, and in JSON Schemas until its metrics are filled in."""

Place = Literal["suite", "case", "member"]
"""Where an entry stands: `evaluations.metrics`, a case's `evaluations`, a metric that is made of several."""
PLACES: tuple[Place, ...] = get_args(Place)


@dataclass(frozen=True, slots=True, eq=False)
class MetricTypes:
    """The classes of metrics by the value of `type`, in the order in which messages list them."""

    classes: Mapping[str, type[Metric]]

    def allowed(self, place: Place) -> Mapping[str, type[Metric]]:
        """Return the metrics of which an entry can be one."""
        if place != "member":
            return self.classes
        return {kind: metric for kind, metric in self.classes.items() if not metric.HAS_MEMBERS}

    def read(self, place: Place, value: Any) -> Metric:
        """Return an entry that is written like this, or the metric that it is already.

        Raises:
            ValueError: it is none: of no type, of no known type, or not what its type asks for.
        """
        if isinstance(value, Metric):
            return value
        kind = self.kind_of(place, value)
        if kind is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "type"})
        metric = self.classes.get(kind)
        if metric is None or (place == "member" and metric.HAS_MEMBERS):
            context = {"discriminator": "type", "tag": kind, "expected_tags": ", ".join(self.allowed(place))}
            raise PydanticKnownError("union_tag_invalid", context)
        return metric.of(value).model_validate(value, context={METRICS: self})

    def kind_of(self, place: Place, value: Any) -> str | None:
        """Return the type of an entry as it is written; a key tells it in a case. None where nothing does."""
        if not isinstance(value, Mapping):
            return None
        if place == "case" and "type" not in value:
            told = [kind for kind, metric in self.classes.items() if metric.TOLD_BY is not None]
            return next((kind for kind in told if self.classes[kind].TOLD_BY in value), next(iter(told), None))
        kind = value.get("type")
        return kind if isinstance(kind, str) else None

    def core_schema(self, place: Place, value: Any) -> Any:
        """Return what pydantic expects of an entry that is written like this: its type's fields, or a known type."""
        allowed = self.allowed(place)
        metric = allowed.get(self.kind_of(place, value) or "")
        if metric is None:
            return {"type": "tagged-union", "choices": allowed}
        return metric.__pydantic_core_schema__

    def measuring(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the type, and the key below it, of every metric of which a setting can be this name."""
        for kind, metric in self.classes.items():
            for key in metric.settings_for(Role.KIND) - {"type"}:
                if name in get_args(metric.model_fields[key].annotation):
                    yield kind, key


class _Entry:
    """Marks a field that holds a metric."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self._validated,
            metadata={PLACE: self._place},
            # All settings of the metric, not those of every metric.
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda value, serialise: serialise(value), schema=core_schema.any_schema()
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {PLACE: self._place}

    def _validated(self, value: Any, info: Info) -> Metric:
        if isinstance(value, Metric):
            # Made by hand, where nobody says which metrics there are.
            return value
        types: MetricTypes | None = (info.context or {}).get(METRICS)
        if types is None:
            raise PydanticCustomError("metric_types", "cannot be read as a metric here")
        return types.read(self._place, value)


SuiteMetric = Annotated[Metric, _Entry("suite")]
"""An entry of `evaluations.metrics`: `type` is required."""
CaseMetric = Annotated[Metric, _Entry("case")]
"""An entry of a case's or turn's `evaluations`: `type` may be left out where a key tells it."""
MemberMetric = Annotated[Metric, _Entry("member")]
"""An entry of a metric that is made of several, which is none of them itself."""
