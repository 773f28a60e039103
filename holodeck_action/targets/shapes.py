"""Reads JSON values from targets by their types (`Struct`s of msgspec), and writes the JSON Schema of a type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct, ValidationError, inspect

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.facts import LARGEST
from holodeck_action.text.json_values import kind_of, unknown_key_clause
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import line_or_length, make_storable
from holodeck_action.workers.code_errors import CallError
from holodeck_action.workers.json_values import PlainConverter

Schema = dict[str, Any]
T = TypeVar("T", bound=Struct)


def about(description: str) -> Meta:
    """Return the description of an entry, for the JSON Schema."""
    return Meta(description=description)


Name = Annotated[str, Meta(min_length=1)]
WholeNumber = Annotated[int, Meta(ge=0, le=LARGEST)]
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, Meta(ge=0, le=LARGEST)]

_MAX_KEY_SHOWN = 40


def plain_entries(value: Mapping[Any, Any], keys: Sequence[str], max_bytes: int) -> dict[str, Any]:
    """Return the entries of a whole reply as plain JSON values, in which lone surrogates are replaced.

    Raises:
        AgentError: `bad_reply`: a key is not one of `keys`, or a value is not JSON, too deep or not finite;
            `too_large`.
    """
    if any(key not in keys for key in value):
        raise _unknown_key(value, keys, "")
    # One more for the answer itself, which may be a text of the full length.
    converter = PlainConverter(max_bytes + 1)
    found = {}
    for key in keys:
        if key in value:
            try:
                found[key] = make_storable(converter.convert(value[key], key))
            except CallError as error:
                if error.code != "too_large":
                    raise AgentError(error.message, "bad_reply", {"field": key}) from None
                raise AgentError(
                    f"the reply holds more than {max_bytes} bytes, the most that limits.max_response_bytes allows; "
                    f"it overflows at {key}",
                    "too_large",
                    {"field": key, "max_response_bytes": max_bytes},
                ) from None
    return found


_STEP = lazy_pattern(r"\.(\w+)|\[(\d+)\]")
_WORDS: Mapping[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.LiteralType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.TypedDictType: "an object",
    inspect.ListType: "a list",
}


_CONVERTING = Lock()
"""Two threads that are the first to convert to a type break off the process."""


def convert_entries(entries: Mapping[str, Any], kind: type[T]) -> T:
    """Return the value of a type with the given entries, which are plain JSON values with known keys.

    Raises:
        AgentError: `bad_reply` with the path of the invalid part.
    """
    try:
        with _CONVERTING:
            return msgspec.convert(entries, kind)
    except ValidationError as error:
        raise _explain(str(error), entries, inspect.type_info(kind)) from None


def schema_of(kind: type[Struct]) -> Schema:
    """Return the JSON Schema of a type."""
    whole = msgspec.json.schema(kind)
    definitions = whole["$defs"]
    root = definitions.pop(kind.__name__)
    return {**root, **({"$defs": definitions} if definitions else {})}


@cache
def listed_fields(kind: type[Struct], name: str) -> Mapping[str, bool]:
    """Return the entries of the objects in the list `name` of a type, and whether each is required; empty if `name` is
    not a list of objects, or if these keep other entries.
    """
    lists = [each for each in _options(_field(inspect.type_info(kind), name)) if isinstance(each, inspect.ListType)]
    closed = [each.item_type for each in lists if isinstance(each.item_type, inspect.StructType)]
    return {field.name: field.required for each in closed for field in each.fields}


def without_unknown(value: object, kind: type[Struct]) -> object:
    """Return a copy of an object without the keys that its type, or that of the objects in its lists, lacks."""
    if not isinstance(value, Mapping):
        return value

    def clean(name: str, item: object) -> object:
        known = listed_fields(kind, name)
        if isinstance(item, list) and known:
            return [clean(name, each) for each in item]
        return {key: item[key] for key in item if key in known} if isinstance(item, Mapping) and known else item

    return {key: clean(key, item) for key, item in value.items() if key in kind.__struct_fields__}


def _options(described: inspect.Type) -> list[inspect.Type]:
    """Return the types that a value may have, without null."""
    match described:
        case inspect.Metadata(type=inner):
            return _options(inner)
        case inspect.UnionType(types=types):
            return [option for each in types for option in _options(each)]
        case inspect.NoneType():
            return []
    return [described]


def _fields(described: inspect.Type) -> tuple[inspect.Field, ...]:
    return next((each.fields for each in _options(described) if hasattr(each, "fields")), ())


def _field(described: inspect.Type, name: str) -> inspect.Type:
    return next(field.type for field in _fields(described) if field.name == name)


def _explain(problem: str, value: Any, described: inspect.Type) -> AgentError:
    """Return the error for a problem of the library, which ends with its place below `$`."""
    path = ""
    # The place comes last: a key that the problem quotes may contain anything.
    for key, index in _STEP.findall(problem.rpartition(" - at `$")[2]):
        if key:
            path, value, described = f"{path}.{key}".lstrip("."), value[key], _field(described, key)
        else:
            lists = (each for each in _options(described) if isinstance(each, inspect.ListType))
            path, value, described = f"{path}[{index}]", value[int(index)], next(lists).item_type
    if "unknown field" in problem:
        return _unknown_key(value, [field.name for field in _fields(described)], path)
    if "missing required" in problem:
        lacking = next(field for field in _fields(described) if field.required and field.name not in value)
        path, value, described = f"{path}.{lacking.name}".lstrip("."), None, lacking.type
    return AgentError(f"{path} {_clause(problem, value, _options(described))}", "bad_reply", {"field": path})


def _unknown_key(value: Mapping[Any, Any], allowed: Sequence[str], path: str) -> AgentError:
    clause = unknown_key_clause(next(key for key in value if key not in allowed), allowed)
    return AgentError(f"{path}: {clause}" if path else clause, "bad_reply", {"field": path or "the reply"})


def _clause(problem: str, value: Any, options: list[inspect.Type]) -> str:
    """Return the clause of a message about an invalid value: the expected type or bounds."""
    if value is None or ", got `" in problem:
        *more, last = (_WORDS[type(each)] for each in options)
        return f"must be {' or '.join(filter(None, [', '.join(more), last]))}, not {kind_of(value)}"
    if "enum value" in problem:
        words = [word for each in options if isinstance(each, inspect.LiteralType) for word in each.values]
        return f"must be {' or '.join(map(str, words))}, not {line_or_length(str(value), _MAX_KEY_SHOWN)}"
    if "of length" in problem:
        return "must not be empty"
    if "out of range" in problem:
        return "must be a finite number"
    bounds = next(each for each in options if isinstance(each, inspect.IntType | inspect.FloatType))
    return f"must be from {bounds.ge:.0f} to {bounds.le:.0f}"


def refuse_type(path: str, expected: str, value: object) -> NoReturn:
    """Raise an error about a value of the wrong type."""
    refuse(path, f"must be {expected}, not {kind_of(value)}")


def refuse(path: str, problem: str) -> NoReturn:
    """Raise an error about an invalid value."""
    raise AgentError(f"{path} {problem}", "bad_reply", {"field": path})
