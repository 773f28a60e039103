"""Shapes of JSON values: what reads a value, strictly and within limits, is what describes it in JSON Schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.facts import LARGEST
from holodeck_action.text.json_values import kind_of, unknown_key
from holodeck_action.text.plain import storable_text, whole

Schema = dict[str, Any]

_MAX_DEPTH = 100
"""Deepest nesting of free values; far below what JSON writers refuse."""

_MAX_INTEGER_BITS = 10_000
"""About 3,000 digits: below the length from which the interpreter refuses to write an integer as text."""

_MAX_KEY_SHOWN = 40


class Reader:
    """Reads JSON values into plain ones, counting their size so that shared or repeated parts cannot add up."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def text(self, value: object, path: str) -> str:
        """Return a text without lone surrogates."""
        if not isinstance(value, str):
            wrong_type(path, "text", value)
        cleaned = storable_text(value)
        self._count(len(cleaned) if cleaned.isascii() else len(cleaned.encode()), path)
        return cleaned

    def json(self, value: object, path: str, depth: int = 0) -> Any:
        """Return a JSON value with plain dicts and lists."""
        if depth > _MAX_DEPTH:
            bad(path, f"is nested more than {_MAX_DEPTH} levels deep")
        match value:
            case None | bool():
                self._count(1, path)
                return value
            case str():
                return self.text(value, path)
            case int():
                if value.bit_length() > _MAX_INTEGER_BITS:
                    bad(path, "is a number too long to read")
                self._count(1 + value.bit_length() // 4, path)
                return int(value)
            case float():
                self._count(1, path)
                return finite(value, path)
            case Mapping():
                self._count(1, path)
                return {
                    self.text(key, f"{path}: a key"): self.json(item, child(path, key), depth + 1)
                    for key, item in value.items()
                }
            case list() | tuple():
                self._count(1, path)
                return [self.json(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
            case _:
                return wrong_type(path, "a JSON value", value)

    def _count(self, size: int, path: str) -> None:
        self._left -= size
        if self._left < 0:
            raise AgentError(
                f"the reply holds more than {self._max_bytes} bytes, which limits.max_response_bytes allows; "
                f"it overflows at {path}",
                "too_large",
                {"field": path, "max_response_bytes": self._max_bytes},
            )


class Shape:
    """What a value must be."""

    def read(self, value: object, path: str, reader: Reader) -> Any:
        """Return the value as plain JSON.

        Args:
            path: how messages name it.
            reader: counts its size.

        Raises:
            AgentError: `bad_reply` with the path of the offending part, or `too_large`.
        """
        raise NotImplementedError

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        raise NotImplementedError

    def known(self, value: object) -> object:
        """Return the value without entries that nobody reads."""
        return value


class Text(Shape, Struct, frozen=True):
    """A text; one that names something must not be empty, and may be written as a whole number."""

    name: bool = False
    number: bool = False

    def read(self, value: object, path: str, reader: Reader) -> str:
        """Return the text."""
        if self.number and isinstance(value, int) and not isinstance(value, bool):
            value = str(reader.json(value, path))
        text = reader.text(value, path)
        if self.name and not text:
            bad(path, "must not be empty")
        return text

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        found: Schema = {"type": ["string", "integer"] if self.number else "string"}
        return {**found, "minLength": 1} if self.name else found


class Choice(Shape, Struct, frozen=True):
    """One of some words."""

    words: tuple[str, ...]

    def read(self, value: object, path: str, reader: Reader) -> str:
        """Return the word."""
        word = reader.text(value, path)
        if word not in self.words:
            bad(path, f"must be {' or '.join(self.words)}, not {whole(word, _MAX_KEY_SHOWN)}")
        return word

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        return {"enum": list(self.words)}


class Number(Shape, Struct, frozen=True):
    """A number."""

    least: float = -LARGEST

    def read(self, value: object, path: str, reader: Reader) -> float:
        """Return the number."""
        number = finite(value, path)
        if not self.least <= number <= LARGEST:
            bad(path, f"must be from {self.least:.0f} to {LARGEST}")
        return number

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        return {"type": "number", "minimum": self.least, "maximum": LARGEST}


class Whole(Shape):
    """A count."""

    def read(self, value: object, path: str, reader: Reader) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int):
            wrong_type(path, "a whole number", value)
        if not 0 <= value <= LARGEST:
            bad(path, f"must be from 0 to {LARGEST}")
        return value

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        return {"type": "integer", "minimum": 0, "maximum": LARGEST}


class Json(Shape):
    """Any JSON value."""

    def read(self, value: object, path: str, reader: Reader) -> Any:
        """Return the value."""
        return reader.json(value, path)

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        return {}


class JsonObject(Shape):
    """Any JSON object."""

    def read(self, value: object, path: str, reader: Reader) -> dict[str, Any]:
        """Return the object."""
        if not isinstance(value, Mapping):
            wrong_type(path, "an object", value)
        found: dict[str, Any] = reader.json(value, path)
        return found

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        return {"type": "object"}


class TextOrJson(Shape):
    """A text; an object or a list becomes its JSON text."""

    def read(self, value: object, path: str, reader: Reader) -> str:
        """Return the text."""
        if isinstance(value, str):
            return reader.text(value, path)
        if isinstance(value, Mapping | list | tuple):
            return json.dumps(reader.json(value, path), ensure_ascii=False)
        return wrong_type(path, "text, an object or a list", value)

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        return {"type": ["string", "object", "array"]}


class ListOf(Shape, Struct, frozen=True):
    """A list of values of one shape; `alone` allows one value in its place."""

    item: Shape
    alone: bool = False

    def read(self, value: object, path: str, reader: Reader) -> list[Any]:
        """Return the values."""
        if self.alone and isinstance(value, Mapping):
            return [self.item.read(value, path, reader)]
        if not isinstance(value, list | tuple):
            wrong_type(path, "an object or a list of them" if self.alone else "a list", value)
        return [self.item.read(item, f"{path}[{index}]", reader) for index, item in enumerate(value)]

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        many = {"type": "array", "items": self.item.schema()}
        return {"anyOf": [self.item.schema(), many]} if self.alone else many

    def known(self, value: object) -> object:
        """Return the values without entries that nobody reads."""
        return [self.item.known(item) for item in value] if isinstance(value, list) else self.item.known(value)


class OrText(Shape, Struct, frozen=True):
    """An object, or a text, which stands for the object that has it as entry `key`."""

    item: Object
    key: str

    def read(self, value: object, path: str, reader: Reader) -> dict[str, Any]:
        """Return the object."""
        return self.item.read({self.key: value} if isinstance(value, str) else value, path, reader)

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        return {"anyOf": [self.item.fields[self.key].shape.schema(), self.item.schema()]}

    def known(self, value: object) -> object:
        """Return the object without entries that nobody reads."""
        return self.item.known(value)


class Field(Struct, frozen=True):
    """An entry of an object: its shape, and what it says. One that is not `required` may be null or left out."""

    shape: Shape
    says: str
    required: bool = False

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        found = self.shape.schema()
        if not self.required and found:
            found = {"anyOf": [found, {"type": "null"}]}
        return {"description": self.says, **found}


class Object(Shape, Struct, frozen=True):
    """An object with these entries; `more` allows any others."""

    fields: Mapping[str, Field]
    more: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the entries."""
        return tuple(self.fields)

    def read(self, value: object, path: str, reader: Reader) -> dict[str, Any]:
        """Return the entries; None for those that are not given."""
        if not isinstance(value, Mapping):
            wrong_type(path, "an object", value)
        return self.entries(value, path, f"{path}.", reader)

    def entries(self, value: Mapping[Any, Any], path: str, prefix: str, reader: Reader) -> dict[str, Any]:
        """Read the entries of a mapping; the path of each begins with `prefix`."""
        found: dict[str, Any] = {}
        if self.more:
            found = reader.json({key: value[key] for key in value if key not in self.fields}, path)
        else:
            check_keys(value, self.keys, path, f"{path}: " if prefix else "")
        for key, field in self.fields.items():
            given = value.get(key)
            wanted = given is not None or field.required
            found[key] = field.shape.read(given, f"{prefix}{key}", reader) if wanted else None
        return found

    def schema(self) -> Schema:
        """Return its JSON Schema."""
        required = [key for key, field in self.fields.items() if field.required]
        return {
            "type": "object",
            "properties": {key: field.schema() for key, field in self.fields.items()},
            **({"required": required} if required else {}),
            **({} if self.more else {"additionalProperties": False}),
        }

    def known(self, value: object) -> object:
        """Return the object without entries that nobody reads."""
        if not isinstance(value, Mapping):
            return value
        kept = value if self.more else {key: value[key] for key in self.fields if key in value}
        return {key: self.fields[key].shape.known(item) if key in self.fields else item for key, item in kept.items()}


def check_keys(value: Mapping[Any, Any], allowed: Sequence[str], path: str, where: str) -> None:
    """Refuse a key that is none of the allowed ones.

    Raises:
        AgentError: `bad_reply`; the sentence begins with `where`.
    """
    for key in value:
        if key not in allowed:
            raise AgentError(f"{where}{unknown_key(key, allowed)}", "bad_reply", {"field": path})


def finite(value: object, path: str) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        wrong_type(path, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        bad(path, "must be a finite number")
    return number


def child(path: str, key: object) -> str:
    """Return the path of an entry."""
    return f"{path}.{whole(str(key), _MAX_KEY_SHOWN)}"


def wrong_type(path: str, expected: str, value: object) -> NoReturn:
    """Refuse a value of another type."""
    bad(path, f"must be {expected}, not {kind_of(value)}")


def bad(path: str, problem: str) -> NoReturn:
    """Refuse a value."""
    raise AgentError(f"{path} {problem}", "bad_reply", {"field": path})
