"""In which form a provider can be asked for an answer that fits a JSON schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

NAME = "answer"
"""What the schema is called where a provider wants a name."""

_STRICT_KEYWORDS = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs"),
        *("description", "title", "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minItems", "maxItems"),
    )
)
"""Keywords of OpenAI's strict schemas (its guide on structured outputs, "Supported schemas")."""

_STRICT_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)
_LOCAL_REFERENCE = re.compile(r"#(?:/\$defs/[^/]+)?")
_LOOK_AROUND = ("(?=", "(?!", "(?<=", "(?<!")
_HOLDERS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether OpenAI takes a schema in strict mode, in which its answers are sure to fit.

    Every object must be closed with all of its properties required, and only the keywords of strict mode may stand
    anywhere; the whole must be an object.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _all(schema, _is_strict_node)


def is_closed(schema: Mapping[str, Any]) -> bool:
    """Whether every object of a schema names its properties: Anthropic closes the others, so that they stay empty."""
    return _all(schema, _is_closed_node)


def asking_for(schema: Mapping[str, Any]) -> str:
    """Return the words that ask a model without structured output for an answer that fits a schema."""
    written = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON value that fits the JSON schema below. Write nothing else.\n\n{written}"


def _all(schema: Any, fits: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Whether every schema inside a schema fits; `true` and `false` stand for schemas too."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if not fits(node):
                return False
            waiting += _inside(node)
    return True


def _inside(node: Mapping[str, Any]) -> Iterator[Any]:
    for key in _HOLDERS:
        if isinstance(node.get(key), Mapping):
            yield from node[key].values()
    for key in _LISTS:
        if isinstance(node.get(key), list):
            yield from node[key]
    yield from (node[key] for key in _SINGLE if key in node)


def _is_object(node: Mapping[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node


def _is_strict_node(node: Mapping[str, Any]) -> bool:
    if not node or not _STRICT_KEYWORDS.issuperset(node) or node.get("format", "date") not in _STRICT_FORMATS:
        return False
    if any(sign in str(node.get("pattern", "")) for sign in _LOOK_AROUND):
        return False
    if "$ref" in node:
        return len(node) == 1 and _LOCAL_REFERENCE.fullmatch(str(node["$ref"])) is not None
    kind = node.get("type")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        items = node.get("items")
        return isinstance(items, Mapping) and any(key in items for key in ("type", "$ref", "anyOf", "enum", "const"))
    if not _is_object(node):
        return any(key in node for key in ("type", "anyOf", "enum", "const"))
    return node.get("additionalProperties") is False and {*node.get("required", ())} == {*node.get("properties", {})}


def _is_closed_node(node: Mapping[str, Any]) -> bool:
    if "patternProperties" in node or node.get("additionalProperties") not in (None, False):
        return False
    return not _is_object(node) or "properties" in node
