"""What tables of cases are in Parquet (imported in a process of its own only)."""

from __future__ import annotations

from typing import Any

import pyarrow

Spec = dict[str, Any]

_TYPES = {
    "text": pyarrow.string(),
    "integer": pyarrow.int64(),
    "number": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "texts": pyarrow.list_(pyarrow.string()),
    "json": pyarrow.string(),
    "rows": pyarrow.int64(),
}
SCORE = {"": pyarrow.float64(), "_category": pyarrow.string(), "_json": pyarrow.string()}
"""Columns of a score by the end of their names: the number, the category, and what is a whole number or true or false
as JSON has it.
"""


class TableError(Exception):
    """What was given cannot be written, or is no table of cases; the message is a clause about it."""


def type_of(column: Spec) -> pyarrow.DataType:
    """Return the type of a column."""
    if column["kind"] == "struct":
        return pyarrow.struct([(each["name"], type_of(each)) for each in column["fields"]])
    return _TYPES[column["kind"]]


def schema_of(table: Spec) -> pyarrow.Schema:
    """Return the columns of a table."""
    fields = [(name, pyarrow.int64() if name != "case" else pyarrow.string()) for name in table["keys"]]
    for column in table["columns"]:
        if column["kind"] == "score":
            fields += [(column["name"] + end, kind) for end, kind in SCORE.items()]
        else:
            fields.append((column["name"], type_of(column)))
    return pyarrow.schema(fields)


def said(error: Exception) -> str:
    """Return what an error says, on one line."""
    return " ".join(str(error).split())[:200]
