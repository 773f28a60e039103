"""Keys that models leave in schemas and in the context of a validation, and the metrics that messages name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

LAZY = "later"
"""Key of a `Section` in the metadata of core schemas."""
METRICS = "metrics"
"""Key in the validation context."""
PLACE = "metric_place"
"""Key of an entry's place in the metadata of core schemas, and in JSON Schemas until the metrics are filled in."""

WRITTEN_AS = "written_as"
"""Key in core schemas, for messages. Its value maps names of fields to the keys that files have instead."""

Place = Literal["suite", "case", "member", "expect"]
"""The place of an entry: `evaluations.metrics`, a case's `evaluations`, a metric with members, or `expect`."""


class KnownMetrics(Protocol):
    """The part of `metric_types.MetricTypes` that locates and explains errors."""

    @property
    def classes(self) -> Mapping[str, Any]:
        """The classes of metrics by type."""

    def allowed(self, place: Place) -> Mapping[str, Any]:
        """Return the metrics that are allowed at a place, by type."""

    def core_schema(self, place: Place, value: Any) -> Any:
        """Return pydantic's core schema of an entry."""

    def types_measuring(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield (type, key) for each type of metric whose setting `key` can have the value `name`."""
