"""Reads records from JSON, JSON Lines, CSV and TSV files. A record has an id, a text to search, and further fields."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.tools import VectorstoreTool
from holodeck_action.text.json_values import kind_of, parse_json
from holodeck_action.text.plain import excerpt

RECORD_SUFFIXES = frozenset((".json", ".jsonl", ".ndjson", ".csv", ".tsv"))
"""Suffixes of files with records."""

_DELIMITERS = ",;\t|"


class RecordError(ValueError):
    """A file of records is invalid; the message names the record."""


class Record(Struct, frozen=True):
    """One record of a file.

    Attributes:
        id: id of the record in the file.
        text: the text to embed.
        metadata: further fields by name, which the model receives after the text.
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_records(text: str, suffix: str, entry: VectorstoreTool) -> list[Record]:
    """Parse the records in the content of a file.

    Field names may be paths into nested objects, such as `details.title`. If `meta_fields` is not set, all other fields
    of a record are its metadata. If `record_path` is not set, a JSON file is a list of records. If `delimiter` is not
    set, it is detected from the first line of a CSV file; TSV files use tabs.

    Args:
        suffix: suffix of the file's name in lower case, one of `RECORD_SUFFIXES`.
        entry: a tool that sets `vector_field`; its settings name the fields of records.

    Raises:
        RecordError: the file is invalid, a record has no id or text, or no record has one of `meta_fields`.
    """
    try:
        rows = list(_read_rows(text, suffix, entry))
    except RecursionError:
        raise RecordError("it is nested too deeply") from None
    records = [_make_record(number, row, enclosing, entry) for number, (row, enclosing) in enumerate(rows, 1)]
    for name in entry.meta_fields or ():
        if records and not any(_find_field(name, (row, *enclosing)) for row, enclosing in rows):
            raise RecordError(f"no record has the field {quoted(name)} of meta_fields{_field_names_text(rows[0][0])}")
    return records


_Row = tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]
"""A record and its enclosing objects, innermost first."""


def _read_rows(text: str, suffix: str, entry: VectorstoreTool) -> Iterator[_Row]:
    if suffix in (".csv", ".tsv"):
        for row in _table_rows(text, "\t" if suffix == ".tsv" else delimiter_of(entry)):
            yield row, ()
        return
    path = entry.record_path.split(".") if entry.record_path else []
    if suffix == ".json":
        try:
            yield from _objects_at(parse_json(text), path, ())
        except ValueError as error:
            raise error if isinstance(error, RecordError) else RecordError(f"it is not JSON: {error}") from None
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield from _objects_at(parse_json(line), path, ())
            except ValueError as error:
                raise RecordError(f"line {number}: {error}") from None


def _objects_at(value: Any, path: Sequence[str], enclosing: tuple[Mapping[str, Any], ...]) -> Iterator[_Row]:
    """Yield each object at the end of a path, with its enclosing objects; all items of a list on the path are followed.

    Raises:
        RecordError: there is no object at the end of the path.
    """
    if isinstance(value, list):
        for item in value:
            yield from _objects_at(item, path, enclosing)
    elif not isinstance(value, dict):
        raise RecordError(f"a record must be an object, not {kind_of(value)}")
    elif not path:
        yield value, enclosing
    elif path[0] not in value:
        raise RecordError(f"record_path: there is no key {quoted(path[0])}{_field_names_text(value)}")
    else:
        yield from _objects_at(value[path[0]], path[1:], (value, *enclosing))


def delimiter_of(entry: VectorstoreTool) -> str | None:
    """Return the delimiter for CSV files; None if it is to be detected."""
    return "\t" if entry.delimiter == "\\t" else entry.delimiter


def _vector_fields(entry: VectorstoreTool) -> list[str]:
    fields = entry.vector_field or []
    return [fields] if isinstance(fields, str) else fields


def _table_rows(text: str, delimiter: str | None) -> Iterator[dict[str, str]]:
    if delimiter is None:
        first = text.lstrip("\r\n").partition("\n")[0]
        delimiter = max(_DELIMITERS, key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if names is None:
                names = [cell.strip() for cell in cells]
                if len({*names}) < len(names):
                    raise RecordError("two columns have the same name")
                continue
            if len(cells) != len(names):
                raise RecordError(f"line {reader.line_num} has {len(cells)} cells, the first line {len(names)}")
            yield dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise RecordError(f"line {reader.line_num}: {error}") from None


def _make_record(
    number: int, row: Mapping[str, Any], enclosing: tuple[Mapping[str, Any], ...], entry: VectorstoreTool
) -> Record:
    texts = []
    for name in _vector_fields(entry):
        found = _find_field(name, (row,))
        if found is None:
            raise RecordError(f"record {number} has no field {quoted(name)} (vector_field){_field_names_text(row)}")
        if shown := _value_text(found[0]).strip():
            texts.append(shown)
    if not texts:
        raise RecordError(f"record {number} has no text in {' and '.join(map(quoted, _vector_fields(entry)))}")
    return Record(
        _record_id(number, row, str(entry.id_field)),
        entry.field_separator.join(texts),
        _record_metadata(row, enclosing, entry),
    )


def _record_id(number: int, row: Mapping[str, Any], name: str) -> str:
    found = _find_field(name, (row,))
    if found is None:
        raise RecordError(f"record {number} has no field {quoted(name)} (id_field){_field_names_text(row)}")
    value = found[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise RecordError(f"record {number}: its id must be a text or a number that is not blank")
    return str(value).strip()


def _record_metadata(
    row: Mapping[str, Any], enclosing: tuple[Mapping[str, Any], ...], entry: VectorstoreTool
) -> dict[str, Any]:
    if entry.meta_fields is None:
        taken = {*_vector_fields(entry), str(entry.id_field)}
        return {f"{entry.record_prefix or ''}{name}": row[name] for name in row if name not in taken}
    metadata = {}
    for name in entry.meta_fields:
        if own := _find_field(name, (row,)):
            metadata[f"{entry.record_prefix or ''}{name}"] = own[0]
        elif outer := _find_field(name, enclosing):
            metadata[f"{entry.meta_prefix or ''}{name}"] = outer[0]
    return metadata


def _find_field(name: str, objects: Sequence[Mapping[str, Any]]) -> tuple[Any] | None:
    """Return the field's value in the first object that has the field, as a 1-tuple; None if no object has it."""
    for value in objects:
        if name in value:
            return (value[name],)
        inner: Any = value
        for key in name.split("."):
            if not isinstance(inner, Mapping) or key not in inner:
                break
            inner = inner[key]
        else:
            return (inner,)
    return None


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def fields_text(metadata: Mapping[str, Any]) -> str:
    """Return fields as text for a model, one `name: value` per line; null and blank values are left out."""
    lines = ((name, _value_text(value).strip()) for name, value in metadata.items())
    return "\n".join(f"{name}: {text}" for name, text in lines if text)


def _field_names_text(row: Mapping[str, Any]) -> str:
    return f" (it has {excerpt(', '.join(map(str, row)), 150)})" if row else " (it is empty)"
