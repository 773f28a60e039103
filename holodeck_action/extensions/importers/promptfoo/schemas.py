"""Converts JSON schemas for Ajv in strict mode, which promptfoo uses, to equivalent schemas for Python's
`jsonschema`."""

from __future__ import annotations

from typing import Any

from holodeck_action.extensions.importers.promptfoo.patterns import python_pattern
from holodeck_action.extensions.importers.source import UnfitError, plain

_DRAFT = ("http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-07/schema#")
_FORMATS = frozenset(("date", "email", "ipv4", "ipv6"))
"""Formats that Ajv and `jsonschema` check alike."""
_SCHEMA_LISTS = frozenset(("anyOf", "oneOf", "allOf"))
_SCHEMAS = frozenset(
    ("not", "if", "then", "else", "contains", "additionalItems", "propertyNames", "additionalProperties")
)
_SCHEMA_MAPPINGS = frozenset(("$defs", "definitions", "properties", "patternProperties"))
_OTHER_KEYWORDS = frozenset(
    (
        *("$id", "$schema", "$ref", "$comment", "type", "nullable", "maximum", "minimum", "exclusiveMaximum", "format"),
        *("exclusiveMinimum", "multipleOf", "maxLength", "minLength", "pattern", "maxProperties", "minProperties"),
        *("required", "maxItems", "minItems", "uniqueItems", "const", "enum", "title", "description", "default"),
        *("deprecated", "readOnly", "writeOnly", "examples", "contentMediaType", "contentEncoding", "contentSchema"),
    )
)
_KEYWORDS = _SCHEMA_LISTS | _SCHEMAS | _SCHEMA_MAPPINGS | _OTHER_KEYWORDS | {"items", "dependencies"}


class NeverPassesError(UnfitError):
    """The assertion can never pass, since it ends the case with an error in promptfoo; the message is the reason."""


def python_schema(schema: Any) -> dict[str, Any]:
    """Convert a schema, so that Python's `jsonschema` accepts the same values as Ajv accepts with the original.

    Raises:
        NeverPassesError: Ajv rejects the schema.
        UnfitError: the schema uses something that the two libraries check differently.
    """
    from jsonschema import Draft7Validator, SchemaError

    if not isinstance(schema, dict):
        raise NeverPassesError("its schema is not a mapping")
    try:
        Draft7Validator.check_schema(plain(schema))
    except SchemaError as error:
        raise NeverPassesError(f"its schema is not valid ({error.json_path})") from None
    return _convert_keywords(plain(schema))


def _convert_schema(schema: Any) -> Any:
    return _convert_keywords(schema) if isinstance(schema, dict) else schema


def _convert_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    _check_keywords(schema)
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SCHEMAS:
            made[key] = _convert_schema(value)
        elif key in _SCHEMA_LISTS:
            made[key] = [_convert_schema(item) for item in value]
        elif key == "patternProperties":
            made[key] = {_convert_pattern(name): _convert_schema(item) for name, item in value.items()}
        elif key in _SCHEMA_MAPPINGS:
            made[key] = {name: _convert_schema(item) for name, item in value.items()}
        elif key == "items":
            made[key] = [_convert_schema(item) for item in value] if isinstance(value, list) else _convert_schema(value)
        elif key == "dependencies":
            made[key] = {
                name: item if isinstance(item, list) else _convert_schema(item) for name, item in value.items()
            }
        elif key == "pattern":
            made[key] = _convert_pattern(value)
        elif key not in ("nullable", "$schema"):
            made[key] = value
    if schema.get("nullable") is True:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        made["type"] = list(dict.fromkeys([*types, "null"]))
    if "$ref" in made and len(made) > 1:
        # Ajv also applies the keywords next to `$ref`.
        kept: dict[str, Any] = {key: made.pop(key) for key in ("$ref", "$id", "definitions", "$defs") if key in made}
        reference = {"$ref": kept.pop("$ref")}
        return {**kept, "allOf": [reference, made]}
    return made


def _check_keywords(schema: dict[str, Any]) -> None:
    for key in schema:
        if key not in _KEYWORDS:
            raise NeverPassesError(f"its schema has the unknown keyword {key}")
    if schema.get("$schema", _DRAFT[0]) not in _DRAFT:
        raise NeverPassesError(f"its schema is not of draft 7 ({schema['$schema']})")
    if "format" in schema and schema["format"] not in _FORMATS:
        raise UnfitError(f"its schema has the format {schema['format']}, which is not checked here; write a pattern")
    if "nullable" in schema and ("type" not in schema or not isinstance(schema["nullable"], bool)):
        raise NeverPassesError("its schema has nullable without a type")
    if "if" in schema and not {"then", "else"} & schema.keys():
        raise NeverPassesError("its schema has if without then or else")
    if "if" not in schema and {"then", "else"} & schema.keys():
        raise NeverPassesError("its schema has then or else without if")
    if "additionalItems" in schema and not isinstance(schema.get("items"), list):
        raise NeverPassesError("its schema has additionalItems without a list of items")
    if "patternProperties" in schema and "properties" in schema:
        raise UnfitError("its schema has properties and patternProperties, which may overlap; write a code grader")


def _convert_pattern(pattern: str) -> str:
    return f"(?a:{python_pattern(pattern, unicode=True)})"
