"""Conditions on span attributes, parsed from command-line options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import click
from msgspec import Struct


class AttributeValue(Struct, frozen=True):
    """A condition that an attribute has a value, compared as text without regard to case."""

    name: str
    value: str

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        """Return whether the attribute has the value; false if it is missing."""
        found = attributes.get(self.name)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        return found is not None and str(found).strip().casefold() == self.value.casefold()


class AttributeBelow(Struct, frozen=True):
    """A condition that an attribute's value is below a number."""

    name: str
    bound: float

    def distance(self, attributes: Mapping[str, Any]) -> float | None:
        """Return the bound minus the attribute's value; None if the value is not a number below the bound."""
        found = attributes.get(self.name)
        if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
            return None
        return self.bound - found if found < self.bound else None


class _AttributeType(click.ParamType):
    """The click type of `ATTRIBUTE=VALUE`."""

    name = "attribute=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the option; see `click.ParamType.convert`."""
        name, equals, text = str(value).rpartition("=")
        if not equals or not name.strip() or not text.strip():
            self.fail(f"{value!r} is not allowed (allowed: ATTRIBUTE=VALUE, such as user.rating=down).", param, ctx)
        return AttributeValue(name.strip(), text.strip())


class _BoundType(_AttributeType):
    """The click type of `ATTRIBUTE=NUMBER`."""

    name = "attribute=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the option; see `click.ParamType.convert`."""
        given = super().convert(value, param, ctx)
        try:
            bound = float(given.value)
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            self.fail(f"{value!r} is not allowed (allowed: ATTRIBUTE=NUMBER, such as user.score=0.5).", param, ctx)
        return AttributeBelow(given.name, bound)


ATTRIBUTE_VALUE, ATTRIBUTE_BELOW = _AttributeType(), _BoundType()
