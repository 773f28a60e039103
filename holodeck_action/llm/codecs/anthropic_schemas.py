"""Conversion of JSON schemas for Anthropic's models (its guide on structured outputs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.llm.codecs.schema_walk import (
    Schema,
    SchemaError,
    Walk,
    objects_in,
    references,
    split_definitions,
)
from holodeck_action.llm.codecs.schemas import FORMATS, json_type

_FORMATS = FORMATS | {"uri"}
_MOST_OPTIONAL = 24
_MOST_UNIONS = 16
"""Maximum number of properties with a union type in the schemas of one request."""


def tool_schema(schema: Mapping[str, Any]) -> Schema:
    """Convert the schema of a tool's arguments; the service does not enforce it.

    Raises:
        SchemaError: the schema cannot be converted.
    """
    return _Plain(dict(schema), None).result()


def answer_schema(schema: Mapping[str, Any]) -> Schema:
    """Convert the schema of an answer, which the service enforces; constraints that it cannot check become
    descriptions.

    Raises:
        SchemaError: the schema cannot be converted or exceeds the service's limits.
    """
    result = _convert(_Strict(dict(schema), True).result())
    if (problem := _exceeded_limit(result)) is not None:
        raise SchemaError(problem)
    return result


class _Plain(Walk):
    def visit(self, node: Schema) -> Schema:
        """Remove from a schema the keywords that the service does not need."""
        node.pop("title", None)
        node.pop("$schema", None)
        return node


class _Strict(_Plain):
    def visit(self, node: Schema) -> Schema:
        """Replace `const` by an enumeration of one value."""
        node = super().visit(node)
        if (kind := json_type(node.get("const"))) is not None:
            node.setdefault("type", kind)
            node["enum"] = [node.pop("const")]
        return node


def _is_single(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _convert(schema: Any) -> Schema:
    """Return a schema with supported keywords only; all other keywords are added to the description."""
    if not isinstance(schema, dict):
        raise SchemaError("this service does not accept true and false as schemas")
    rest = dict(schema)
    converted: Schema = {}
    if (definitions := rest.pop("$defs", None)) is not None:
        converted["$defs"] = {name: _convert(each) for name, each in definitions.items()}
    if (reference := rest.pop("$ref", None)) is not None:
        return {**converted, "$ref": reference}
    kind = rest.pop("type", None)
    unions = {name: rest.pop(name, None) for name in ("anyOf", "oneOf", "allOf")}
    options = rest.get("enum")
    if isinstance(options, list) and options and all(map(_is_single, options)):
        converted["enum"] = rest.pop("enum")
    if "const" in rest and _is_single(rest["const"]):
        converted["const"] = rest.pop("const")
    single = "enum" in converted or "const" in converted
    kind = None if single else kind
    union = next((name for name, members in unions.items() if isinstance(members, list)), None)
    if union is not None:
        # The service has no `oneOf`; `anyOf` is the closest.
        converted["anyOf" if union == "oneOf" else union] = [_convert(member) for member in unions[union]]
    elif not single:
        if kind is None:
            raise SchemaError("a nested schema has no type")
        converted["type"] = kind
    for word in ("description", "title"):
        if (text := rest.pop(word, None)) is not None:
            converted[word] = text
    _convert_contents(kind, rest, converted)
    if rest:
        words = "{" + ", ".join(f"{key}: {value}" for key, value in rest.items()) + "}"
        converted["description"] = f"{converted['description']}\n\n{words}" if "description" in converted else words
    return converted


def _convert_contents(kind: Any, schema: Schema, output_schema: Schema) -> None:
    """Convert the keywords that apply to the type `kind`, moving them from `schema` to `output_schema`."""
    match kind:
        case "object":
            output_schema["properties"] = {name: _convert(each) for name, each in schema.pop("properties", {}).items()}
            schema.pop("additionalProperties", None)
            output_schema["additionalProperties"] = False
            if (required := schema.pop("required", None)) is not None:
                output_schema["required"] = required
        case "string":
            if schema.get("format") in _FORMATS:
                output_schema["format"] = schema.pop("format")
            elif not schema.get("format"):
                schema.pop("format", None)
            else:
                # Moved to the end, so that the description lists it last.
                schema["format"] = schema.pop("format")
        case "array":
            if (items := schema.pop("items", None)) is not None:
                output_schema["items"] = _convert(items)
            if (least := schema.pop("minItems", None)) in (0, 1) and least is not None:
                output_schema["minItems"] = least
            elif least is not None:
                schema["minItems"] = least
        case "boolean" | "integer" | "number" | "null" | None:
            pass
        case _:
            raise SchemaError("a nested schema has several types or an unknown one")


def _exceeded_limit(schema: Schema) -> str | None:
    """Return a clause about the limit that a schema exceeds; None if it is within all limits."""
    if _is_recursive(schema):
        return "it contains itself"
    optional = unions = 0
    for node, _ in objects_in(schema):
        required = node.get("required", [])
        for name, each in node["properties"].items():
            optional += name not in required
            unions += isinstance(each, dict) and ("anyOf" in each or isinstance(each.get("type"), list))
    if optional > _MOST_OPTIONAL:
        return f"{optional} of its properties are optional; at most {_MOST_OPTIONAL} may be"
    if unions > _MOST_UNIONS:
        return f"{unions} of its properties are unions; at most {_MOST_UNIONS} may be"
    return None


def _is_recursive(schema: Schema) -> bool:
    """Return whether a definition that the schema reaches refers to itself."""
    whole, held = split_definitions(schema)
    parts: dict[str, Any] = {"#": whole, **held}
    done: set[str] = set()

    def is_cyclic(name: str, enclosing: frozenset[str]) -> bool:
        if name in enclosing:
            return True
        if name in done or name not in parts:
            return False
        found = any(is_cyclic(inner, enclosing | {name}) for inner in references(parts[name]))
        done.add(name)
        return found

    return is_cyclic("#", frozenset())
