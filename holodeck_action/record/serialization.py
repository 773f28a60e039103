"""Conversion of values to JSON and back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import DecodeError, ValidationError, field
from pydantic import BaseModel

T = TypeVar("T")

JSON_ERRORS = (DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions when JSON is read: it is invalid, is not UTF-8, or does not fit the type."""


def always_written(default: T) -> T:
    """Declare a field that is always written, in a class that omits fields with default values.

    Other fields of such a class are omitted from files if they have their default. They were added in later versions;
    omitting them keeps the bytes of older records the same.
    """
    factory = default.copy if isinstance(default, dict) else lambda: default
    return cast(T, field(default_factory=factory))


def to_json(value: object, indent: int = 0) -> bytes:
    """Return a value as JSON, with null for numbers that are not finite.

    Args:
        value: a value of this package's types, or lists and mappings of such values.
        indent: spaces of each level; 0 for one line.
    """
    text = _ENCODER.encode(value)
    return msgspec.json.format(text, indent=indent) if indent else text


def to_plain(value: object) -> Any:
    """Return a value as dictionaries, lists or tuples, strings and numbers."""
    return msgspec.to_builtins(value, enc_hook=_to_known_type, str_keys=True)


def from_json(content: bytes | str, kind: type[T]) -> T:
    """Parse JSON as a value of a type. Raises: JSON_ERRORS: the content is not JSON, or does not fit."""
    found: T = _decoder(cast(Hashable, kind)).decode(content)
    return found


def from_plain(value: object, kind: type[T]) -> T:
    """Convert plain JSON values to a value of a type.

    Raises:
        JSON_ERRORS: they do not fit.
    """
    return msgspec.convert(value, kind, dec_hook=_validate_model)


def as_read(value: T, kind: type[T]) -> T:
    """Return a value as it is read from a file: with 0.0 for 0, lists for tuples, None for infinity. Its texts are
    the same objects."""
    return from_plain(_json_values(to_plain(value)), kind)


def _json_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_values(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def decode_problem(error: Exception) -> str:
    """Return the path of the invalid part and the reason, such as `suite.name: expected str, got int`."""
    said, _, place = str(error).partition(" - at `$")
    where = re.sub(r"\[(\d+)\]", r".\1", place.rstrip("`")).lstrip(".")
    what = said.replace("`", "").removeprefix("Object ")
    if not isinstance(error, ValidationError):
        return said
    what = f"{what[:1].lower()}{what[1:]}"
    return f"{where}: {what}" if where else what


def _to_known_type(value: Any) -> Any:
    """Convert a value to a type that msgspec can encode."""
    if isinstance(value, BaseModel):
        # `model_dump` would first build a schema that a run does not need otherwise.
        later = getattr(value, "OMITTED", ())
        return {
            name: item for name, item in value if name not in later or item != type(value).model_fields[name].default
        }
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, tuple):
        return tuple(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def _validate_model(kind: type, value: Any) -> Any:
    """Validate a part of the suite with pydantic."""
    if not issubclass(kind, BaseModel):
        raise TypeError(f"no {kind.__name__} in JSON")
    return kind.model_validate_json(json.dumps(value))


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_validate_model)


_ENCODER = msgspec.json.Encoder(enc_hook=_to_known_type)
