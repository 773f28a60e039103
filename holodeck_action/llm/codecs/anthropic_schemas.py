"""JSON schemas as Anthropic's models take them (its guide on structured outputs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.llm.codecs.schema_walk import (
    Schema,
    SchemaError,
    Walk,
    objects_in,
    references,
    without_definitions,
)
from holodeck_action.llm.codecs.schemas import FORMATS, type_of

_FORMATS = FORMATS | {"uri"}
_MOST_OPTIONAL = 24
_MOST_UNIONS = 16
"""Parameters of the schemas of one request, at most."""


def tool_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema of a tool's arguments, which are not held to it strictly.

    Raises:
        SchemaError: it cannot be written.
    """
    return _Plain(dict(schema), None).result()


def answer_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema that an answer is held to: what the service cannot check stands in descriptions.

    Raises:
        SchemaError: it cannot be written, or is more than the service takes.
    """
    result = _supported(_Strict(dict(schema), True).result())
    if (problem := _too_much(result)) is not None:
        raise SchemaError(problem)
    return result


class _Plain(Walk):
    def visit(self, node: Schema) -> Schema:
        """Write one schema."""
        node.pop("title", None)
        node.pop("$schema", None)
        return node


class _Strict(_Plain):
    def visit(self, node: Schema) -> Schema:
        """Write one schema."""
        node = super().visit(node)
        if (kind := type_of(node.get("const"))) is not None:
            node.setdefault("type", kind)
            node["enum"] = [node.pop("const")]
        return node


def _is_single(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _supported(given: Any) -> Schema:
    """Return a schema in the keywords that are supported; what is left says so in the description."""
    if not isinstance(given, dict):
        raise SchemaError("true and false are no schemas for this service")
    rest = dict(given)
    made: Schema = {}
    if (definitions := rest.pop("$defs", None)) is not None:
        made["$defs"] = {name: _supported(each) for name, each in definitions.items()}
    if (reference := rest.pop("$ref", None)) is not None:
        return {**made, "$ref": reference}
    kind = rest.pop("type", None)
    unions = {name: rest.pop(name, None) for name in ("anyOf", "oneOf", "allOf")}
    options = rest.get("enum")
    if isinstance(options, list) and options and all(map(_is_single, options)):
        made["enum"] = rest.pop("enum")
    if "const" in rest and _is_single(rest["const"]):
        made["const"] = rest.pop("const")
    single = "enum" in made or "const" in made
    kind = None if single else kind
    union = next((name for name, members in unions.items() if isinstance(members, list)), None)
    if union is not None:
        # One of several is any of them here.
        made["anyOf" if union == "oneOf" else union] = [_supported(member) for member in unions[union]]
    elif not single:
        if kind is None:
            raise SchemaError("a schema inside it has no type")
        made["type"] = kind
    for word in ("description", "title"):
        if (text := rest.pop(word, None)) is not None:
            made[word] = text
    _inside(kind, rest, made)
    if rest:
        words = "{" + ", ".join(f"{key}: {value}" for key, value in rest.items()) + "}"
        made["description"] = f"{made['description']}\n\n{words}" if "description" in made else words
    return made


def _inside(kind: Any, rest: Schema, made: Schema) -> None:
    """Write what a type holds, and take it from the rest."""
    match kind:
        case "object":
            made["properties"] = {name: _supported(each) for name, each in rest.pop("properties", {}).items()}
            rest.pop("additionalProperties", None)
            made["additionalProperties"] = False
            if (required := rest.pop("required", None)) is not None:
                made["required"] = required
        case "string":
            if rest.get("format") in _FORMATS:
                made["format"] = rest.pop("format")
            elif not rest.get("format"):
                rest.pop("format", None)
            else:
                # Told after all other keywords.
                rest["format"] = rest.pop("format")
        case "array":
            if (items := rest.pop("items", None)) is not None:
                made["items"] = _supported(items)
            if (least := rest.pop("minItems", None)) in (0, 1) and least is not None:
                made["minItems"] = least
            elif least is not None:
                rest["minItems"] = least
        case "boolean" | "integer" | "number" | "null" | None:
            pass
        case _:
            raise SchemaError("a schema inside it has several types, or an unknown one")


def _too_much(schema: Schema) -> str | None:
    """Return what a schema has too much of for the service, None where it fits."""
    if _recurs(schema):
        return "it contains itself"
    optional = unions = 0
    for node, _ in objects_in(schema):
        required = node.get("required", [])
        for name, each in node["properties"].items():
            optional += name not in required
            unions += isinstance(each, dict) and ("anyOf" in each or isinstance(each.get("type"), list))
    if optional > _MOST_OPTIONAL:
        return f"{optional} of its properties are optional, {_MOST_OPTIONAL} may be"
    if unions > _MOST_UNIONS:
        return f"{unions} of its properties are unions, {_MOST_UNIONS} may be"
    return None


def _recurs(schema: Schema) -> bool:
    """Whether a definition that the schema reaches refers to itself."""
    whole, held = without_definitions(schema)
    parts: dict[str, Any] = {"#": whole, **held}
    done: set[str] = set()

    def loops(name: str, above: frozenset[str]) -> bool:
        if name in above:
            return True
        if name in done or name not in parts:
            return False
        found = any(loops(inner, above | {name}) for inner in references(parts[name]))
        done.add(name)
        return found

    return loops("#", frozenset())
