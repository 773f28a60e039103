"""Writes the cases from a function's result as JSON Lines, one row per case (used inside the worker process)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import Any

from holodeck_action.workers.code_errors import CallError
from holodeck_action.workers.json_values import PlainConverter

_SIMPLE = (str, type(None), bool)


def write_rows(values: object, wait_for: Callable[[Any], Any], file: str, max_bytes: int) -> int:
    """Write rows to a file, and return their number.

    Args:
        values: result of a function: a sync or async iterable of mappings, such as a generator.
        wait_for: returns the result of an awaitable.
        file: path of the file to write, with one JSON object on each line.
        max_bytes: maximum size of the file in bytes.

    Raises:
        CallError: `values` is not an iterable of mappings with JSON values, or the rows are too large.
    """
    if isinstance(values, AsyncIterable):
        values = wait_for(_gather(values))
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise CallError("no_rows", f"it must yield or return mappings, one for each case, not {type(values).__name__}")
    size = number = 0
    with open(file, "wb") as out:
        for number, row in enumerate(values, start=1):
            line = _row_line(row, number, max_bytes - size)
            size += len(line)
            if size > max_bytes:
                raise CallError("too_large", f"its rows are more than {max_bytes:,} bytes of JSON")
            out.write(line)
    return number


async def _gather(values: AsyncIterable[Any]) -> list[Any]:
    return [value async for value in values]


def _row_line(row: object, number: int, max_size: int) -> bytes:
    if not isinstance(row, Mapping):
        raise CallError("no_rows", f"row {number} is of type {type(row).__name__} (required: a mapping)")
    if not all(type(key) is str and type(value) in _SIMPLE for key, value in row.items()):
        row = PlainConverter(max(max_size, 0)).convert(row, f"row {number}")
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        raise CallError("not_json", f"row {number} holds half of a surrogate pair, which is not text") from None
