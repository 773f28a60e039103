"""Values as JSON: how everything that a file holds is written and read."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import DecodeError, Struct, ValidationError, field
from pydantic import BaseModel

T = TypeVar("T")

JSON_ERRORS = (DecodeError, RecursionError)
"""What reading raises: a text is not JSON, or not that of such a value."""


def written(default: T) -> T:
    """Declare a field of a class that omits defaults, which is written with its default, too.

    Classes get fields over time. Those that came later are left out of files where they have their default, so that
    records without them have the same bytes in every version.
    """
    factory = default.copy if isinstance(default, dict) else lambda: default
    return cast(T, field(default_factory=factory))


def omitted(kind: type[Struct]) -> frozenset[str]:
    """Return the names of the fields that are left out where they have their defaults."""
    if not kind.__struct_config__.omit_defaults:
        return frozenset()
    return frozenset(each.name for each in msgspec.structs.fields(kind) if each.default is not msgspec.NODEFAULT)


def to_json(value: object, indent: int = 0) -> bytes:
    """Return a value as JSON, with null for a number that is not finite.

    Args:
        value: a value, or lists and mappings of values.
        indent: spaces of each level; 0 for one line.
    """
    text = _ENCODER.encode(value)
    return msgspec.json.format(text, indent=indent) if indent else text


def to_plain(value: object) -> Any:
    """Return a value as what JSON holds: dictionaries, lists or tuples, texts, numbers."""
    return msgspec.to_builtins(value, enc_hook=_plain, str_keys=True)


def from_json(content: bytes | str, kind: type[T]) -> T:
    """Read a value of a kind.

    Raises:
        JSON_ERRORS: it is none.
    """
    found: T = _decoder(cast(Hashable, kind)).decode(content)
    return found


def from_plain(value: object, kind: type[T]) -> T:
    """Return what plain values of JSON are as a value of a kind.

    Raises:
        JSON_ERRORS: they are none.
    """
    return msgspec.convert(value, kind, dec_hook=_model)


def problem_of(error: Exception) -> str:
    """Say what does not fit, and where, such as `suite.name: expected str, got int`."""
    said, _, place = str(error).partition(" - at `$")
    where = re.sub(r"\[(\d+)\]", r".\1", place.rstrip("`")).lstrip(".")
    what = said.replace("`", "").removeprefix("Object ")
    if not isinstance(error, ValidationError):
        return said
    what = f"{what[:1].lower()}{what[1:]}"
    return f"{where}: {what}" if where else what


def _plain(value: Any) -> Any:
    """Return a value that msgspec does not know as one that it knows."""
    if isinstance(value, BaseModel):
        # Its own `model_dump` would first build a schema, of which a run has no other use.
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


def _model(kind: type, value: Any) -> Any:
    """Read a part of the suite, which pydantic checks."""
    if not issubclass(kind, BaseModel):
        raise TypeError(f"no {kind.__name__} in JSON")
    return kind.model_validate_json(json.dumps(value))


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_model)


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
