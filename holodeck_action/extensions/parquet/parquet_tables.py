"""A record exported as Parquet tables, whose columns are derived from the values that a record is made of."""

from __future__ import annotations

import errno
import re
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

from holodeck_action.record.disk import DISK, Disk, share, write_new
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import CaseRecord, Record, TrialRecord, TurnRecord
from holodeck_action.record.serialization import from_json, to_json
from holodeck_action.record.stored_cases import case_lines

if TYPE_CHECKING:
    import pyarrow

NEEDED = "Parquet needs the package pyarrow, which is not installed: pip install 'holodeck-action[parquet]'"
TABLES = ("cases", "trials", "turns", "evaluations")
_FILE = re.compile(rf"({'|'.join(TABLES)})-[0-9]{{5}}\.parquet")
_GROUP_CASES, _GROUP_BYTES = 1000, 2 * 1024 * 1024
"""A row group ends with whichever comes first."""
_PART_CASES, _PART_BYTES = 10_000, 64 * 1024 * 1024
"""A part likewise."""

Kind = Literal["text", "integer", "number", "boolean", "texts", "struct", "score", "json", "rows"]
_SCALARS: Mapping[object, Kind] = {str: "text", int: "integer", float: "number", bool: "boolean"}
_SCORE_ENDS = ("", "_category", "_json")
"""Columns of a score by the end of their names: the number, the category, and the JSON of a whole number or flag."""


class Column(Struct, frozen=True):
    """A column, or a field of a struct.

    Attributes:
        name: in Parquet.
        key: in the JSON of a results file.
        kind: `text`, `integer` (64 bits), `number` (double), `boolean`, `texts` (a list), `struct`, `json` (JSON as
            text), `score` (three columns), or `rows` (the number of rows of the next table that belong to this one).
        fields: those of a struct.
    """

    name: str
    key: str
    kind: Kind
    fields: tuple[Column, ...] = ()


class Table(Struct, frozen=True):
    """A table; `keys` are columns of the tables above it, by which it is joined with them."""

    name: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]


_OF: tuple[tuple[type[Struct], dict[str, str], str | None], ...] = (
    (CaseRecord, {"id": "case"}, "trials"),
    (TrialRecord, {"index": "trial"}, "turns"),
    (TurnRecord, {"index": "turn"}, "evaluations"),
    (Evaluation, {}, None),
)
"""For each table: the value of a row, the name of its key, and the field that holds the rows of the next table."""


def is_installed() -> bool:
    """Tell whether Parquet can be written."""
    return find_spec("pyarrow") is not None


def write_tables(path: Path, record: Record, disk: Disk = DISK) -> None:
    """Write a record as a folder of Parquet tables, replacing a folder that holds nothing else.

    Raises:
        OSError: it cannot be written, a value does not fit into its column, or something else has the name; nothing is
            replaced.
    """
    if path.is_symlink() or (path.exists() and not (path.is_dir() and _is_exported(path))):
        raise FileExistsError(errno.EEXIST, "another file or folder has this name")
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        for number, part in enumerate(_parts(case_lines(record.cases))):
            for table, content in zip(TABLES, part, strict=True):
                write_new(temporary / f"{table}-{number:05}.parquet", [content], disk)
        share(temporary, 0o777)
        disk.sync_folder(temporary)
        disk.replace((temporary, path))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_exported(folder: Path) -> bool:
    return all(_FILE.fullmatch(file.name) for file in folder.iterdir())


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the contents of the tables of each part."""
    part = _Part()
    for group in _groups(lines):
        part.add(group)
        if part.is_full:
            yield part.contents()
            part = _Part()
    if part.cases:
        yield part.contents()


def _groups(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
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
    """Tables that grow by row groups."""

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
        for table, writer in zip(tables(), self._writers, strict=True):
            try:
                writer.write_table(_encoded(table, keys, rows), row_group_size=max(1, len(rows)))
            except (pyarrow.ArrowException, OverflowError) as error:
                reason = " ".join(str(error).split())[:200]
                raise OSError(
                    errno.EOVERFLOW, f"{table.name}: a value does not fit into its column ({reason})"
                ) from error
            below = next((column.key for column in table.columns if column.kind == "rows"), None)
            own = table.columns[0].key
            inner = [row[below] for row in rows] if below is not None else []
            keys = [(*key, row[own]) for key, row, held in zip(keys, rows, inner, strict=False) for _ in held]
            rows = [each for held in inner for each in held]

    def contents(self) -> list[bytes]:
        for writer in self._writers:
            writer.close()
        return [file.getvalue() for file in self._files]


@cache
def tables() -> tuple[Table, ...]:
    """Return the tables, each after the one that its rows belong to."""
    made: list[Table] = []
    keys: tuple[str, ...] = ()
    for name, (kind, renamed, rows) in zip(TABLES, _OF, strict=True):
        made.append(Table(name, keys, _columns(kind, renamed, rows)))
        keys = (*keys, *renamed.values())
    return tuple(made)


def _columns(kind: type[Struct], renamed: Mapping[str, str], rows: str | None) -> tuple[Column, ...]:
    hints = get_type_hints(kind)
    return tuple(
        Column(name, name, "rows") if name == rows else _column(renamed.get(name, name), name, hints[name])
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


def _type(column: Column) -> pyarrow.DataType:
    import pyarrow

    match column.kind:
        case "struct":
            return pyarrow.struct([(each.name, _type(each)) for each in column.fields])
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
            fields.append((column.name, _type(column)))
    return pyarrow.schema(fields)


def _encoded(table: Table, keys: Sequence[tuple[Any, ...]], rows: Sequence[Mapping[str, Any]]) -> pyarrow.Table:
    import pyarrow

    columns: list[Sequence[Any]] = [[key[at] for key in keys] for at in range(len(table.keys))]
    for column in table.columns:
        values = [row.get(column.key) for row in rows]
        columns += _scores(values) if column.kind == "score" else [_cells(column, values)]
    schema = _schema(table)
    arrays = [pyarrow.array(cells, kind) for cells, kind in zip(columns, schema.types, strict=True)]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def _cells(column: Column, values: Sequence[Any]) -> list[Any]:
    match column.kind:
        case "json":
            return [None if value is None else to_json(value).decode() for value in values]
        case "rows":
            return [len(value) for value in values]
        case "number":
            return [None if value is None else float(value) for value in values]
        case "struct":
            return [None if value is None else _struct(column.fields, value) for value in values]
        case _:
            return list(values)


def _struct(fields: Sequence[Column], value: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: _cells(each, [value.get(each.key)])[0] for each in fields}


def _scores(values: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the three columns of scores."""
    yield [_number(value) for value in values]
    yield [value if isinstance(value, str) else None for value in values]
    yield [to_json(value).decode() if isinstance(value, int) else None for value in values]


def _number(score: Any) -> float | None:
    if score is not None and not isinstance(score, str):
        # A number beyond all doubles is in the column of JSON alone.
        with suppress(OverflowError):
            return float(score)
    return None
