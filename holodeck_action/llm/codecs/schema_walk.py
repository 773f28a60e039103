"""Visits all parts of a JSON schema to convert the schema to a model's dialect."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Schema = dict[str, Any]

_MOST_VALUES = 250_000
"""Maximum number of JSON values in a schema after its definitions were inlined."""
_UNIONS = ("allOf", "anyOf", "oneOf")
_DEFINITION = "#/$defs/"


class SchemaError(ValueError):
    """A model does not support a schema; the message is a clause with the reason."""


class Walk:
    """Visits a schema and all schemas inside it, from the leaves to the root; subclasses convert them in `visit`.

    The walk follows properties of objects, items of arrays and members of unions. A union with one member is replaced
    by that member.

    Attributes:
        strict: whether the schema is converted for strict mode; None to decide during the walk.
        can_be_strict: whether strict mode supports everything that the walk found so far.
    """

    inlines = False
    """Whether references are replaced by their definitions; recursive definitions are kept."""

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
        """Return the converted schema; the original is not changed.

        Raises:
            SchemaError: the schema cannot be converted.
        """
        whole = deepcopy(self.schema)
        whole.pop("$defs", None)
        walked: Schema = self.walk(whole)
        if self.definitions and not self.inlines:
            walked["$defs"] = {name: self.walk(each) for name, each in self.definitions.items()}
        if not self.recursive:
            return walked
        kept = {name: self._copy_definition(name) for name in sorted(self.recursive)}
        reference = self.schema.get("$ref")
        root = self.schema.get("title", "root") if reference is None else definition_name(reference)
        while reference is None and root in kept:
            root = f"{root}_root"
        return {"$defs": {**kept, root: walked}, "$ref": reference or f"{_DEFINITION}{root}"}

    def visit(self, node: Schema) -> Schema:
        """Convert a schema whose inner schemas were already converted."""
        return node

    def visits_inner(self, schema: Any) -> bool:
        """Return whether to convert `schema`, the value of a keyword `propertyNames` or `contains`."""
        return self.inlines

    def walk(self, node: Any) -> Any:
        """Convert a schema and all schemas inside it."""
        if isinstance(node, bool):
            return node
        if self.inlines and (reference := node.get("$ref")) and (found := self._inline(node, reference)) is not None:
            return found
        kind = node.get("type")
        if kind == "object":
            self._walk_object(node)
        elif kind == "array":
            self.walk_array(node)
        for union in _UNIONS:
            if kind is None:
                node = self._walk_union(node, union)
            elif node.get(union):
                node[union] = [self.walk(member) for member in node[union]]
        return self.visit(node)

    def walk_array(self, node: Schema) -> None:
        """Convert the schemas inside an array."""
        if node.get("prefixItems"):
            node["prefixItems"] = [self.walk(item) for item in node["prefixItems"]]
        items = node.get("items")
        if isinstance(items, list):
            node["items"] = [self.walk(item) for item in items]
        elif items:
            node["items"] = self.walk(items)
        if node.get("contains") is not None and self.visits_inner(node["contains"]):
            node["contains"] = self.walk(node["contains"])

    def _walk_object(self, node: Schema) -> None:
        for key in ("properties", "patternProperties"):
            if node.get(key):
                node[key] = {name: self.walk(value) for name, value in node[key].items()}
        if node.get("additionalProperties") is not None:
            node["additionalProperties"] = self.walk(node["additionalProperties"])
        if node.get("propertyNames") is not None and self.visits_inner(node["propertyNames"]):
            node["propertyNames"] = self.walk(node["propertyNames"])

    def _walk_union(self, node: Schema, keyword: str) -> Schema:
        if keyword not in node:
            return node
        members = [self.walk(member) for member in node[keyword]]
        others = {key: value for key, value in node.items() if key != keyword}
        # A member that matches nothing is kept: merged, its `not` could be overwritten.
        if len(members) == 1 and isinstance(members[0], dict) and members[0].get("not") != {}:
            return {**members[0], **others}
        return {**others, keyword: members}

    def _inline(self, node: Schema, reference: str) -> Schema | None:
        """Return the target of a reference, merged with the keywords next to the reference; None if the reference is
        kept.
        """
        name = definition_name(reference)
        if name in self._open:
            if name not in self.definitions:
                raise SchemaError(f"{name} refers to itself, which is only supported in $defs; move it there")
            self.recursive.add(name)
            return None
        if name in self.recursive:
            return None
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return self._walk_definition(name, beside) if beside else self._copy_definition(name)

    def _copy_definition(self, name: str) -> Schema:
        if name in self._walked:
            walked, values = self._walked[name]
            self._add_values(values)
        else:
            before = self._values
            walked = self._walk_definition(name, {})
            self._walked[name] = walked, self._values - before
        return deepcopy(walked)

    def _walk_definition(self, name: str, siblings: Schema) -> Schema:
        found = self.definitions.get(name)
        if found is None:
            found = resolve_pointer(self.schema, name)
        if found is None:
            raise SchemaError(f"it refers to {name}, which it does not contain")
        node: Schema = {**({} if isinstance(found, bool) else deepcopy(found)), **siblings}
        if found is False:
            node["not"] = {}
        self._add_values(_count_values(node))
        self._open.append(name)
        walked: Schema = self.walk(node)
        self._open.pop()
        return walked

    def _add_values(self, values: int) -> None:
        self._values += values
        if self._values > _MOST_VALUES:
            raise SchemaError(f"with its references expanded it has more than {_MOST_VALUES:,} values")


def definition_name(reference: str) -> str:
    """Return the name of the definition that a reference points to; return any other reference unchanged."""
    if not reference.startswith(_DEFINITION):
        return reference
    return reference.removeprefix(_DEFINITION).replace("~1", "/").replace("~0", "~")


def resolve_pointer(schema: Schema, reference: str) -> Schema | None:
    """Return the object to which a reference `#` with a JSON pointer (RFC 6901) points; None if there is no such
    object.
    """
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
    """Yield all `$ref` references inside a value."""
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
    """Yield each object schema inside `node`, without following any `$ref`, and its depth, counted from 1."""
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


def split_definitions(schema: Schema) -> tuple[Schema, dict[str, Any]]:
    """Return a schema without its definitions, and the definitions by pointer."""
    held = {
        f"#/{key}/{name}": each
        for key in ("$defs", "definitions")
        if isinstance(schema.get(key), dict)
        for name, each in schema[key].items()
    }
    return {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}, held


def _count_values(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return count
