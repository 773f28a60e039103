"""Values of a report as templates see them.

`Untrusted` has no way to become a string but a filter of ours: forgetting the filter gives a code span in Markdown and
an error in HTML, never live text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holodeck_action.record.sequences import Made
from holodeck_action.text.fields import field_names

UNKNOWN = "–"


class UnfilteredTextError(TypeError):
    """A template uses untrusted text without a filter that makes it showable."""

    def __init__(self) -> None:
        super().__init__("text of the report needs a filter before anything else is done with it: cell, code or fence")


class Untrusted:
    """Text of a report. It can be compared, measured and searched, but shown only through a filter."""

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

    def __contains__(self, part: object) -> bool:
        return text_of(part) in self._text


class Fields:
    """A record of the report: its fields by name, wrapped when they are asked for, so that nothing is copied."""

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
    """Return what is wrapped: a value of a report, or its plain data. A template can reach neither."""
    return fields._value


def names_of(fields: Fields) -> list[str]:
    """Return the names of the fields."""
    value = fields._value
    return list(value if isinstance(value, dict) else field_names(type(value)))


class Items(Sequence[Any]):
    """A list of the report, its items wrapped when they are asked for."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return wrap(self._items[index])

    def __repr__(self) -> str:
        return "Items(…)"


# Made once: every value that a template asks for is compared with them.
_NUMBERS = (int, float)
_LISTS = (list, tuple, Made)


def wrap(value: Any) -> Any:
    """Return a report, or its plain data, as templates see it: every text in it is `Untrusted`."""
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
    """Return the text of a value as templates see it, for filters and functions of ours that make it showable."""
    if isinstance(value, Untrusted):
        return value._text
    return UNKNOWN if value is None else str(value)
