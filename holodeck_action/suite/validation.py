"""Validation of data by a pydantic model, with a sentence and a position for each problem."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from holodeck_action.suite.errors import Problem, field_path, quoted
from holodeck_action.suite.messages import Finding, sentence
from holodeck_action.suite.model.schema_marks import LAZY, METRICS, PLACE, WRITTEN_AS, KnownMetrics
from holodeck_action.suite.yaml.document import Document, MarkedList, MarkedMap, Path, position_of
from holodeck_action.suite.yaml.reading import SECRET_KEY

Model = TypeVar("Model", bound=BaseModel)

_TRANSPARENT = frozenset(
    ("function-before", "function-after", "function-wrap", "nullable", "default", "model", "definitions")
)
_BOUNDS = ("ge", "gt", "le", "lt")
_KEY = "[key]"
_SECRET_CHILDREN = ("env", "headers")


def validate(
    model: type[Model],
    data: Any,
    document: Document,
    path: Path = (),
    *,
    case: str | None = None,
    metrics: KnownMetrics | None = None,
) -> tuple[Model | None, list[Problem]]:
    """Validate a part of a document.

    Args:
        model: the expected model.
        data: the part, with its positions.
        document: the document.
        path: path of the part in the document.
        case: name of the case that contains the part, for messages; None if the part belongs to no case.
        metrics: the available metrics, for parts with metrics.

    Returns:
        The validated model and no problems, or None and all problems.
    """
    try:
        return model.model_validate(data, context={METRICS: metrics}), []
    except ValidationError as error:
        return None, _problems(model, error, data, document, path, case, metrics)


def _problems(
    model: type[BaseModel],
    error: ValidationError,
    data: Any,
    document: Document,
    prefix: Path = (),
    case: str | None = None,
    metrics: KnownMetrics | None = None,
) -> list[Problem]:
    problems = []
    for details in error.errors(include_url=False, include_context=True):
        refusal = _refusal(details, model.__pydantic_core_schema__, data, metrics)
        if refusal is None:
            continue
        path, message, of_key = refusal
        if case is not None:
            message += f" (case {quoted(case)})"
        at_key = of_key or details["type"] == "extra_forbidden" or "at_key" in details.get("ctx", {})
        line, column = position_of(data, path, key=at_key)
        place = field_path((*prefix, *(path[:-1] if of_key else path)))
        problems.append(Problem(document.mark(line, column), place, message))
    return problems


class EntryError(ValueError):
    """An entry that its pydantic model accepted is refused by a stricter model, which depends on files of the suite."""

    def __init__(self, model: type[BaseModel], entry: BaseModel, error: ValidationError) -> None:
        super().__init__(argument_errors(model, dict(entry), error))
        self._model = model
        self._error = error

    def problems(self, entry: Any, document: Document) -> list[Problem]:
        """Return the problems with their positions; `entry` is the unvalidated entry of `document`."""
        return _problems(self._model, self._error, entry, document)


def check_entry(model: type[Model], entry: BaseModel) -> Model:
    """Validate an entry again by a model that depends on files of the suite, and return the new instance.

    Raises:
        EntryError: the model refuses the entry.
    """
    try:
        return model.model_validate({name: getattr(entry, name) for name in entry.model_fields_set})
    except ValidationError as error:
        raise EntryError(model, entry, error) from None


def argument_errors(model: type[BaseModel], arguments: Mapping[str, Any], error: ValidationError) -> str:
    """Return why a model refuses arguments of its constructor: one sentence for each problem, joined by `; `."""
    schema = model.__pydantic_core_schema__
    refusals = [_refusal(details, schema, arguments, None) for details in error.errors(include_url=False)]
    found = [(field_path(refusal[0]), refusal[1]) for refusal in refusals if refusal is not None]
    return "; ".join(f"{path}: {_for_python(text)}" if path else text for path, text in found)


def _for_python(text: str) -> str:
    """Return a sentence about a YAML file, reworded for arguments in Python."""
    return re.sub("^unknown key", "unknown argument", text).removesuffix(": put the value in quotes")


def _refusal(
    details: Mapping[str, Any], schema: Any, data: Any, metrics: KnownMetrics | None
) -> tuple[Path, str, bool] | None:
    """Return an error's path in the data, a sentence about the error, and whether the error is about a key. Return None
    if the value contains an unset variable, which is reported elsewhere.
    """
    kind = details["type"]
    path, leaf = _descend(schema, details["loc"], data, metrics)
    value = details["input"]
    if kind in leaf.get("fields", ()):
        # Our own errors of a whole mapping have the field's name as their type.
        path, value = (*path, kind), value.get(kind) if isinstance(value, Mapping) else getattr(value, kind, None)
    elif kind == "union_tag_not_found" and isinstance(value, dict):
        path = (*path, "type") if "type" in value else path
    elif kind == "union_tag_invalid":
        path, value = (*path, "type"), value["type"]
    flags = _substitution_state(data, path)
    if flags == "unset":
        return None
    hidden = flags == "substituted" or is_secret(path)
    of_key = details["loc"][-1:] == (_KEY,)
    message = sentence(Finding(kind, details["msg"], details.get("ctx", {}), path, leaf, value, hidden, metrics))
    if of_key and kind == "string_type":
        message = f"the key {str(path[-1]).lower()} must be text: put it in quotes"
    return path, message, of_key


def is_secret(path: Path) -> bool:
    """Return whether the names in a field's path mark its value as secret."""
    names = [part for part in path if isinstance(part, str)]
    return any(name in _SECRET_CHILDREN or SECRET_KEY.search(name) for name in names)


def _substitution_state(document: Any, path: Path) -> str | None:
    current = document
    for index, part in enumerate(path):
        known = (isinstance(current, MarkedMap) and part in current) or (
            isinstance(current, MarkedList) and isinstance(part, int) and part < len(current)
        )
        if not known:
            return None
        if index == len(path) - 1:
            return "unset" if current.is_unset(part) else "substituted" if current.is_substituted(part) else None
        current = current[part]
    return None


def _descend(schema: Any, loc: tuple[str | int, ...], data: Any, metrics: KnownMetrics | None) -> tuple[Path, Any]:
    """Convert the location `loc` of a pydantic error: return its path in the data, and the schema at that path. Parts
    of `loc` that only name a branch of the schema are dropped.
    """
    definitions: dict[str, Any] = {}
    path: list[str | int] = []
    for part in loc:
        if part == _KEY:
            break
        schema = _unwrap(schema, definitions, _value_at(data, path), metrics)
        kind = schema["type"]
        if kind == "model-fields":
            path.append(schema[WRITTEN_AS].get(part, part))
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


def _unwrap(schema: Any, definitions: dict[str, Any], value: Any, metrics: KnownMetrics | None) -> Any:
    bounds: dict[str, Any] = {}
    written_as: Mapping[str, str] = {}
    while True:
        written_as = schema.get(WRITTEN_AS, written_as)
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
        elif LAZY in metadata:
            schema = metadata[LAZY].adapter.core_schema
        elif kind in _TRANSPARENT:
            schema = schema["schema"]
        else:
            return {**schema, **bounds, WRITTEN_AS: written_as}
