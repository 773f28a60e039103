"""The metrics that there are, as a value, and fields of documents that hold an entry of one of them.

Which metrics there are is not known here: whoever validates gives it as `context={METRICS: types}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args

from pydantic import Discriminator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Tag, TypeAdapter
from pydantic import ValidationInfo as Info
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from holodeck_action.suite.metric_base import Metric, Role

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
    _adapters: dict[Place, TypeAdapter[Metric]] = field(default_factory=dict, init=False, repr=False)

    def read(self, place: Place, value: Any) -> Metric:
        """Return an entry that is written like this.

        Raises:
            ValidationError: it is none.
        """
        return self.adapter(place).validate_python(value, context={METRICS: self})

    def adapter(self, place: Place) -> TypeAdapter[Metric]:
        """Return what validates an entry."""
        if place not in self._adapters:
            self._adapters[place] = TypeAdapter(self._entry(place))
        return self._adapters[place]

    def _entry(self, place: Place) -> Any:
        classes = [
            (kind, metric) for kind, metric in self.classes.items() if place != "member" or not metric.HAS_MEMBERS
        ]
        union: Any = Union[tuple(Annotated[metric, Tag(kind)] for kind, metric in classes)]  # noqa: UP007 - made of a list
        if place == "case":
            return Annotated[union, Discriminator(self._type_or_told)]
        return Annotated[union, Discriminator(_type_of), Field(json_schema_extra={"required": ["type"]})]

    def _type_or_told(self, value: Any) -> str | None:
        if isinstance(value, dict) and "type" not in value:
            told = [kind for kind, metric in self.classes.items() if metric.TOLD_BY is not None]
            return next((kind for kind in told if self.classes[kind].TOLD_BY in value), next(iter(told), None))
        return _type_of(value)

    def measuring(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield the type, and the key below it, of every metric of which a setting can be this name."""
        for kind, metric in self.classes.items():
            for key in metric.settings_for(Role.KIND) - {"type"}:
                if name in get_args(metric.model_fields[key].annotation):
                    yield kind, key


def _type_of(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None


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

    def _validated(self, value: Any, info: Info) -> Any:
        if isinstance(value, Metric):
            return value
        types = (info.context or {}).get(METRICS)
        if types is None:
            raise PydanticCustomError("metric_types", "cannot be read as a metric here")
        return types.adapter(self._place).validate_python(value, context=info.context)


SuiteMetric = Annotated[Metric, _Entry("suite")]
"""An entry of `evaluations.metrics`: `type` is required."""
CaseMetric = Annotated[Metric, _Entry("case")]
"""An entry of a case's or turn's `evaluations`: `type` may be left out where a key tells it."""
MemberMetric = Annotated[Metric, _Entry("member")]
"""An entry of a metric that is made of several, which is none of them itself."""
