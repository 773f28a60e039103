"""Wrappers through which templates read the values of a report.

Only filters convert `Untrusted` to a string: without a filter, it becomes a code span in Markdown and an error in HTML,
never live text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holodeck_action.text.fields import field_names

UNKNOWN = "–"


class UnfilteredTextError(TypeError):
    """A template uses untrusted text without a filter."""

    def __init__(self) -> None:
        super().__init__("text of the report must first pass through a filter: cell, code or fence")


class Untrusted:
    """A string of a report. It can be compared, measured and searched, but only a filter can output it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        raise UnfilteredTextError

    def __html__(self) -> str:
        raise UnfilteredTextError

    def __format__(self, specification: str) -> str:
        raise UnfilteredTextError

    def __repr__(self) -> str:
        return "Untrusted(…)"

    def __eq__(self, other: object) -> bool:
        return self._text == text_of(other) if isinstance(other, Untrusted | str) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._text < text_of(other) if isinstance(other, Untrusted | str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __len__(self) -> int:
        return len(self._text)

    def __contains__(self, text: object) -> bool:
        return text_of(text) in self._text


class Fields:
    """An object of a report: gives access to its fields by name, wrapped on demand and never copied."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __getitem__(self, name: str) -> Any:
        if isinstance(self._value, dict):
            return wrap(self._value[name])
        if name not in field_names(type(self._value)):
            raise KeyError(name)
        return wrap(getattr(self._value, name))

    def __repr__(self) -> str:
        return "Fields(…)"


def value_of(fields: Fields) -> Any:
    """Return the wrapped object, which is from a report or from its plain data; templates cannot call this function."""
    return fields._value


def names_of(fields: Fields) -> list[str]:
    """Return the names of the wrapped object's fields."""
    value = fields._value
    return list(value if isinstance(value, dict) else field_names(type(value)))


class Items(Sequence[Any]):
    """A list of a report, whose items are wrapped on demand."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return wrap(self._items[index])

    def __repr__(self) -> str:
        return "Items(…)"


# Built once, since every value in a template is compared with them.
_NUMBERS = (int, float)
_LISTS = (list, tuple)


def wrap(value: Any) -> Any:
    """Wrap a value of a report, or its plain data, for templates: every string becomes `Untrusted`."""
    if value is None or isinstance(value, _NUMBERS):
        return value
    if isinstance(value, str):
        return Untrusted(value)
    if isinstance(value, _LISTS):
        return Items(value)
    if isinstance(value, dict) or field_names(type(value)):
        return Fields(value)
    return value


def text_of(value: Any) -> str:
    """Return a template value as a string, for filters that escape it; `–` for None."""
    if isinstance(value, Untrusted):
        return value._text
    return UNKNOWN if value is None else str(value)
