"""The mapping of a table's columns to fields of a case, from the policy file's `columns`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from holodeck_action.suite.cases.expect import EXPECT
from holodeck_action.suite.errors import Problem, SourceMark, field_path, quoted
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.cases import TableCase
from holodeck_action.suite.synonyms import field_meant_by
from holodeck_action.suite.yaml.document import MarkedList, MarkedMap
from holodeck_action.suite.yaml.reading import Written
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

FieldPath = tuple[str, ...]
"""A field of a case: its name, followed by the keys inside it."""

OTHERS = "*"
"""The key of `columns` that stands for all columns that fill no field; its value is null."""
_FIELDS = tuple(TableCase.model_fields)
_AS_WRITTEN = frozenset([("id",), ("name",), ("input",), ("ground_truth",)])
"""Fields whose values are always text, as are those of checks of text."""
_NAMES: frozenset[FieldPath] = frozenset([("tags",), ("expected_tools",), ("expected_tools", "tools")])
"""Fields whose values can be names that are separated by commas."""
_OPENS_JSON = ("[", "{")

_FIELD = lazy_pattern(r"test_cases\[\d+\]\.([\w.]+)")
_UNKNOWN: FieldPath = ()


class ColumnMap:
    """Maps the columns of one file to fields of cases.

    Attributes:
        file: name of the file, as source positions show it.
        sheet: sheet of a spreadsheet; empty for other files.
        problems: problems of the columns and rows.
        seen: columns that the file has.
        broken: whether a column cannot be used.
    """

    def __init__(self, column_paths: Mapping[str, str | None], file: str, checks: Callable[[str], Written]) -> None:
        """Set the field of each column; nested keys are joined by dots, and a column whose field is None is ignored.

        `checks` returns how the value of a check is read, by its type.
        """
        self._checks = checks
        self.file = file
        self.sheet = ""
        self.problems: list[Problem] = []
        self.seen: set[str] = set()
        self.broken = False
        self._given = column_paths
        self._places: dict[str, FieldPath | None] = {}
        self._names: dict[FieldPath, str] = {}
        self._nested = {name[:at] for name in column_paths for at, char in enumerate(name) if char == "."}

    def field_of(self, column: str, mark: SourceMark) -> FieldPath | None:
        """Return the field that a column fills; None if the column is ignored, or unusable (which adds a problem)."""
        if column not in self._places:
            self.seen.add(column)
            self._places[column] = self._assign_field(column, mark)
        return self._places[column]

    def _assign_field(self, column: str, mark: SourceMark) -> FieldPath | None:
        field = self._given.get(column, column)
        if field is None:
            return None
        path = tuple(field.split("."))
        if path[0] not in _FIELDS:
            if OTHERS not in self._given:
                self._add_problem(mark, self._unknown_column(column, path[0]))
            return None
        for taken, other in self._names.items():
            if taken[: len(path)] == path[: len(taken)]:
                message = f"the columns {quoted(other)} and {quoted(column)} both fill {field_path(path)}"
                self._add_problem(mark, f"{message}: leave one out with null in columns")
                return None
        self._names[path] = column
        return path

    def _unknown_column(self, column: str, name: str) -> str:
        meant = field_meant_by(name)
        field = None if (meant,) in self._names else meant
        hint = did_you_mean(name, _FIELDS) or ("" if field else f" (allowed: {', '.join(_FIELDS)})")
        proposal = f"{json.dumps(column, ensure_ascii=False)}: {field or 'null'}"
        effect = ", or null to leave it out" if field else ", which leaves it out"
        return (
            f"the column {quoted(column)} is not a field of a case{hint}: map it in the policy file, such as "
            f'columns: {{{proposal}}}{effect}; "{OTHERS}": null leaves out all such columns'
        )

    def mark(self, line: int, column: int) -> SourceMark:
        """Return a position in the file."""
        return SourceMark(self.file, line, column, self.sheet)

    def _add_problem(self, mark: SourceMark, message: str) -> None:
        self.problems.append(Problem(mark, "", message))
        self.broken = True

    def name_of(self, path: FieldPath) -> str:
        """Return the column that fills a field; empty if there is none."""
        return next((name for taken, name in self._names.items() if taken == path[: len(taken)]), "")

    def read_cell(self, path: FieldPath, text: str, line: int, column: int) -> Any:
        """Return a cell's value: text, JSON, or a list of names. Invalid JSON adds a problem and gives None."""
        if self._is_text(path):
            return text
        if text.lstrip()[:1] in _OPENS_JSON:
            try:
                return mark_json(parse_json(text), line, column)
            except ValueError as error:
                message = f"{error} of the cell, which is not valid JSON (column {quoted(self.name_of(path))})"
                self.problems.append(Problem(self.mark(line, column), ".".join(path), message))
                return None
        if path in _NAMES:
            return mark_json([name for part in text.split(",") if (name := part.strip())], line, column)
        return text

    def _is_text(self, path: FieldPath) -> bool:
        return path in _AS_WRITTEN or (path[0] == EXPECT and len(path) == 2 and self._checks(path[1]) == "text")

    def case_from_row(self, row: MarkedMap) -> MarkedMap:
        """Return the case for a row of JSON; the values of the case have the positions of the row's values."""
        case = MarkedMap.at(row.line, row.column)
        self._copy_values(case, row, "")
        return case

    def _copy_values(self, case: MarkedMap, row: MarkedMap, prefix: str) -> None:
        for key, value in row.items():
            column = prefix + key
            if column in self._nested and isinstance(value, MarkedMap) and column not in self._given:
                self._copy_values(case, value, f"{column}.")
                continue
            path = self._places.get(column, _UNKNOWN)
            if path is _UNKNOWN:
                path = self.field_of(column, self.mark(*row.key_position(key)))
            if path is None or value is None:
                continue
            if isinstance(value, bool | int | float) and self._is_text(path):
                value = json.dumps(value)
            elif path in _NAMES and isinstance(value, str):
                value = self.read_cell(path, value, *row.value_position(key))
                if value is None:
                    continue
            set_nested(case, path, value, row.positions(key))

    def name_column(self, problem: Problem) -> Problem:
        """Return the problem of a field, with the column's name added if it differs from the field's name."""
        found = _FIELD.match(problem.field)
        if found is None:
            return problem
        name = self.name_of(tuple(found[1].split(".")))
        if name in ("", found[1]):
            return problem
        return replace(problem, message=f"{problem.message} (column {quoted(name)})")


def set_nested(case: MarkedMap, path: FieldPath, value: Any, positions: tuple[int, int, int, int]) -> None:
    """Set a value inside a case. Missing mappings are created with the position of the value; `positions` are those of
    the key and of the value."""
    case.marks.setdefault(path[0], positions)
    inner = case
    for part in path[:-1]:
        if part not in inner:
            inner[part] = MarkedMap.at(*positions[2:])
        inner = inner[part]
    inner[path[-1]] = value


def mark_json(value: Any, line: int, column: int) -> Any:
    """Return JSON data with the same position for all values."""
    if isinstance(value, dict):
        return MarkedMap.at(line, column, ((key, mark_json(item, line, column)) for key, item in value.items()))
    if isinstance(value, list):
        return MarkedList.at(line, column, (mark_json(item, line, column) for item in value))
    return value
