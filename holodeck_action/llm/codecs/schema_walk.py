"""Walking a JSON schema to write it as a model takes it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Schema = dict[str, Any]

_MOST_VALUES = 250_000
"""JSON values that definitions may grow to where they are put in the place of their references."""
_UNIONS = ("allOf", "anyOf", "oneOf")
_DEFINITION = "#/$defs/"


class SchemaError(ValueError):
    """A schema cannot be written for a model; one clause says why."""


class Walk:
    """One schema on its way: visits every schema inside it, from the leaves to the root.

    Looked into is what a type has: properties of an `object`, items of an `array`, members of unions. A union of one
    member is that member. Subclasses change nodes in `visit`.

    Attributes:
        strict: whether the model shall be held to the schema strictly; None to find out whether it can be.
        can_be_strict: what was found out.
    """

    inlines = False
    """Whether definitions are put in the place of their references; those that contain themselves stay."""

    def __init__(self, schema: Schema, strict: bool | None) -> None:
        self.schema = schema
        self.strict = strict
        self.can_be_strict = True
        self.definitions: dict[str, Any] = deepcopy(schema.get("$defs", {}))
        self.recursive: set[str] = set()
        self._open: list[str] = []
        self._walked: dict[str, tuple[Schema, int]] = {}
        self._values = 0

    def result(self) -> Schema:
        """Return the schema as the model takes it; the given one stays as it is.

        Raises:
            SchemaError: it has no such form.
        """
        whole = deepcopy(self.schema)
        whole.pop("$defs", None)
        walked: Schema = self.node(whole)
        if self.definitions and not self.inlines:
            walked["$defs"] = {name: self.node(each) for name, each in self.definitions.items()}
        if not self.recursive:
            return walked
        kept = {name: self._copy(name) for name in sorted(self.recursive)}
        reference = self.schema.get("$ref")
        root = self.schema.get("title", "root") if reference is None else name_in(reference)
        while reference is None and root in kept:
            root = f"{root}_root"
        return {"$defs": {**kept, root: walked}, "$ref": reference or f"{_DEFINITION}{root}"}

    def visit(self, node: Schema) -> Schema:
        """Change a schema whose inner ones were visited."""
        return node

    def looks_into(self, inner: Any) -> bool:
        """Whether the schema below `propertyNames` or `contains` is visited."""
        return self.inlines

    def node(self, node: Any) -> Any:
        """Visit a schema and all inside it."""
        if isinstance(node, bool):
            return node
        if self.inlines and (reference := node.get("$ref")) and (found := self._inlined(node, reference)) is not None:
            return found
        kind = node.get("type")
        if kind == "object":
            self._object(node)
        elif kind == "array":
            self.array(node)
        for union in _UNIONS:
            if kind is None:
                node = self._union(node, union)
            elif node.get(union):
                node[union] = [self.node(member) for member in node[union]]
        return self.visit(node)

    def array(self, node: Schema) -> None:
        """Visit what is inside an array."""
        if node.get("prefixItems"):
            node["prefixItems"] = [self.node(item) for item in node["prefixItems"]]
        items = node.get("items")
        if isinstance(items, list):
            node["items"] = [self.node(item) for item in items]
        elif items:
            node["items"] = self.node(items)
        if node.get("contains") is not None and self.looks_into(node["contains"]):
            node["contains"] = self.node(node["contains"])

    def _object(self, node: Schema) -> None:
        for key in ("properties", "patternProperties"):
            if node.get(key):
                node[key] = {name: self.node(value) for name, value in node[key].items()}
        if node.get("additionalProperties") is not None:
            node["additionalProperties"] = self.node(node["additionalProperties"])
        if node.get("propertyNames") is not None and self.looks_into(node["propertyNames"]):
            node["propertyNames"] = self.node(node["propertyNames"])

    def _union(self, node: Schema, union: str) -> Schema:
        if union not in node:
            return node
        members = [self.node(member) for member in node[union]]
        others = {key: value for key, value in node.items() if key != union}
        # A member that nothing fits stays alone: beside it another `not` would take its place.
        if len(members) == 1 and isinstance(members[0], dict) and members[0].get("not") != {}:
            return {**members[0], **others}
        return {**others, union: members}

    def _inlined(self, node: Schema, reference: str) -> Schema | None:
        """Return what a reference stands for, under what stands beside it; None where it stays."""
        name = name_in(reference)
        if name in self._open:
            if name not in self.definitions:
                raise SchemaError(f"{name} refers to itself, outside of $defs")
            self.recursive.add(name)
            return None
        if name in self.recursive:
            return None
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return self._definition(name, beside) if beside else self._copy(name)

    def _copy(self, name: str) -> Schema:
        if name in self._walked:
            walked, values = self._walked[name]
            self._count(values)
        else:
            before = self._values
            walked = self._definition(name, {})
            self._walked[name] = walked, self._values - before
        return deepcopy(walked)

    def _definition(self, name: str, beside: Schema) -> Schema:
        found = self.definitions.get(name)
        if found is None:
            found = target(self.schema, name)
        if found is None:
            raise SchemaError(f"it refers to {name}, which it does not hold")
        node: Schema = {**({} if isinstance(found, bool) else deepcopy(found)), **beside}
        if found is False:
            node["not"] = {}
        self._count(_values_in(node))
        self._open.append(name)
        walked: Schema = self.node(node)
        self._open.pop()
        return walked

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > _MOST_VALUES:
            raise SchemaError(f"with its definitions in place it holds more than {_MOST_VALUES:,} values")


def name_in(reference: str) -> str:
    """Return the name of a definition that a reference names; any other reference as it is."""
    if not reference.startswith(_DEFINITION):
        return reference
    return reference.removeprefix(_DEFINITION).replace("~1", "/").replace("~0", "~")


def target(schema: Schema, reference: str) -> Schema | None:
    """Return the object that a JSON pointer (RFC 6901) after `#` leads to, None where there is none."""
    if reference != "#" and not reference.startswith("#/"):
        return None
    node: Any = schema
    for token in reference.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and key in map(str, range(len(node))):
            node = node[int(key)]
        else:
            return None
    return node if isinstance(node, dict) else None


def references(value: Any) -> Iterator[str]:
    """Yield all references inside a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "$ref" and isinstance(inner, str):
                yield inner
            else:
                yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def objects_in(node: Any, depth: int = 1) -> Iterator[tuple[Schema, int]]:
    """Yield the objects with properties that are reached without a reference, with how deep they stand, from 1."""
    if not isinstance(node, dict):
        return
    properties = node.get("properties")
    inner = [node.get("items"), *node.get("anyOf", [])]
    if isinstance(properties, dict):
        yield node, depth
        inner += properties.values()
        depth += 1
    for each in inner:
        yield from objects_in(each, depth)


def without_definitions(schema: Schema) -> tuple[Schema, dict[str, Any]]:
    """Return a schema without its definitions, and these by their pointers."""
    held = {
        f"#/{key}/{name}": each
        for key in ("$defs", "definitions")
        if isinstance(schema.get(key), dict)
        for name, each in schema[key].items()
    }
    return {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}, held


def _values_in(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return count
