"""Converts values to JSON, for all adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from holodeck_action.text.json_values import parse_json


def to_json_value(value: Any) -> Any:
    """Return a value as a JSON value; objects that JSON does not support become strings."""
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        return value.model_dump(mode="json")
    text = json.dumps(value, default=lambda other: to_json_value(other) if _is_model(other) else str(other))
    return parse_json(text, constants=True)


def _is_model(value: Any) -> bool:
    return hasattr(type(value), "model_dump")


def parse_arguments(arguments: Any) -> dict[str, Any]:
    """Return a tool call's arguments (JSON text or a value) as a dict: `{"arguments": …}` if they are not an object."""
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = parse_json(arguments, constants=True) if arguments else {}
    return dict(to_json_value(arguments)) if isinstance(arguments, Mapping) else {"arguments": to_json_value(arguments)}
