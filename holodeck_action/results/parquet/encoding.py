"""From cases to Parquet tables (imported in a process of its own only)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import pyarrow
import pyarrow.parquet
from msgspec.json import decode, encode

from holodeck_action.results.parquet.tables import SCORE, Spec, TableError, said, schema_of, type_of


class Writing:
    """Tables that grow by row groups."""

    def __init__(self, tables: Sequence[Spec]) -> None:
        self._tables = tables
        self._files = [BytesIO() for _ in tables]
        self._rows = [0 for _ in tables]
        self._writers = [
            pyarrow.parquet.ParquetWriter(file, schema_of(table), compression="zstd")
            for file, table in zip(self._files, tables, strict=True)
        ]

    def add(self, lines: bytes) -> None:
        """Write lines of cases as one row group.

        Raises:
            TableError: a value does not fit into its column.
        """
        rows = [decode(line) for line in lines.split(b"\n")]
        keys: list[tuple[Any, ...]] = [()] * len(rows)
        for at, table in enumerate(self._tables):
            below = next((column["key"] for column in table["columns"] if column["kind"] == "rows"), None)
            held = [row[below] for row in rows] if below is not None else []
            try:
                batch = _encoded(table, keys, rows)
            except (pyarrow.ArrowException, OverflowError) as error:
                raise TableError(f"{table['name']}: a value does not fit into its column ({said(error)})") from None
            self._writers[at].write_table(batch, row_group_size=max(1, len(rows)))
            self._rows[at] += len(rows)
            own = table["columns"][0]["key"]
            keys = [(*key, row[own]) for key, row, inner in zip(keys, rows, held, strict=False) for _ in inner]
            rows = [each for inner in held for each in inner]

    def finish(self) -> tuple[list[int], list[bytes]]:
        """Return the rows and the content of each table."""
        for writer in self._writers:
            writer.close()
        return self._rows, [file.getvalue() for file in self._files]


def _encoded(table: Spec, keys: Sequence[tuple[Any, ...]], rows: Sequence[Spec]) -> pyarrow.Table:
    schema, arrays = schema_of(table), []
    for at, name in enumerate(table["keys"]):
        arrays.append(pyarrow.array([key[at] for key in keys], schema.field(name).type))
    for column in table["columns"]:
        values = [row.get(column["key"]) for row in rows]
        if column["kind"] == "score":
            arrays += _scores(values)
        else:
            arrays.append(pyarrow.array(_cells(column, values), type_of(column)))
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _cells(column: Spec, values: Sequence[Any]) -> list[Any]:
    match column["kind"]:
        case "json":
            return [None if value is None else encode(value).decode() for value in values]
        case "rows":
            return [len(value) for value in values]
        case "number":
            return [None if value is None else float(value) for value in values]
        case "struct":
            fields = [_cells(each, [value and value.get(each["key"]) for value in values]) for each in column["fields"]]
            names = [each["name"] for each in column["fields"]]
            return [
                None if value is None else dict(zip(names, cells, strict=True))
                for value, *cells in zip(values, *fields, strict=True)
            ]
        case _:
            return list(values)


def _scores(values: Sequence[Any]) -> list[pyarrow.Array]:
    numbers, exact = [], []
    for value in values:
        number = None
        if value is not None and not isinstance(value, str):
            # A number beyond all doubles is as JSON has it alone.
            with suppress(OverflowError):
                number = float(value)
        numbers.append(number)
        exact.append(encode(value).decode() if isinstance(value, int) else None)
    categories = [value if isinstance(value, str) else None for value in values]
    return [
        pyarrow.array(cells, kind) for cells, kind in zip((numbers, categories, exact), SCORE.values(), strict=True)
    ]
