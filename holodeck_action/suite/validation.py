"""Data against its model, with every defect as a sentence at its line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from holodeck_action.suite.errors import Problem, field_path, quoted
from holodeck_action.suite.messages import Finding, sentence
from holodeck_action.suite.model.base import LATER
from holodeck_action.suite.model.metric_types import METRICS, PLACE, MetricTypes
from holodeck_action.suite.yaml.document import Document, MarkedList, MarkedMap, Path, position_of
from holodeck_action.suite.yaml.reading import SECRET_KEY

Model = TypeVar("Model", bound=BaseModel)

_TRANSPARENT = frozenset(
    ("function-before", "function-after", "function-wrap", "nullable", "default", "model", "definitions")
)
_BOUNDS = ("ge", "gt", "le", "lt")
_KEY = "[key]"
_SECRET_CHILDREN = ("env", "headers")


def validated(
    model: type[Model],
    data: Any,
    document: Document,
    path: Path = (),
    *,
    case: str | None = None,
    metrics: MetricTypes | None = None,
) -> tuple[Model | None, list[Problem]]:
    """Validate a part of a document.

    Args:
        model: what the data must be.
        data: the part, with its marks.
        document: where it stands.
        path: where in the document.
        case: name of the case it belongs to, shown in messages.
        metrics: the metrics that there are, for parts that may hold some.

    Returns:
        The model and no problems, or None and every problem.
    """
    try:
        return model.model_validate(data, context={METRICS: metrics}), []
    except ValidationError as error:
        schema = model.__pydantic_core_schema__
        found = [
            _problem(details, schema, data, document, path, case, metrics)
            for details in error.errors(include_url=False, include_context=True)
        ]
        return None, [problem for problem in found if problem is not None]


def _problem(
    details: Mapping[str, Any],
    schema: Any,
    data: Any,
    document: Document,
    prefix: Path,
    case: str | None,
    metrics: MetricTypes | None,
) -> Problem | None:
    kind = details["type"]
    path, leaf = _descend(schema, details["loc"], data, metrics)
    value = details["input"]
    if kind in leaf.get("fields", ()):
        # Our own errors of a whole mapping carry the name of the field they stand at.
        path, value = (*path, kind), value.get(kind)
    elif kind == "union_tag_not_found" and isinstance(value, dict):
        path = (*path, "type") if "type" in value else path
    elif kind == "union_tag_invalid":
        path, value = (*path, "type"), value["type"]
    flags = _flags(data, path)
    if flags == "unset":
        return None
    hidden = flags == "substituted" or is_secret(path)
    of_key = details["loc"][-1:] == (_KEY,)
    message = sentence(Finding(kind, details["msg"], details.get("ctx", {}), path, leaf, value, hidden, metrics))
    if of_key and kind == "string_type":
        message = f"the key {str(path[-1]).lower()} must be text: put it in quotes"
    if case is not None:
        message += f" (case {quoted(case)})"
    line, column = position_of(data, path, key=of_key or kind == "extra_forbidden")
    return Problem(document.mark(line, column), field_path((*prefix, *(path[:-1] if of_key else path))), message)


def is_secret(path: Path) -> bool:
    """Whether a field's value must not be shown, judged by the names on the way to it."""
    names = [part for part in path if isinstance(part, str)]
    return any(name in _SECRET_CHILDREN or SECRET_KEY.search(name) for name in names)


def _flags(root: Any, path: Path) -> str | None:
    current = root
    for index, part in enumerate(path):
        known = (isinstance(current, MarkedMap) and part in current) or (
            isinstance(current, MarkedList) and isinstance(part, int) and part < len(current)
        )
        if not known:
            return None
        if index == len(path) - 1:
            return "unset" if current.unset(part) else "substituted" if current.substituted(part) else None
        current = current[part]
    return None


def _descend(schema: Any, loc: tuple[str | int, ...], data: Any, metrics: MetricTypes | None) -> tuple[Path, Any]:
    """Follow an error's location through the schema, dropping what names a branch and not a place in the data."""
    definitions: dict[str, Any] = {}
    path: list[str | int] = []
    for part in loc:
        if part == _KEY:
            break
        schema = _unwrap(schema, definitions, _value_at(data, path), metrics)
        kind = schema["type"]
        if kind == "model-fields":
            path.append(part)
            if part not in schema["fields"]:
                return tuple(path), schema
            schema = schema["fields"][part]["schema"]
        elif kind == "list":
            path.append(part)
            schema = schema["items_schema"]
        elif kind == "tuple":
            path.append(part)
            schema = schema["items_schema"][0]
        elif kind == "dict":
            path.append(part)
            schema = schema["values_schema"]
        elif kind == "tagged-union":
            schema = schema["choices"][part]
        else:
            break
    return tuple(path), _unwrap(schema, definitions, _value_at(data, path), metrics)


def _value_at(data: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _unwrap(schema: Any, definitions: dict[str, Any], value: Any, metrics: MetricTypes | None) -> Any:
    bounds: dict[str, Any] = {}
    while True:
        kind = schema["type"]
        metadata = schema.get("metadata", {})
        updates = metadata.get("pydantic_js_updates", {})
        bounds.update((name, bound) for name, bound in updates.items() if name in _BOUNDS)
        if kind == "definitions":
            definitions.update({entry["ref"]: entry for entry in schema["definitions"]})
        if kind == "definition-ref":
            schema = definitions[schema["schema_ref"]]
        elif PLACE in metadata and metrics is not None:
            schema = metrics.core_schema(metadata[PLACE], value)
        elif LATER in metadata:
            schema = metadata[LATER].adapter.core_schema
        elif kind in _TRANSPARENT:
            schema = schema["schema"]
        else:
            return {**schema, **bounds}
