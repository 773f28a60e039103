"""JSON schemas as models take them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holodeck_action.llm.codecs.schema_walk import (
    Schema,
    SchemaError,
    Walk,
    name_in,
    objects_in,
    references,
    target,
    without_definitions,
)
from holodeck_action.llm.model_facts import Schemas


def written(schema: Mapping[str, Any], style: Schemas, strict: bool | None, *, of_answer: bool) -> tuple[Schema, bool]:
    """Return a schema as a model takes it, and whether the model can be held to it strictly.

    Args:
        schema: as the suite or a tool gives it; it stays as it is.
        style: how schemas are written for the model.
        strict: whether to write it strictly; None to do so where nothing is lost.
        of_answer: whether it is that of the answer, else of a tool's arguments.

    Raises:
        SchemaError: it cannot be written so.
    """
    given = dict(schema)
    match style:
        case "inlined":
            walk: Walk = _Inlined(given, strict)
        case "inlined_openai":
            inlined = _Inlined(given, None).result()
            dangling = any(target(inlined, reference) is None for reference in references(inlined))
            walk = _OpenAI(given if dangling else inlined, strict)
        case "grok":
            walk = _OpenAI(given, strict) if of_answer else _InlinedOpenAI(given, strict)
        case "gemma":
            walk = _Gemma(given, strict)
        case "openai":
            walk = _OpenAIItself(given, strict)
        case _:
            walk = _OpenAI(given, strict)
    result = walk.result()
    if isinstance(walk, _InlinedOpenAI) and walk.recursive:
        walk = _OpenAI(given, strict)
        result = walk.result()
    if isinstance(walk, _OpenAIItself):
        if walk.joined and walk.points_elsewhere:
            # What was pointed at may have been moved.
            walk = _WithItems(given, strict)
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
"""Keywords that strict mode does not know (OpenAI's guide on structured outputs)."""
_LENGTHS = ("minLength", "maxLength")
FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
"""Formats of texts that strict mode knows."""
_TYPED = frozenset(("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"))
_TO_DEFINITION = re.compile(r"#/(?:\$defs|definitions)/[^/]+")
_LOOK_AROUND = re.compile(r"(?:[^\\]|\\.)*?\(\?(?:<?[=!])", re.DOTALL)
_DEEPEST = 10
_MOST_PROPERTIES = 5000


class _OpenAI(Walk):
    """OpenAI's way: strict where the schema can be, as it is where not, without what says nothing."""

    keeps_lengths = False

    def __init__(self, schema: Schema, strict: bool | None) -> None:
        super().__init__(schema, strict)
        self._root = schema.get("$ref")
        if self._root is None or not isinstance(found := self.definitions.get(name_in(self._root)), bool):
            return
        if not found:
            raise SchemaError("nothing fits it")
        self.schema = {key: value for key, value in schema.items() if key != "$ref"}
        self._root = None

    def result(self) -> Schema:
        """Return the schema (see `Walk.result`)."""
        walked = super().result()
        if walked.get("definitions"):
            walked["definitions"] = {name: self.node(each) for name, each in walked["definitions"].items()}
        if self._root is not None:
            # References to the whole are `#`; the whole is what its reference stood for.
            walked.pop("$ref", None)
            walked.update(walked.get("$defs", {}).get(name_in(self._root)) or {})
        return walked

    def visit(self, node: Schema) -> Schema:
        """Write one schema."""
        for key in ("title", "$schema", "discriminator"):
            node.pop(key, None)
        if "default" in node:
            if self.strict:
                del node["default"]
            self._loses()
        if node.get("$ref"):
            self._reference(node)
        self._leave_out(node)
        if "oneOf" in node:
            if self.strict:
                node["anyOf"] = node.pop("oneOf")
            self._loses()
        if node.get("type") == "object":
            self._close(node)
        if node.get("type") == "array" and not self._has_typed_items(node):
            if self.strict:
                raise SchemaError("an array does not say what it holds")
            self._loses()
        return node

    def _loses(self) -> None:
        if self.strict is None:
            self.can_be_strict = False

    def _reference(self, node: Schema) -> None:
        reference = node["$ref"]
        if reference == self._root:
            node["$ref"] = "#"
        elif reference.startswith("#/") and not _TO_DEFINITION.fullmatch(reference):
            self._loses()
        if len(node) > 1:
            # Nothing may stand beside a reference, but beside a union it may.
            node["anyOf"] = [{"$ref": node.pop("$ref")}]

    def _leave_out(self, node: Schema) -> None:
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
        self._loses()

    def _close(self, node: Schema) -> None:
        properties = node.setdefault("properties", {})
        if self.strict:
            node["additionalProperties"] = False
            node["required"] = list(properties)
        elif self.strict is None:
            if node.get("additionalProperties") in (None, False):
                node["additionalProperties"] = False
            else:
                self._loses()
            if "required" not in node or any(name not in node["required"] for name in properties):
                self._loses()

    def _has_typed_items(self, node: Schema) -> bool:
        items = node.get("items")
        return (isinstance(items, dict) and not _TYPED.isdisjoint(items)) or bool(node.get("prefixItems"))


class _InlinedOpenAI(_OpenAI):
    inlines = True


class _WithItems(_OpenAI):
    """The same, where every array must have `items`."""

    def _has_typed_items(self, node: Schema) -> bool:
        return super()._has_typed_items(node) and not node.get("prefixItems")


class _OpenAIItself(_WithItems):
    """The same at OpenAI, where lengths of texts are known and an array of exactly one item can be written."""

    keeps_lengths = True

    def __init__(self, schema: Schema, strict: bool | None) -> None:
        super().__init__(schema, strict)
        self.joined = False
        self.points_elsewhere = False

    def array(self, node: Schema) -> None:
        """Visit what is inside an array."""
        first = node.get("prefixItems")
        most = node.get("maxItems")
        alone = isinstance(first, list) and len(first) == 1 and type(most) is int and most == 1
        if alone and self.strict is not False:
            node["items"] = node.pop("prefixItems")[0]
            self.joined = True
        super().array(node)

    def visit(self, node: Schema) -> Schema:
        """Write one schema."""
        reference = node.get("$ref")
        outside = isinstance(reference, str) and reference not in ("#", self._root)
        if "$dynamicRef" in node or (outside and not _TO_DEFINITION.fullmatch(str(reference))):
            self.points_elsewhere = True
        return super().visit(node)


def _is_too_large(schema: Schema) -> bool:
    """Whether a schema is deeper or has more properties than strict mode takes."""
    whole, definitions = without_definitions(schema)
    for part in (whole, *definitions.values()):
        found = list(objects_in(part))
        if max((depth for _, depth in found), default=0) > _DEEPEST:
            return True
        if sum(len(node["properties"]) for node, _ in found) > _MOST_PROPERTIES:
            return True
    return False


_TYPES: tuple[tuple[type, str], ...] = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"))


def type_of(value: object) -> str | None:
    """Return the JSON type of a single value, None of any other."""
    return next((name for kind, name in _TYPES if isinstance(value, kind)), None)


class _Gemma(Walk):
    """Google's way: the keywords that its models have learned."""

    def visit(self, node: Schema) -> Schema:
        """Write one schema."""
        if (value := node.pop("const", None)) is not None:
            node["enum"] = [value]
            if "type" not in node and (kind := type_of(value)) is not None:
                node["type"] = kind
        for key in ("$schema", "discriminator", "examples", "title", "exclusiveMinimum", "exclusiveMaximum"):
            node.pop(key, None)
        self._join_options(node)
        if node.get("type") == "string" and (form := node.pop("format", None)):
            words = node.get("description")
            node["description"] = f"{words} (format: {form})" if words else f"Format: {form}"
        return node

    def _join_options(self, node: Schema) -> None:
        """Write a union of single described values as one enumeration."""
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
