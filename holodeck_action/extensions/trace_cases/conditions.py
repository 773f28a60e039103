"""The reasons for which a conversation can be chosen as a case, and their conditions on attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import click
from msgspec import Struct

REASONS: Mapping[str, str] = {
    "errors": "an error",
    "low-scores": "a low score",
    "thumbs-down": "a thumbs down",
    "longest": "one of the longest",
    "unlike": "unlike the other cases",
}
"""Descriptions of the reasons for comments, by value of `--pick`, in the order in which the reasons take turns."""


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


class _ConditionType(click.ParamType):
    """The click type of `ATTRIBUTE=VALUE`, or of `ATTRIBUTE=NUMBER`."""

    def __init__(self, name: str, example: str, make: Callable[[str, str], AttributeValue | AttributeBelow]) -> None:
        self.name, self._example, self._make = name, example, make

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the option; see `click.ParamType.convert`."""
        name, _, text = (part.strip() for part in str(value).rpartition("="))
        try:
            found = self._make(name, text) if name and text else None
        except ValueError:
            found = None
        if found is None:
            self.fail(f"{value!r} is not allowed (allowed: {self.name.upper()}, such as {self._example}).", param, ctx)
        return found


def _below(name: str, text: str) -> AttributeBelow:
    if not math.isfinite(bound := float(text)):
        raise ValueError
    return AttributeBelow(name, bound)


ATTRIBUTE_VALUE = _ConditionType("attribute=value", "user.rating=down", AttributeValue)
ATTRIBUTE_BELOW = _ConditionType("attribute=number", "user.score=0.5", _below)
