"""JSON schemas of function tools from their signatures, and their results as JSON (used inside the worker process).

HoloDeck's format supports the type hints str, int, float, bool, list and dict, and treats others as str. These schemas
also support types of the typing module.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.workers.json_values import PlainConverter

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_QUALIFIERS = tuple(getattr(typing, name) for name in ("Required", "NotRequired") if hasattr(typing, name))
"""Names that Python 3.9 and 3.10 lack."""
_LISTS = (list, tuple, set, frozenset, Sequence, Iterable)
_MAPPINGS = (dict, Mapping)
_MAX_DEPTH = 20
_MAX_DESCRIPTION = 1000
_Parameter = inspect.Parameter
_NAMED = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD, _Parameter.KEYWORD_ONLY)


def describe(function: Callable[..., Any]) -> dict[str, Any]:
    """Describe the parameters of a function.

    Returns:
        `{schema, required, names, open}`: `schema` is the JSON schema of an object with all arguments, `required` has
        the names of the parameters without a default, `names` the names of all parameters. `open` is whether the
        function accepts other arguments: it has `**kwargs`, or its signature cannot be read.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return {"schema": {"type": "object", "properties": {}}, "required": [], "names": [], "open": True}
    hints = _type_hints(function)
    notes = _parameter_notes(inspect.getdoc(function) or "")
    parameters = [parameter for parameter in signature.parameters.values() if parameter.kind in _NAMED]
    required = [parameter.name for parameter in parameters if parameter.default is _Parameter.empty]
    is_open = any(parameter.kind is _Parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    properties = {}
    for parameter in parameters:
        schema = _schema_of_hint(hints.get(parameter.name, parameter.annotation))
        if parameter.name in notes:
            schema.setdefault("description", notes[parameter.name])
        if parameter.default is not _Parameter.empty and _is_json(parameter.default):
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    return {
        "schema": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": is_open,
        },
        "required": required,
        "names": [parameter.name for parameter in parameters],
        "open": is_open,
    }


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the evaluated type hint of each parameter; str for a hint that cannot be evaluated."""
    plain: Any = function if inspect.isroutine(function) else type(function).__call__
    plain = inspect.unwrap(plain)
    names = getattr(inspect.unwrap(getattr(plain, "__func__", plain)), "__globals__", {})
    hints: dict[str, Any] = {}
    for name, hint in getattr(plain, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: hint})
        try:
            hints |= typing.get_type_hints(alone, names, include_extras=True)
        except Exception:  # noqa: BLE001 - evaluating hints runs user code
            hints[name] = str
    return hints


def _schema_of_hint(hint: Any, depth: int = 0) -> dict[str, Any]:
    if hint is Any or hint is object or depth > _MAX_DEPTH:
        return {}
    if hint in (None, type(None)):
        return {"type": "null"}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated_schema(arguments, depth)
    if origin is typing.Literal:
        return _enum_schema(list(arguments))
    if origin in _UNIONS:
        return _union_schema([_schema_of_hint(argument, depth + 1) for argument in arguments])
    if origin in _QUALIFIERS:
        return _schema_of_hint(arguments[0], depth + 1)
    kind = origin or hint
    if not isinstance(kind, type):
        return {"type": "string"}
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        return _typed_dict_schema(kind, depth)
    if issubclass(kind, enum.Enum):
        return _enum_schema([member.value for member in kind])
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if kind in _LISTS:
        items = [argument for argument in arguments if argument is not Ellipsis]
        # The items of a tuple with several types have no common type.
        return {"type": "array", "items": _schema_of_hint(items[0], depth + 1) if len(items) == 1 else {}}
    if kind in _MAPPINGS:
        values = _schema_of_hint(arguments[1], depth + 1) if len(arguments) == 2 else {}
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    return {"type": "string"}


def _annotated_schema(arguments: tuple[Any, ...], depth: int) -> dict[str, Any]:
    schema = _schema_of_hint(arguments[0], depth + 1)
    notes = [note if isinstance(note, str) else getattr(note, "description", None) for note in arguments[1:]]
    note = next((note for note in notes if isinstance(note, str)), None)
    return {**schema, "description": note[:_MAX_DESCRIPTION]} if note else schema


def _enum_schema(values: list[Any]) -> dict[str, Any]:
    if not values or not all(value is None or isinstance(value, (str, int, float)) for value in values):
        return {"type": "string"}
    kinds = list(dict.fromkeys(_SIMPLE.get(type(value), "string") for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _union_schema(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if {} in choices:
        return {}
    unique = [choice for index, choice in enumerate(choices) if choice not in choices[:index]]
    if len(unique) == 1:
        return unique[0]
    if all(choice.keys() == {"type"} and isinstance(choice["type"], str) for choice in unique):
        return {"type": [choice["type"] for choice in unique]}
    return {"anyOf": unique}


def _typed_dict_schema(kind: Any, depth: int) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - evaluating hints runs user code
        return {"type": "object"}
    return {
        "type": "object",
        "properties": {name: _schema_of_hint(hint, depth + 1) for name, hint in hints.items()},
        "required": sorted(kind.__required_keys__),
        "additionalProperties": False,
    }


_SECTION = lazy_pattern(r"^(?:Args|Arguments|Parameters):\s*$")
_GOOGLE_ENTRY = lazy_pattern(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_FIELD = lazy_pattern(r"^:param (?:[^:]*\s)?(\w+):\s*(.*)$")


def _parameter_notes(docstring: str) -> dict[str, str]:
    """Return the descriptions of parameters in a docstring of Google's (`Args:`) or Sphinx's style (`:param name:`)."""
    notes: dict[str, list[str]] = {}
    section = None
    current: list[str] | None = None
    indent = 0
    for line in docstring.splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        field = _FIELD.match(stripped)
        if field:
            section, indent = "fields", depth
            current = notes.setdefault(field[1], [field[2]])
        elif _SECTION.match(stripped):
            section, indent, current = "google", -1, None
        elif section == "google" and stripped and depth == 0:
            section, current = None, None
        elif section == "google" and stripped and indent in (-1, depth):
            entry = _GOOGLE_ENTRY.match(stripped)
            indent = depth
            current = notes.setdefault(entry[1], [entry[2]]) if entry else None
        elif current is not None and stripped and depth > indent:
            current.append(stripped)
        else:
            current = None
    texts = {name: " ".join(part for part in parts if part)[:_MAX_DESCRIPTION] for name, parts in notes.items()}
    return {name: text for name, text in texts.items() if text}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return not isinstance(value, enum.Enum)


MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a result that is cut to its limit; a larger result is an error."""

_AS_TEXT = (("decimal", "Decimal"), ("uuid", "UUID"), ("pathlib", "PurePath"))
_AS_ISO_TEXT = (("datetime", "date"), ("datetime", "time"))


def call_by_name(function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call a function with arguments by name, including positional-only parameters."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return function(**args)
    first = [
        name for name, parameter in parameters.items() if parameter.kind is _Parameter.POSITIONAL_ONLY and name in args
    ]
    return function(*(args[name] for name in first), **{name: args[name] for name in args if name not in first})


def bounded_result(value: Any, max_bytes: int) -> dict[str, Any]:
    """Return the result of a function as a JSON value of limited size.

    Args:
        value: the result: JSON values, dataclass instances, pydantic models, enumerations, sets, dates and times,
            decimals, UUIDs or paths.
        max_bytes: maximum size of the text, in bytes of UTF-8. The text is the result if it is a string, else its JSON.

    Returns:
        `{value, bytes, cut}`: the result, the size of the complete text, and whether the text was cut at
        `max_bytes`. If it was, `value` is only the beginning of the text.

    Raises:
        CallError: the value cannot be converted (code `not_json`), or is larger than `MOST_BYTES` (`too_large`).
    """
    plain = _ResultConverter(MOST_BYTES).convert(value, "the result")
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return {"value": plain, "bytes": len(data), "cut": False}
    return {"value": data[:max_bytes].decode("utf-8", "ignore"), "bytes": len(data), "cut": True}


class _ResultConverter(PlainConverter):
    def convert(self, value: object, path: str, depth: int = 0) -> Any:
        return super().convert(_simplify(value), path, depth)


def _simplify(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, Mapping, list, tuple)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        # Sorted, because the order of a set of strings differs between processes.
        return sorted(value, key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(type(value), "model_fields") and hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if _is_one_of(value, _AS_ISO_TEXT):
        return value.isoformat()
    return str(value) if _is_one_of(value, _AS_TEXT) else value


def _is_one_of(value: object, classes: tuple[tuple[str, str], ...]) -> bool:
    """Return whether a value is an instance of one of the classes (module, name), without importing their modules."""
    return any(
        module in sys.modules and isinstance(value, getattr(sys.modules[module], name)) for module, name in classes
    )
