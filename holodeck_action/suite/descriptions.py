"""What the docstrings of fields say, for the JSON Schemas: a run needs none of it, and reading sources takes time."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel


def describe_fields(schema: dict[str, Any], root: type[BaseModel]) -> None:
    """Write the docstring below each field into the schema of a model and of those it is made of.

    Args:
        schema: what `model_json_schema` returned; changed.
        root: the model it was made from.
    """
    known = {model.__name__: model for model in _models(BaseModel)}
    definitions = {name: known[name] for name in schema.get("$defs", ()) if name in known}
    for model, part in [(root, schema), *((model, schema["$defs"][name]) for name, model in definitions.items())]:
        properties = part.get("properties", {})
        for owner in model.__mro__:
            if issubclass(owner, BaseModel) and owner is not BaseModel:
                for name, text in _of_module(owner.__module__).get(owner.__qualname__, {}).items():
                    if name in properties:
                        properties[name].setdefault("description", text)


def _models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in base.__subclasses__():
        if model.__module__.startswith(f"{__package__}."):
            yield model
        yield from _models(model)


@cache
def _of_module(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of fields by class and field."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: dict(_below(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            yield field.target.id, inspect.cleandoc(text.value.value)
