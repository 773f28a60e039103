"""Reads Parquet files. Import this module only in a process with limits on time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow
import pyarrow.parquet

from holodeck_action.workers.code_errors import CallError

_BATCH = 1000
"""Rows to read at a time."""


def read_rows(path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as mappings by column name. Dates are ISO 8601 strings, decimals are strings, and other
    values are JSON data.

    Raises:
        CallError: the file is not valid Parquet, or contains a value that JSON cannot represent.
    """
    # Use one thread: more would wait for each other and use more memory.
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise CallError("not_parquet", f"two columns are named {twice!r}: give each its own name")
            for batch in file.iter_batches(_BATCH, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    yield {name: _json_value(value, name, number) for name, value in row.items()}
    except (pyarrow.ArrowException, OSError) as error:
        what = f"cannot be read after row {number}" if number else "is not a readable Parquet file"
        raise CallError("not_parquet", f"{what}: ", str(error)) from None


def _json_value(value: Any, name: str, number: int) -> Any:
    match value:
        case None | bool() | str() | int() | float():
            return value
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case dict():
            return {key: _json_value(item, name, number) for key, item in value.items()}
        case list():
            return [_json_value(item, name, number) for item in value]
        case _:
            kind = type(value).__name__
            raise CallError("not_json", f"row {number}: the column {name!r} holds a value of type {kind}: make it text")
