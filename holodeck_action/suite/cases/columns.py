"""Which field of a case each column of a table fills, as the policy file's `columns` has it."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holodeck_action.suite.errors import Problem, SourceMark, field_path, quoted
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.cases import CaseEntry
from holodeck_action.suite.yaml.document import PACKED, MarkedMap

FieldPath = tuple[str, ...]
"""A field of a case: its name, then the keys inside of it."""

_FIELDS = tuple(CaseEntry.model_fields)
AS_WRITTEN = ("name", "input", "ground_truth")
"""Fields whose values are text, however they look."""


_FIELD = re.compile(r"test_cases\[\d+\]\.([\w.]+)")
_UNKNOWN: FieldPath = ()


class ColumnMap:
    """The columns of one file.

    Attributes:
        problems: what is wrong with them, and with rows.
        seen: those that the file has.
        broken: whether one of them cannot be used.
    """

    def __init__(self, given: Mapping[str, str | None]) -> None:
        """Take the mapping: field by column, nested keys joined by dots; None leaves a column out."""
        self.problems: list[Problem] = []
        self.seen: set[str] = set()
        self.broken = False
        self._given = given
        self._places: dict[str, FieldPath | None] = {}
        self._names: dict[FieldPath, str] = {}
        self._nested = {name[:at] for name in given for at, char in enumerate(name) if char == "."}

    def place(self, column: str, mark: SourceMark) -> FieldPath | None:
        """Return the field that a column fills; None where it fills none, with a problem unless that is asked for."""
        if column not in self._places:
            self.seen.add(column)
            self._places[column] = self._find(column, mark)
        return self._places[column]

    def _find(self, column: str, mark: SourceMark) -> FieldPath | None:
        field = self._given.get(column, column)
        if field is None:
            return None
        path = tuple(field.split("."))
        if path[0] not in _FIELDS:
            guess = did_you_mean(path[0], _FIELDS) or f" (allowed: {', '.join(_FIELDS)})"
            message = (
                f"the column {quoted(column)} is no field of a case{guess}: say in the policy file which it fills, "
                f"such as columns: {{{json.dumps(column)}: input}}, or null to leave it out"
            )
            self._refuse(mark, message)
            return None
        for taken, other in self._names.items():
            if taken[: len(path)] == path[: len(taken)]:
                message = f"the columns {quoted(other)} and {quoted(column)} both fill {field_path(path)}"
                self._refuse(mark, f"{message}: leave one out with null in columns")
                return None
        self._names[path] = column
        return path

    def _refuse(self, mark: SourceMark, message: str) -> None:
        self.problems.append(Problem(mark, "", message))
        self.broken = True

    def name_of(self, path: FieldPath) -> str:
        """Return the column that fills a field; empty where none does."""
        return next((name for taken, name in self._names.items() if taken == path[: len(taken)]), "")

    def case(self, row: MarkedMap, file: str) -> MarkedMap:
        """Return the case that a row of JSON is, with positions of the row."""
        case = MarkedMap()
        case.line, case.column = row.line, row.column
        marks: list[int] = []
        self._take(case, row, "", file, marks)
        case.marks = array(PACKED, marks).tobytes()
        return case

    def _take(self, case: MarkedMap, row: MarkedMap, prefix: str, file: str, marks: list[int]) -> None:
        for key, value in row.items():
            column = prefix + key
            if column in self._nested and isinstance(value, MarkedMap) and column not in self._given:
                self._take(case, value, f"{column}.", file, marks)
                continue
            path = self._places.get(column, _UNKNOWN)
            if path is _UNKNOWN:
                path = self.place(column, SourceMark(file, *row.key_position(key)))
            if path is None or value is None:
                continue
            if path[0] in AS_WRITTEN and isinstance(value, bool | int | float):
                value = json.dumps(value)
            if len(path) == 1:
                case[path[0]] = value
            elif not put(case, path, value, row.value_position(key)):
                continue
            if row.marks:
                marks += row.entry(key)

    def named(self, problem: Problem) -> Problem:
        """Return the problem of a field, the column that fills it named where it has another name."""
        found = _FIELD.match(problem.field)
        if found is None:
            return problem
        name = self.name_of(tuple(found[1].split(".")))
        if name in ("", found[1]):
            return problem
        return replace(problem, message=f"{problem.message} (column {quoted(name)})")


def put(case: MarkedMap, path: FieldPath, value: Any, place: tuple[int, int]) -> bool:
    """Put a value into nested mappings of a case that stand at its place; tell whether the case got a new key."""
    new = path[0] not in case
    inner = case
    for part in path[:-1]:
        if part not in inner:
            made = MarkedMap.empty()
            made.line, made.column = place
            inner[part] = made
        inner = inner[part]
    inner[path[-1]] = value
    return new
