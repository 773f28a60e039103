"""Conversion of JSON schemas for OpenAI-compatible models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holodeck_action.llm.codecs.schema_walk import (
    Schema,
    SchemaError,
    Walk,
    definition_name,
    objects_in,
    references,
    resolve_pointer,
    split_definitions,
)
from holodeck_action.llm.model_facts import Schemas
from holodeck_action.text.lazy_patterns import lazy_pattern


def convert_schema(
    schema: Mapping[str, Any], style: Schemas, strict: bool | None, *, is_answer_schema: bool
) -> tuple[Schema, bool]:
    """Return a schema in a model's dialect, and whether it can be enforced strictly.

    Args:
        schema: the schema of the suite or tool; it is not changed.
        style: the dialect of the model.
        strict: whether to convert the schema for strict mode; None to do so only if no constraint is lost.
        is_answer_schema: whether `schema` describes the answer; otherwise it describes a tool's arguments.

    Raises:
        SchemaError: the schema cannot be written in this dialect.
    """
    given = dict(schema)
    match style:
        case "inlined":
            walk: Walk = _Inlined(given, strict)
        case "inlined_openai":
            inlined = _Inlined(given, None).result()
            dangling = any(resolve_pointer(inlined, reference) is None for reference in references(inlined))
            walk = _OpenAI(given if dangling else inlined, strict)
        case "grok":
            walk = _OpenAI(given, strict) if is_answer_schema else _InlinedOpenAI(given, strict)
        case "gemma":
            walk = _Gemma(given, strict)
        case "openai":
            walk = _OpenAIService(given, strict)
        case _:
            walk = _OpenAI(given, strict)
    result = walk.result()
    if isinstance(walk, _InlinedOpenAI) and walk.recursive:
        walk = _OpenAI(given, strict)
        result = walk.result()
    if isinstance(walk, _OpenAIService):
        if walk.joined and walk.points_elsewhere:
            # The target of a reference may have moved.
            walk = _OpenAIWithItems(given, strict)
            result = walk.result()
        if strict is None and _is_too_large(result):
            walk.can_be_strict = False
    return result, walk.can_be_strict if strict is None else strict


class _Inlined(Walk):
    inlines = True


_LOST = (
    *("minLength", "maxLength", "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties"),
    *("maxProperties", "unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems"),
)
"""Keywords that strict mode does not support (OpenAI's guide on structured outputs)."""
_LENGTHS = ("minLength", "maxLength")
FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
"""String formats that strict mode supports."""
_TYPED = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))
_TO_DEFINITION = lazy_pattern(r"#/(?:\$defs|definitions)/[^/]+")
_LOOK_AROUND = lazy_pattern(r"(?:[^\\]|\\.)*?\(\?(?:<?[=!])", re.DOTALL)
_DEEPEST = 10
_MOST_PROPERTIES = 5000


class _OpenAI(Walk):
    """OpenAI's dialect. If a schema cannot be strict, only its keywords without effect are removed."""

    keeps_lengths = False

    def __init__(self, schema: Schema, strict: bool | None) -> None:
        super().__init__(schema, strict)
        self._root = schema.get("$ref")
        if self._root is None or not isinstance(found := self.definitions.get(definition_name(self._root)), bool):
            return
        if not found:
            raise SchemaError("nothing fits it")
        self.schema = {key: value for key, value in schema.items() if key != "$ref"}
        self._root = None

    def result(self) -> Schema:
        """Return the converted schema (see `Walk.result`)."""
        walked = super().result()
        if walked.get("definitions"):
            walked["definitions"] = {name: self.walk(each) for name, each in walked["definitions"].items()}
        if self._root is not None:
            # References to the whole schema are `#`; its own `$ref` is replaced by the definition.
            walked.pop("$ref", None)
            walked.update(walked.get("$defs", {}).get(definition_name(self._root)) or {})
        return walked

    def visit(self, node: Schema) -> Schema:
        """Convert one schema."""
        for key in ("title", "$schema", "discriminator"):
            node.pop(key, None)
        if "default" in node:
            if self.strict:
                del node["default"]
            self._mark_lossy()
        if node.get("$ref"):
            self._adapt_reference(node)
        self._drop_keywords(node)
        if "oneOf" in node:
            if self.strict:
                node["anyOf"] = node.pop("oneOf")
            self._mark_lossy()
        if node.get("type") == "object":
            self._close_object(node)
        if node.get("type") == "array" and not self._has_typed_items(node):
            if self.strict:
                raise SchemaError("an array has no items schema")
            self._mark_lossy()
        return node

    def _mark_lossy(self) -> None:
        if self.strict is None:
            self.can_be_strict = False

    def _adapt_reference(self, node: Schema) -> None:
        reference = node["$ref"]
        if reference == self._root:
            node["$ref"] = "#"
        elif reference.startswith("#/") and not _TO_DEFINITION.fullmatch(reference):
            self._mark_lossy()
        if len(node) > 1:
            # A reference must be the only key of its schema; a union need not be.
            node["anyOf"] = [{"$ref": node.pop("$ref")}]

    def _drop_keywords(self, node: Schema) -> None:
        known = _LENGTHS if self.keeps_lengths else ()
        lost = {key: node[key] for key in _LOST if key in node and key not in known}
        if node.get("format") and node["format"] not in FORMATS:
            lost["format"] = node["format"]
        if isinstance(node.get("pattern"), str) and _LOOK_AROUND.match(node["pattern"]):
            lost["pattern"] = node["pattern"]
        if not lost:
            return
        if self.strict:
            for key in lost:
                del node[key]
            words = ", ".join(f"{key}={value}" for key, value in lost.items())
            node["description"] = f"{node['description']} ({words})" if node.get("description") else words
        self._mark_lossy()

    def _close_object(self, node: Schema) -> None:
        properties = node.setdefault("properties", {})
        if self.strict:
            node["additionalProperties"] = False
            node["required"] = list(properties)
        elif self.strict is None:
            if node.get("additionalProperties") in (None, False):
                node["additionalProperties"] = False
            else:
                self._mark_lossy()
            if "required" not in node or any(name not in node["required"] for name in properties):
                self._mark_lossy()

    def _has_typed_items(self, node: Schema) -> bool:
        items = node.get("items")
        return (isinstance(items, dict) and not _TYPED.isdisjoint(items)) or bool(node.get("prefixItems"))


class _InlinedOpenAI(_OpenAI):
    inlines = True


class _OpenAIWithItems(_OpenAI):
    """OpenAI's dialect for services in which every array must have `items`."""

    def _has_typed_items(self, node: Schema) -> bool:
        return super()._has_typed_items(node) and not node.get("prefixItems")


class _OpenAIService(_OpenAIWithItems):
    """The dialect of OpenAI's own service, which supports lengths of strings and arrays of exactly one item."""

    keeps_lengths = True

    def __init__(self, schema: Schema, strict: bool | None) -> None:
        super().__init__(schema, strict)
        self.joined = False
        self.points_elsewhere = False

    def walk_array(self, node: Schema) -> None:
        """Convert the schemas inside an array."""
        first = node.get("prefixItems")
        most = node.get("maxItems")
        alone = isinstance(first, list) and len(first) == 1 and type(most) is int and most == 1
        if alone and self.strict is not False:
            node["items"] = node.pop("prefixItems")[0]
            self.joined = True
        super().walk_array(node)

    def visit(self, node: Schema) -> Schema:
        """Convert one schema."""
        reference = node.get("$ref")
        outside = isinstance(reference, str) and reference not in ("#", self._root)
        if "$dynamicRef" in node or (outside and not _TO_DEFINITION.fullmatch(str(reference))):
            self.points_elsewhere = True
        return super().visit(node)


def _is_too_large(schema: Schema) -> bool:
    """Return whether a schema is deeper or has more properties than strict mode allows."""
    whole, definitions = split_definitions(schema)
    for part in (whole, *definitions.values()):
        found = list(objects_in(part))
        if max((depth for _, depth in found), default=0) > _DEEPEST:
            return True
        if sum(len(node["properties"]) for node, _ in found) > _MOST_PROPERTIES:
            return True
    return False


_TYPES: tuple[tuple[type, str], ...] = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))


def json_type(value: object) -> str | None:
    """Return the JSON type of a string, number or boolean; None for any other value."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), None)


class _Gemma(Walk):
    """Google's dialect: the keywords that its models were trained on."""

    def visit(self, node: Schema) -> Schema:
        """Convert one schema."""
        if (value := node.pop("const", None)) is not None:
            node["enum"] = [value]
            if "type" not in node and (kind := json_type(value)) is not None:
                node["type"] = kind
        for key in ("$schema", "discriminator", "examples", "title", "exclusiveMinimum", "exclusiveMaximum"):
            node.pop(key, None)
        self._join_options(node)
        if node.get("type") == "string" and (form := node.pop("format", None)):
            words = node.get("description")
            node["description"] = f"{words} (format: {form})" if words else f"Format: {form}"
        return node

    def _join_options(self, node: Schema) -> None:
        """Convert a union of one-value enumerations to a single enumeration, and join their descriptions."""
        options = node.get("anyOf", [])
        single = all(
            isinstance(each, dict) and len(each.get("enum", ())) == 1 and {*each} <= {"enum", "type", "description"}
            for each in options
        )
        if not options or not single or "enum" in node or len({each.get("type") for each in options}) != 1:
            return
        kind = options[0].get("type")
        if node.get("type", kind) != kind:
            return
        del node["anyOf"]
        node["enum"] = [each["enum"][0] for each in options]
        if kind is not None:
            node["type"] = kind
        told = [f"{each['enum'][0]}: {each['description']}" for each in options if each.get("description")]
        if told:
            node["description"] = "\n".join([*filter(None, [node.get("description")]), *told])
