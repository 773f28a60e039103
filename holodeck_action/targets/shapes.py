"""Shapes (types) of JSON values. A shape checks values from targets, and has a matching JSON Schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.facts import LARGEST
from holodeck_action.text.json_values import kind_of, unknown_key_clause
from holodeck_action.text.plain import line_or_length, replace_surrogates

Schema = dict[str, Any]

_MAX_DEPTH = 100
"""Maximum nesting of free-form values, far below the limits of JSON libraries."""

_MAX_INTEGER_BITS = 10_000
"""Maximum bits of an integer, about 3,000 digits; Python does not convert much longer integers to strings."""

_MAX_KEY_SHOWN = 40


class Reader:
    """Converts the JSON values of one reply to plain Python values, up to a total size."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def text(self, value: object, path: str) -> str:
        """Return a string, in which lone surrogates are replaced.

        Raises:
            AgentError: `bad_reply` if the value is not a string; `too_large`.
        """
        if not isinstance(value, str):
            refuse_type(path, "text", value)
        cleaned = replace_surrogates(value)
        self._count(len(cleaned) if cleaned.isascii() else len(cleaned.encode()), path)
        return cleaned

    def json(self, value: object, path: str, depth: int = 0) -> Any:
        """Return a JSON value as plain Python values.

        Raises:
            AgentError: `bad_reply` if the value is not JSON, too deep or not finite; `too_large`.
        """
        if depth > _MAX_DEPTH:
            refuse(path, f"is nested more than {_MAX_DEPTH} levels deep")
        match value:
            case None | bool():
                self._count(1, path)
                return value
            case str():
                return self.text(value, path)
            case int():
                if value.bit_length() > _MAX_INTEGER_BITS:
                    refuse(path, "is an integer of more than 3,000 digits")
                self._count(1 + value.bit_length() // 4, path)
                return int(value)
            case float():
                self._count(1, path)
                return read_finite(value, path)
            case Mapping():
                self._count(1, path)
                return {
                    self.text(key, f"{path}: a key"): self.json(item, child_path(path, key), depth + 1)
                    for key, item in value.items()
                }
            case list() | tuple():
                self._count(1, path)
                return [self.json(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
            case _:
                return refuse_type(path, "a JSON value", value)

    def _count(self, size: int, path: str) -> None:
        self._left -= size
        if self._left < 0:
            raise AgentError(
                f"the reply holds more than {self._max_bytes} bytes, the most that limits.max_response_bytes allows; "
                f"it overflows at {path}",
                "too_large",
                {"field": path, "max_response_bytes": self._max_bytes},
            )


class Shape:
    """The shape of a JSON value, like a type with limits."""

    def read(self, value: object, path: str, reader: Reader) -> Any:
        """Check a value, and return it as a plain JSON value.

        Args:
            value: value to check.
            path: name of the value in messages.
            reader: converts values, and limits the size of the whole reply.

        Raises:
            AgentError: `bad_reply` with the path of the invalid part, or `too_large`.
        """
        raise NotImplementedError

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        raise NotImplementedError

    def strip_unknown(self, value: object) -> object:
        """Return a copy of the value without object keys that the shape does not declare."""
        return value


class Text(Shape, Struct, frozen=True):
    """The shape of a string.

    Attributes:
        not_empty: whether an empty string is refused.
        accept_integer: whether an integer is accepted too, and converted to a string.
    """

    not_empty: bool = False
    accept_integer: bool = False

    def read(self, value: object, path: str, reader: Reader) -> str:
        """Check a string and return it."""
        if self.accept_integer and isinstance(value, int) and not isinstance(value, bool):
            value = str(reader.json(value, path))
        text = reader.text(value, path)
        if self.not_empty and not text:
            refuse(path, "must not be empty")
        return text

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        found: Schema = {"type": ["string", "integer"] if self.accept_integer else "string"}
        return {**found, "minLength": 1} if self.not_empty else found


class Choice(Shape, Struct, frozen=True):
    """The shape of a string that must be one of `options`."""

    options: tuple[str, ...]

    def read(self, value: object, path: str, reader: Reader) -> str:
        """Check a string and return it."""
        word = reader.text(value, path)
        if word not in self.options:
            refuse(path, f"must be {' or '.join(self.options)}, not {line_or_length(word, _MAX_KEY_SHOWN)}")
        return word

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {"enum": list(self.options)}


class Number(Shape, Struct, frozen=True):
    """The shape of a finite number of at least `minimum`."""

    minimum: float = -LARGEST

    def read(self, value: object, path: str, reader: Reader) -> float:
        """Return the number."""
        number = read_finite(value, path)
        if not self.minimum <= number <= LARGEST:
            refuse(path, f"must be from {self.minimum:.0f} to {LARGEST}")
        return number

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {"type": "number", "minimum": self.minimum, "maximum": LARGEST}


class WholeNumber(Shape):
    """The shape of an integer that is not negative."""

    def read(self, value: object, path: str, reader: Reader) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int):
            refuse_type(path, "a whole number", value)
        if not 0 <= value <= LARGEST:
            refuse(path, f"must be from 0 to {LARGEST}")
        return value

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {"type": "integer", "minimum": 0, "maximum": LARGEST}


class Boolean(Shape):
    """The shape of true or false."""

    def read(self, value: object, path: str, reader: Reader) -> bool:
        """Return the value."""
        return value if isinstance(value, bool) else refuse_type(path, "true or false", value)

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {"type": "boolean"}


class Json(Shape):
    """The shape of any JSON value."""

    def read(self, value: object, path: str, reader: Reader) -> Any:
        """Return the value."""
        return reader.json(value, path)

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {}


class JsonObject(Shape):
    """The shape of any JSON object."""

    def read(self, value: object, path: str, reader: Reader) -> dict[str, Any]:
        """Check an object and return it."""
        if not isinstance(value, Mapping):
            refuse_type(path, "an object", value)
        found: dict[str, Any] = reader.json(value, path)
        return found

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {"type": "object"}


class TextOrJson(Shape):
    """The shape of a string, an object or a list; objects and lists are converted to JSON strings."""

    def read(self, value: object, path: str, reader: Reader) -> str:
        """Return the string, or the JSON of the object or list."""
        if isinstance(value, str):
            return reader.text(value, path)
        if isinstance(value, Mapping | list | tuple):
            return json.dumps(reader.json(value, path), ensure_ascii=False)
        return refuse_type(path, "text, an object or a list", value)

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {"type": ["string", "object", "array"]}


class ListOf(Shape, Struct, frozen=True):
    """The shape of a list, all items of which have the shape `item`.

    If `accept_single` is set, an object is accepted too, as a list of one item.
    """

    item: Shape
    accept_single: bool = False

    def read(self, value: object, path: str, reader: Reader) -> list[Any]:
        """Check a list and return its items."""
        if self.accept_single and isinstance(value, Mapping):
            return [self.item.read(value, path, reader)]
        if not isinstance(value, list | tuple):
            refuse_type(path, "an object or a list of them" if self.accept_single else "a list", value)
        return [self.item.read(item, f"{path}[{index}]", reader) for index, item in enumerate(value)]

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        many = {"type": "array", "items": self.item.schema()}
        return {"anyOf": [self.item.schema(), many]} if self.accept_single else many

    def strip_unknown(self, value: object) -> object:
        """Return a copy of the items without object keys that their shape does not declare."""
        return (
            [self.item.strip_unknown(item) for item in value]
            if isinstance(value, list)
            else self.item.strip_unknown(value)
        )


class ObjectOrText(Shape, Struct, frozen=True):
    """The shape of an object. A string is accepted too, and becomes an object with the single entry `key`."""

    item: Object
    key: str

    def read(self, value: object, path: str, reader: Reader) -> dict[str, Any]:
        """Check an object and return it."""
        return self.item.read({self.key: value} if isinstance(value, str) else value, path, reader)

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {"anyOf": [self.item.fields[self.key].shape.schema(), self.item.schema()]}

    def strip_unknown(self, value: object) -> object:
        """Return a copy of the object without keys that the shape does not declare."""
        return self.item.strip_unknown(value)


class Field(Struct, frozen=True):
    """The shape and description of an entry in an object. An entry that is not `required` may be null or missing."""

    shape: Shape
    description: str
    required: bool = False

    def schema(self) -> Schema:
        """Return the JSON Schema of the entry."""
        found = self.shape.schema()
        if not self.required and found:
            found = {"anyOf": [found, {"type": "null"}]}
        return {"description": self.description, **found}


class Object(Shape, Struct, frozen=True):
    """The shape of an object with the given entries; if `accept_other_keys` is set, other keys are accepted too."""

    fields: Mapping[str, Field]
    accept_other_keys: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the entries."""
        return tuple(self.fields)

    @property
    def required(self) -> list[str]:
        """The names of the entries that must be given."""
        return [key for key, field in self.fields.items() if field.required]

    def read(self, value: object, path: str, reader: Reader) -> dict[str, Any]:
        """Check an object and return its entries; missing entries are None."""
        if not isinstance(value, Mapping):
            refuse_type(path, "an object", value)
        return self.entries(value, path, f"{path}.", reader)

    def entries(self, value: Mapping[Any, Any], path: str, prefix: str, reader: Reader) -> dict[str, Any]:
        """Check the entries of a mapping, and return them; missing entries are None.

        Args:
            value: the mapping.
            path: name of the mapping in messages.
            prefix: start of the names of its entries in messages, such as `usage.`.
            reader: converts values, and limits the size of the whole reply.
        """
        found: dict[str, Any] = {}
        if self.accept_other_keys:
            found = reader.json({key: value[key] for key in value if key not in self.fields}, path)
        else:
            check_keys(value, self.keys, path, f"{path}: " if prefix else "")
        for key, field in self.fields.items():
            given = value.get(key)
            wanted = given is not None or field.required
            found[key] = field.shape.read(given, f"{prefix}{key}", reader) if wanted else None
        return found

    def schema(self) -> Schema:
        """Return the JSON Schema of the shape."""
        return {
            "type": "object",
            "properties": {key: field.schema() for key, field in self.fields.items()},
            **({"required": self.required} if self.required else {}),
            **({} if self.accept_other_keys else {"additionalProperties": False}),
        }

    def strip_unknown(self, value: object) -> object:
        """Return a copy of the object without keys that the shape does not declare."""
        if not isinstance(value, Mapping):
            return value
        kept = value if self.accept_other_keys else {key: value[key] for key in self.fields if key in value}
        return {
            key: self.fields[key].shape.strip_unknown(item) if key in self.fields else item
            for key, item in kept.items()
        }


def check_keys(value: Mapping[Any, Any], allowed: Sequence[str], path: str, place: str) -> None:
    """Check that all keys are allowed.

    Raises:
        AgentError: `bad_reply`; the message begins with `place`.
    """
    for key in value:
        if key not in allowed:
            raise AgentError(f"{place}{unknown_key_clause(key, allowed)}", "bad_reply", {"field": path})


def read_finite(value: object, path: str) -> float:
    """Return a number as a float.

    Raises:
        AgentError: `bad_reply`: the value is not a number, or is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse_type(path, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        refuse(path, "must be a finite number")
    return number


def child_path(path: str, key: object) -> str:
    """Return the path of an object's entry, for messages."""
    return f"{path}.{line_or_length(str(key), _MAX_KEY_SHOWN)}"


def refuse_type(path: str, expected: str, value: object) -> NoReturn:
    """Raise an error about a value of the wrong type."""
    refuse(path, f"must be {expected}, not {kind_of(value)}")


def refuse(path: str, problem: str) -> NoReturn:
    """Raise an error about an invalid value."""
    raise AgentError(f"{path} {problem}", "bad_reply", {"field": path})
