"""From Parquet tables to cases (imported in a process of its own only)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from json.encoder import encode_basestring
from typing import Any

import pyarrow
import pyarrow.parquet

from holodeck_action.results.parquet.tables import SCORE, Spec, TableError, said, schema_of


class Reading:
    """The tables of a part."""

    def __init__(self, tables: Sequence[Spec], contents: Sequence[bytes], most: int) -> None:
        """Open them.

        Args:
            tables: what they must be.
            contents: of their files.
            most: bytes that one row group may have as lines of cases.

        Raises:
            TableError: they are not.
        """
        self._tables, self._most = tables, most
        self._files: list[pyarrow.parquet.ParquetFile] = []
        for table, content in zip(tables, contents, strict=True):
            try:
                file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
                _check(table, file.schema_arrow)
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                raise TableError(f"{table['name']}: is no Parquet file that can be read ({said(error)})") from None
            self._files.append(file)
        groups = {file.num_row_groups for file in self._files}
        if len(groups) > 1:
            raise TableError("the tables have different numbers of row groups")
        self.rows = [file.metadata.num_rows for file in self._files]
        metadata = self._files[0].metadata
        self.groups = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]

    def ids(self) -> Iterator[str]:
        """Yield the ids of all cases.

        Raises:
            TableError: they cannot be read.
        """
        for at in range(len(self.groups)):
            read = partial(self._read, 0, at, ["case"])
            yield from _guarded(self._tables[0], read).column(0).to_pylist()

    def group(self, at: int) -> bytes:
        """Return a row group as lines of cases.

        Raises:
            TableError: its tables cannot be read, or do not fit each other.
        """
        inner: list[str] | None = None
        for place in range(len(self._tables) - 1, -1, -1):
            table = self._tables[place]
            read = partial(self._read, place, at, None)
            rows = _guarded(table, read)
            inner = _guarded(table, partial(_decoded, table, rows, inner))
            if sum(map(len, inner)) > self._most:
                raise TableError(f"{table['name']}: a row group holds more than {self._most:,} bytes")
        assert inner is not None
        lines = "\n".join(inner)
        if lines.count("\n") != len(inner) - 1:
            raise TableError("a value that should be JSON has several lines")
        return lines.encode()

    def _read(self, place: int, at: int, columns: list[str] | None) -> pyarrow.Table:
        file = self._files[place]
        if file.metadata.row_group(at).total_byte_size > 2 * self._most:
            raise TableError(
                f"{self._tables[place]['name']}: a row group unpacks to more than {2 * self._most:,} bytes"
            )
        return file.read_row_group(at, columns=columns, use_threads=False)


def _check(table: Spec, found: pyarrow.Schema) -> None:
    """Refuse columns of other types; one that is missing came with a later version than the table.

    Raises:
        TableError: naming the column.
    """
    needed = {column["name"] for column in table["columns"] if column["kind"] == "rows"}
    for field in schema_of(table):
        if field.name not in found.names and field.name not in needed:
            continue
        if found.names.count(field.name) != 1 or found.field(field.name).type != field.type:
            raise TableError(f"{table['name']}: the column {field.name} is missing or not of type {field.type}")


def _guarded(table: Spec, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise TableError(f"{table['name']}: cannot be read ({said(error)})") from None


def _decoded(table: Spec, rows: pyarrow.Table, below: list[str] | None) -> list[str]:
    """Return each row as JSON, with the rows of the next table that belong to it."""
    rows = rows.combine_chunks()
    there = set(rows.column_names)
    texts: list[list[str]] = []
    for column in table["columns"]:
        name = column["name"]
        if name not in there:
            continue
        if column["kind"] == "score":
            texts.append(_scored(column, [rows.column(name + end).to_pylist() for end in SCORE]))
        elif column["kind"] == "rows":
            texts.append(_nested(table, column, rows.column(name).to_pylist(), below or []))
        else:
            texts.append(_members(column, rows.column(name).combine_chunks()))
    return _objects(texts, rows.num_rows)


def _objects(members: Sequence[list[str]], rows: int) -> list[str]:
    # Each begins with a comma.
    return ["{" + text[1:] + "}" for text in map("".join, zip(*members, strict=True))] if members else ["{}"] * rows


def _members(column: Spec, array: pyarrow.Array) -> list[str]:
    """Return the cells of a column as members of JSON objects, each with a comma before it."""
    before = f',"{column["key"]}":'
    nothing = "" if column["left_out"] else before + "null"
    match column["kind"]:
        case "struct":
            fields = zip(column["fields"], array.flatten(), strict=True)
            cells: Sequence[Any] = _objects([_members(each, cell) for each, cell in fields], len(array))
            known = array.is_valid().to_pylist()
            return [before + cell if there else nothing for cell, there in zip(cells, known, strict=True)]
        case "text":
            cells = array.to_pylist()
            return [nothing if cell is None else before + encode_basestring(cell) for cell in cells]
        case "json":
            return [nothing if cell is None else before + cell for cell in array.to_pylist()]
        case "boolean":
            shown = {True: before + "true", False: before + "false", None: nothing}
            return [shown[cell] for cell in array.to_pylist()]
        case "texts":
            return [
                nothing if cell is None else f"{before}[{','.join(map(encode_basestring, cell))}]"
                for cell in array.to_pylist()
            ]
        case _:
            return [nothing if cell is None else before + repr(cell) for cell in array.to_pylist()]


def _scored(column: Spec, cells: Sequence[list[Any]]) -> list[str]:
    before = f',"{column["key"]}":'
    shown = []
    for number, category, exact in zip(*cells, strict=True):
        if exact is not None:
            shown.append(before + exact)
        elif category is not None:
            shown.append(before + encode_basestring(category))
        else:
            shown.append(before + ("null" if number is None else repr(number)))
    return shown


def _nested(table: Spec, column: Spec, counts: Sequence[int], rows: Sequence[str]) -> list[str]:
    """Return the rows of the next table as members of these.

    Raises:
        TableError: there are more or fewer than these say.
    """
    if sum(counts) != len(rows) or min(counts, default=0) < 0:
        raise TableError(f"{table['name']}: tells of {sum(counts)} {column['name']}, of which there are {len(rows)}")
    before, at = f',"{column["key"]}":[', 0
    shown = []
    for count in counts:
        shown.append(before + ",".join(rows[at : at + count]) + "]")
        at += count
    return shown
