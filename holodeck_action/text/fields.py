"""Access to the fields of msgspec Structs and dataclasses."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from msgspec import Struct, structs

T = TypeVar("T")


def field_names(kind: type) -> tuple[str, ...]:
    """Return the field names of a Struct or dataclass, in order; empty for any other class."""
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return tuple(getattr(kind, "__dataclass_fields__", ()))


def replace_fields(value: T, changes: dict[str, Any]) -> T:
    """Return a copy of a Struct or dataclass with some of its fields changed."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]
