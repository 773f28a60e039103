"""Functions that a model calls as tools: their description and their results (used inside the worker process)."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from holodeck_action.workers.plain import Plain

MOST_BYTES = 64 * 1024 * 1024
"""Most bytes a result may hold at all; what is longer is not even measured."""

_AS_TEXT = (("decimal", "Decimal"), ("uuid", "UUID"), ("pathlib", "PurePath"))
_AS_ISO_TEXT = (("datetime", "date"), ("datetime", "time"))

_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY


def call(function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call a function with arguments by name, positional-only ones too."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return function(**args)
    first = [name for name, parameter in parameters.items() if parameter.kind is _POSITIONAL_ONLY and name in args]
    return function(*(args[name] for name in first), **{name: args[name] for name in args if name not in first})


def result(value: Any, max_bytes: int) -> dict[str, Any]:
    """Return what a function gave, held to a size.

    Args:
        value: anything JSON can hold, and of the standard types those with one obvious text or shape: dataclass
            instances, pydantic models, enumerations, sets, dates and times, decimals, UUIDs and paths.
        max_bytes: most bytes of UTF-8 in its text.

    Returns:
        `{value, bytes, cut}`; `bytes` is the size of the whole text (JSON text unless the value is one). Where that is
        more than `max_bytes`, `value` is the beginning of the text.

    Raises:
        CallError: it is not JSON (code `not_json`), or larger than `MOST_BYTES` (`too_large`).
    """
    plain = _Values(MOST_BYTES).convert(value, "the result")
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return {"value": plain, "bytes": len(data), "cut": False}
    return {"value": data[:max_bytes].decode("utf-8", "ignore"), "bytes": len(data), "cut": True}


class _Values(Plain):
    def convert(self, value: object, path: str, depth: int = 0) -> Any:
        return super().convert(_simplified(value), path, depth)


def _simplified(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | Mapping | list | tuple):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        # The order of a set of texts differs from process to process.
        return sorted(value, key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(type(value), "model_fields") and hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if _is_one_of(value, _AS_ISO_TEXT):
        return value.isoformat()
    return str(value) if _is_one_of(value, _AS_TEXT) else value


def _is_one_of(value: object, classes: tuple[tuple[str, str], ...]) -> bool:
    """Tell whether a value is of one of the classes, importing nothing: without its module there is no such value."""
    return any(
        module in sys.modules and isinstance(value, getattr(sys.modules[module], name)) for module, name in classes
    )
