"""Rules that answer: the default, and how a rule's value becomes an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.llm.models.values import Answer, Reply, Request, ToolCall


def echo(request: Request) -> Answer:
    """Say what was said; where a shape or a tool is demanded, give the least that fits its schema."""
    if request.forced is not None and request.tools and not request.results:
        name = request.forced or next(iter(request.tools))
        return Answer(tools=(ToolCall(name, least(request.tools.get(name, {}))),))
    if request.schema is not None:
        return Answer(json.dumps(least(request.schema) if request.schema else {"echo": request.text}))
    if request.results:
        return Answer("echo: " + " | ".join(request.results))
    return Answer(f"echo: {request.text}")


def counted_echo(request: Request) -> Answer:
    """Say what was said, at the price of 40 tokens and 50 more for the answer."""
    return Answer(f"echo: {request.text}", prompt_tokens=40, completion_tokens=50)


def tools_first(request: Request) -> Answer:
    """Call every tool once, in parallel and with the least arguments that fit; then echo their results."""
    if request.tools and not request.results:
        return Answer(tools=tuple(ToolCall(name, least(schema)) for name, schema in request.tools.items()))
    return echo(request)


def least(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """Return a small value that fits a JSON schema as tools and structured outputs have it."""
    root = schema if root is None else root
    if "$ref" in schema:
        return least(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    if "enum" in schema:
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return least(schema[choice][0], root)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _of_type(kind[0] if isinstance(kind, list) else kind, schema, root)


def answer_of(reply: Reply) -> Answer:
    """Return a rule's value as an answer; values that are no text are told as JSON."""
    if isinstance(reply, Answer):
        return reply
    if isinstance(reply, str):
        return Answer(reply)
    if isinstance(reply, Mapping | Sequence):
        return Answer(json.dumps(reply))
    raise TypeError(f"a rule gave {type(reply).__name__}: give a text, a mapping, a list, an Answer or a Fault")


def _of_type(kind: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    if kind == "object":
        needed = schema.get("required", ())
        properties = schema.get("properties", {})
        return {name: least(properties.get(name, {}), root) for name in properties if name in needed}
    if kind == "array":
        return [least(schema.get("items", {}), root) for _ in range(schema.get("minItems", 0))]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    return {"boolean": False, "null": None}.get(kind, "x" * schema.get("minLength", 1))
