"""The fields of values: of Structs, and of the dataclasses where a Struct will not do."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from msgspec import Struct, structs

T = TypeVar("T")


def field_names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a class of values, in order; empty for every other class."""
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return tuple(getattr(kind, "__dataclass_fields__", ()))


def with_fields(value: T, changes: dict[str, Any]) -> T:
    """Return a value with some of its fields changed."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]
