"""The tables of a record in Parquet, derived from the values that a record is made of."""

from __future__ import annotations

import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, to_builtins

from holodeck_action.results.evaluation import Evaluation
from holodeck_action.results.record import CaseRecord, TrialRecord, TurnRecord
from holodeck_action.results.serialization import omitted

Kind = Literal["text", "integer", "number", "boolean", "texts", "struct", "score", "json", "rows"]
_SCALARS: Mapping[object, Kind] = {str: "text", int: "integer", float: "number", bool: "boolean"}


class Column(Struct, frozen=True):
    """A column, or a field of a struct.

    Attributes:
        name: in Parquet.
        key: in the JSON of a results file.
        kind: `text`, `integer` (64 bits), `number` (double), `boolean`, `texts` (a list), `struct`, `json` (JSON as
            text), `score` (three columns, see `tables`), or `rows`: how many rows of the next table belong to
            this one.
        left_out: whether JSON leaves it out where nothing is told.
        fields: those of a struct.
    """

    name: str
    key: str
    kind: Kind
    left_out: bool = False
    fields: tuple[Column, ...] = ()


class Table(Struct, frozen=True):
    """A table: `keys` are columns of the tables above it, by which it is joined with them."""

    name: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]


TABLES = ("cases", "trials", "turns", "evaluations")
_OF: tuple[tuple[type[Struct], dict[str, str], str | None], ...] = (
    (CaseRecord, {"id": "case"}, "trials"),
    (TrialRecord, {"index": "trial"}, "turns"),
    (TurnRecord, {"index": "turn"}, "evaluations"),
    (Evaluation, {}, None),
)
"""Of each table: what a row is, what its key is called, and the field that holds the rows of the next one."""


@cache
def tables() -> tuple[Table, ...]:
    """Return the tables, each after the one that its rows belong to."""
    made: list[Table] = []
    keys: tuple[str, ...] = ()
    for name, (kind, renamed, rows) in zip(TABLES, _OF, strict=True):
        made.append(Table(name, keys, _columns(kind, renamed, rows)))
        keys = (*keys, *renamed.values())
    return tuple(made)


def specification() -> list[dict[str, Any]]:
    """Return the tables as JSON values."""
    return [to_builtins(table) for table in tables()]


def _columns(kind: type[Struct], renamed: Mapping[str, str], rows: str | None) -> tuple[Column, ...]:
    hints, left_out = get_type_hints(kind), omitted(kind)
    return tuple(
        Column(name, name, "rows")
        if name == rows
        else _column(renamed.get(name, name), name, hints[name], name in left_out)
        for name in kind.__struct_fields__
    )


_SCORE = get_type_hints(Evaluation)["score"]


def _column(name: str, key: str, hint: Any, left_out: bool) -> Column:
    if hint == _SCORE:
        return Column(name, key, "score", left_out)
    hint = _present(hint)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return Column(name, key, "struct", left_out, _columns(hint, {}, None))
    if hint == tuple[str, ...]:
        return Column(name, key, "texts", left_out)
    kind = "text" if get_origin(hint) is Literal else _SCALARS.get(hint, "json")
    return Column(name, key, kind, left_out)


def _present(hint: Any) -> Any:
    """Return what a value is where it is not None."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    (only,) = (each for each in get_args(hint) if each is not type(None))
    return only
