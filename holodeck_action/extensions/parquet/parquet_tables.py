"""Exports a record as Parquet tables, whose columns are derived from the record's classes."""

from __future__ import annotations

import errno
import shutil
import tempfile
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from holodeck_action.record.disk import DISK, Disk, make_readable, write_new
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import CaseRecord, Record, TrialRecord, TurnRecord
from holodeck_action.record.serialization import from_json, to_json
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    import pyarrow

TABLES = ("cases", "trials", "turns", "evaluations")
_FILE = lazy_pattern(rf"({'|'.join(TABLES)})-[0-9]{{5}}\.parquet")
_GROUP_CASES, _GROUP_BYTES = 1000, 2 * 1024 * 1024
"""Maximum number of cases, and of bytes, in a row group."""
_PART_CASES, _PART_BYTES = 10_000, 64 * 1024 * 1024
"""Maximum number of cases, and of bytes, in a part of the export, which has one file per table."""

Kind = Literal["text", "integer", "number", "boolean", "texts", "struct", "score", "json", "rows"]
_SCALARS: Mapping[object, Kind] = {str: "text", int: "integer", float: "number", bool: "boolean"}
_SCORE_ENDS = ("", "_category", "_json")
"""Suffixes of a score's three columns: the number, the category, and the JSON of a whole number or boolean."""


class Column(Struct, frozen=True):
    """A column, or a field of a struct column.

    Attributes:
        name: name of the column in Parquet.
        key: key of the value in the JSON of a results file.
        kind: `text`, `integer` (64 bits), `number` (double), `boolean`, `texts` (list of strings), `struct`, `json` (a
            string of JSON), `score` (three columns), or `rows` (number of rows in the next table that belong to this
            row).
        fields: fields of a struct column.
    """

    name: str
    key: str
    kind: Kind
    fields: tuple[Column, ...] = ()


class Table(Struct, frozen=True):
    """A table; `keys` are the columns that join the table with its parent tables."""

    name: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]


_TABLE_ROWS: tuple[tuple[type[Struct], dict[str, str], str | None], ...] = (
    (CaseRecord, {"id": "case"}, "trials"),
    (TrialRecord, {"index": "trial"}, "turns"),
    (TurnRecord, {"index": "turn"}, "evaluations"),
    (Evaluation, {}, None),
)
"""For each table: the class of its rows, the new name of its key, and the field with the rows of the next table."""
_CONVERSATION = "evaluations"
"""The field of a trial with the evaluations of its whole conversation, which are rows without a turn."""


def is_installed() -> bool:
    """Return whether the package that writes Parquet is installed."""
    return find_spec("pyarrow") is not None


def write_tables(path: Path, record: Record, disk: Disk = DISK) -> None:
    """Write a record as a folder of Parquet tables; an existing folder is replaced if it contains only such tables.

    Raises:
        OSError: the folder cannot be written, a value does not fit into its column, or the path exists and is not
            a folder with only such tables. Nothing is replaced then.
    """
    if path.is_symlink() or (path.exists() and not (path.is_dir() and _holds_only_tables(path))):
        raise FileExistsError(errno.EEXIST, "another file or folder has this name")
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        for number, part in enumerate(_part_contents(map(to_json, record.cases))):
            for table, content in zip(TABLES, part, strict=True):
                write_new(temporary / f"{table}-{number:05}.parquet", [content], disk)
        make_readable(temporary, 0o777)
        disk.sync_folder(temporary)
        disk.replace((temporary, path))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _holds_only_tables(folder: Path) -> bool:
    return all(_FILE.fullmatch(file.name) for file in folder.iterdir())


def _part_contents(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the file contents of each part of the export, one file for each table."""
    part = _Part()
    for group in _group_lines(lines):
        part.add(group)
        if part.is_full:
            yield part.contents()
            part = _Part()
    if part.cases:
        yield part.contents()


def _group_lines(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and (size + len(line) > _GROUP_BYTES or len(group) >= _GROUP_CASES):
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield group


class _Part:
    """One part of the export, whose tables are written row group by row group."""

    def __init__(self) -> None:
        import pyarrow.parquet

        self.cases = self._bytes = 0
        self._files = [BytesIO() for _ in TABLES]
        self._writers = [
            pyarrow.parquet.ParquetWriter(file, _schema(table), compression="zstd")
            for file, table in zip(self._files, tables(), strict=True)
        ]

    @property
    def is_full(self) -> bool:
        return self.cases >= _PART_CASES or self._bytes >= _PART_BYTES

    def add(self, lines: Sequence[bytes]) -> None:
        import pyarrow

        self.cases += len(lines)
        self._bytes += sum(map(len, lines))
        rows: list[dict[str, Any]] = [from_json(line, dict[str, Any]) for line in lines]
        keys: list[tuple[Any, ...]] = [()] * len(rows)
        whole: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        for table, writer in zip(tables(), self._writers, strict=True):
            try:
                writer.write_table(_encode_rows(table, keys, rows), row_group_size=max(1, len(rows)))
            except (pyarrow.ArrowException, OverflowError) as error:
                reason = " ".join(str(error).split())[:200]
                raise OSError(
                    errno.EOVERFLOW, f"{table.name}: a value does not fit into its column ({reason})"
                ) from error
            below = next((column.key for column in table.columns if column.kind == "rows"), None)
            own = table.columns[0].key
            if table.name == "trials":
                whole = [
                    ((*key, row[own], None), each)
                    for key, row in zip(keys, rows, strict=True)
                    for each in row.get(_CONVERSATION, ())
                ]
            inner = [row[below] for row in rows] if below is not None else []
            keys = [(*key, row[own]) for key, row, held in zip(keys, rows, inner, strict=False) for _ in held]
            rows = [each for held in inner for each in held]
            if table.name == "turns":
                keys, rows = [*keys, *(key for key, _ in whole)], [*rows, *(each for _, each in whole)]

    def contents(self) -> list[bytes]:
        for writer in self._writers:
            writer.close()
        return [file.getvalue() for file in self._files]


@cache
def tables() -> tuple[Table, ...]:
    """Return the definitions of the tables, each after its parent table."""
    made: list[Table] = []
    keys: tuple[str, ...] = ()
    for name, (kind, renamed, rows) in zip(TABLES, _TABLE_ROWS, strict=True):
        made.append(Table(name, keys, _columns(kind, renamed, rows)))
        keys = (*keys, *renamed.values())
    return tuple(made)


def _columns(kind: type[Struct], renamed: Mapping[str, str], rows: str | None) -> tuple[Column, ...]:
    hints = get_type_hints(kind)
    return tuple(
        Column(name, name, "rows")
        if name == rows or (kind, name) == (TrialRecord, _CONVERSATION)
        else _column(renamed.get(name, name), name, hints[name])
        for name in kind.__struct_fields__
    )


def _column(name: str, key: str, hint: Any) -> Column:
    if hint == get_type_hints(Evaluation)["score"]:
        return Column(name, key, "score")
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return Column(name, key, "struct", _columns(hint, {}, None))
    if hint == tuple[str, ...]:
        return Column(name, key, "texts")
    return Column(name, key, "text" if get_origin(hint) is Literal else _SCALARS.get(hint, "json"))


def _arrow_type(column: Column) -> pyarrow.DataType:
    import pyarrow

    match column.kind:
        case "struct":
            return pyarrow.struct([(each.name, _arrow_type(each)) for each in column.fields])
        case "integer" | "rows":
            return pyarrow.int64()
        case "number":
            return pyarrow.float64()
        case "boolean":
            return pyarrow.bool_()
        case "texts":
            return pyarrow.list_(pyarrow.string())
        case _:
            return pyarrow.string()


def _schema(table: Table) -> pyarrow.Schema:
    import pyarrow

    fields = [(name, pyarrow.string() if name == "case" else pyarrow.int64()) for name in table.keys]
    for column in table.columns:
        if column.kind == "score":
            kinds = pyarrow.float64(), pyarrow.string(), pyarrow.string()
            fields += [(column.name + end, kind) for end, kind in zip(_SCORE_ENDS, kinds, strict=True)]
        else:
            fields.append((column.name, _arrow_type(column)))
    return pyarrow.schema(fields)


def _encode_rows(table: Table, keys: Sequence[tuple[Any, ...]], rows: Sequence[Mapping[str, Any]]) -> pyarrow.Table:
    import pyarrow

    columns: list[Sequence[Any]] = [[key[at] for key in keys] for at in range(len(table.keys))]
    for column in table.columns:
        values = [row.get(column.key) for row in rows]
        columns += _score_columns(values) if column.kind == "score" else [_cell_values(column, values)]
    schema = _schema(table)
    arrays = [pyarrow.array(cells, kind) for cells, kind in zip(columns, schema.types, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _cell_values(column: Column, values: Sequence[Any]) -> list[Any]:
    match column.kind:
        case "json":
            return [None if value is None else to_json(value).decode() for value in values]
        case "rows":
            return [len(value or ()) for value in values]
        case "number":
            return [None if value is None else float(value) for value in values]
        case "struct":
            return [None if value is None else _struct_value(column.fields, value) for value in values]
        case _:
            return list(values)


def _struct_value(fields: Sequence[Column], value: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: _cell_values(each, [value.get(each.key)])[0] for each in fields}


def _score_columns(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the three columns for scores: as numbers, as strings, and as JSON for integers and booleans."""
    yield [_as_number(value) for value in values]
    yield [value if isinstance(value, str) else None for value in values]
    yield [to_json(value).decode() if isinstance(value, int) else None for value in values]


def _as_number(score: Any) -> float | None:
    if score is not None and not isinstance(score, str):
        # A number too large for a double is only in the JSON column.
        with suppress(OverflowError):
            return float(score)
    return None
