"""Converts values from user code to plain JSON values within limits (used inside the worker process)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.text.plain import line_or_length
from holodeck_action.workers.code_errors import CallError

_MAX_DEPTH = 100
_MAX_INTEGER_BITS = 10_000
"""Maximum bits of an integer: about 3,000 digits, below the interpreter's limit for converting an integer to text."""


class PlainConverter:
    """Converts values to plain JSON values, up to a total size."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def convert(self, value: object, path: str, depth: int = 0) -> Any:
        """Return a value as a plain JSON value: tuples become lists, keys strings, and NumPy scalars Python scalars.

        Args:
            value: the value of user code.
            path: name of the value in messages.
            depth: number of lists and mappings around the value.

        Raises:
            CallError: the value is not JSON, not finite or nested too deeply (code `not_json`), or too large (code
                `too_large`).
        """
        if depth > _MAX_DEPTH:
            raise CallError("not_json", f"{path} is nested more than {_MAX_DEPTH} levels deep or contains itself")
        if value is None or isinstance(value, bool):
            self._count(1)
            return value
        if isinstance(value, str):
            self._count(1 + len(value))
            if not value.isascii():
                self._count(len(value.encode("utf-8", "surrogatepass")) - len(value))
            return str.__str__(value)
        if isinstance(value, int):
            if value.bit_length() > _MAX_INTEGER_BITS:
                raise CallError("not_json", f"{path} is an integer of more than 3000 digits")
            self._count(1 + value.bit_length() // 4)
            return int(value)
        if isinstance(value, float):
            self._count(4)
            if value - value != 0.0:
                raise CallError("not_json", f"{path} is {float(value)}, which JSON cannot hold")
            return float(value)
        if isinstance(value, Mapping):
            self._count(1)
            return {
                self.convert(_key_text(key, path), f"a key of {path}"): self.convert(
                    item, f"{path}.{line_or_length(str(key), 40)}", depth + 1
                )
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            self._count(1)
            return [self.convert(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        scalar = python_scalar(value)
        if scalar is value:
            raise CallError("not_json", f"{path} is of type {type(value).__name__}, which JSON cannot hold")
        return self.convert(scalar, path, depth)

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise CallError("too_large", f"it returned more than {self._max_bytes} bytes")


def python_scalar(value: Any) -> Any:
    """Return a NumPy-like scalar (no dimensions, an `item` method) as a Python scalar; other values unchanged."""
    if getattr(value, "shape", None) == () and hasattr(value, "dtype") and hasattr(value, "item"):
        scalar = value.item()
        if isinstance(scalar, (bool, int, float, str)):
            return scalar
    return value


def _key_text(key: object, path: str) -> str:
    """Return a mapping's key as a string, as `json` would write it."""
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (int, float)):
        return repr(key)
    raise CallError("not_json", f"a key of {path} is of type {type(key).__name__}, which JSON cannot hold")
