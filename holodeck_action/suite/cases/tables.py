"""Cases from tables: CSV and TSV with the position of each cell, and rows of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from holodeck_action.suite.cases.columns import ColumnMap, FieldPath, mark_json, set_nested
from holodeck_action.suite.errors import Problem, SourceMark, quoted
from holodeck_action.suite.yaml.document import MarkedMap
from holodeck_action.text.foreign import Foreign, ForeignError
from holodeck_action.text.json_values import DuplicateKeyError, kind_of, parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern

_REST = r"(\r\n|\n|\r|\Z|{0})"
_CELLS = {
    delimiter: lazy_pattern(
        rf'(?:"((?:[^"]++|"")*+)"|([^"{delimiter}\r\n][^{delimiter}\r\n]*|)){_REST.format(delimiter)}'
    )
    for delimiter in (",", "\t")
}
_BREAK = lazy_pattern(r"\r\n|\n|\r")
MOST_PROBLEMS = 1_000
"""Number of problems after which the rows of a table are not read further."""

Cell = tuple[str, int, int]
"""Content of a cell, its line and its column."""


class TableError(Exception):
    """A table cannot be read further; `problem` has the position and the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def table_text(data: bytes, file: str) -> str:
    """Return a file's text.

    Raises:
        TableError: the file is not UTF-8, or contains a NUL character.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise TableError(Problem(SourceMark(file, 1, 1), "", "is UTF-16 text: save the file as UTF-8"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        raise TableError(
            Problem(SourceMark(file, *_end_position(before)), "", "is not UTF-8 text: save the file as UTF-8")
        ) from None
    if "\0" in text:
        place = _end_position(text[: text.index("\0")])
        raise TableError(Problem(SourceMark(file, *place), "", "holds a NUL character: save the file as UTF-8 text"))
    return text


def delimited_cases(text: str, delimiter: str, columns: ColumnMap) -> Iterator[MarkedMap]:
    """Yield a case for each row of a table with a header (RFC 4180); rows without text are skipped.

    Args:
        text: the table.
        delimiter: comma or tab.
        columns: maps columns to fields; receives problems of columns and cells.

    Raises:
        TableError: the table has no header, or a quote is not closed, so that the end of the row is unknown.
    """
    rows = _split_rows(text, columns.file, delimiter)
    header = next(rows, None)
    if header is None:
        raise TableError(Problem(columns.mark(1, 1), "", "is empty (required: a header line with columns)"))
    if len(header) == 1 and delimiter == "," and (";" in header[0][0] or "\t" in header[0][0]):
        message = (
            "has one column, whose name contains other separators: save it with commas, or with tabs as a .tsv file"
        )
        raise TableError(Problem(columns.mark(*header[0][1:]), "", message))
    places = _header_fields(header, columns)
    unnamed = {at for at, cell in enumerate(header) if not cell[0].strip()}
    for row in rows:
        if not any(cell[0] for cell in row):
            continue
        if len(row) != len(header):
            _add_row_problem(_width_problem(row, [cell[0] for cell in header], columns), columns)
            continue
        for at in [at for at in unnamed if row[at][0]]:
            unnamed.remove(at)
            message = f"the header of column {at + 1} is empty: name each column"
            columns.problems.append(Problem(columns.mark(*header[at][1:]), "", message))
        yield _case_from_row(row, places, columns)


def _add_row_problem(problem: Problem, columns: ColumnMap) -> None:
    columns.problems.append(problem)
    if len(columns.problems) > MOST_PROBLEMS:
        message = f"the rest is not read after {MOST_PROBLEMS:,} problems: check the separators, quotes and line ends"
        raise TableError(Problem(problem.mark, "", message))


def _header_fields(header: Sequence[Cell], columns: ColumnMap) -> list[FieldPath | None]:
    places: list[FieldPath | None] = []
    seen: dict[str, int] = {}
    for number, (name, line, column) in enumerate(header, start=1):
        mark = columns.mark(line, column)
        if not name.strip():
            places.append(None)
            continue
        if name in seen:
            message = f"the header names the column {quoted(name)} twice (first in column {seen[name]})"
            columns.problems.append(Problem(mark, "", message))
            places.append(None)
            continue
        seen[name] = column if columns.sheet else number
        places.append(columns.field_of(name, mark))
    return places


def _case_from_row(row: Sequence[Cell], places: Sequence[FieldPath | None], columns: ColumnMap) -> MarkedMap:
    case = MarkedMap.at(*row[0][1:])
    for (text, line, column), place in zip(row, places, strict=True):
        if place is None or not text:
            continue
        value = columns.read_cell(place, text, line, column)
        if value is None:
            continue
        set_nested(case, place, value, (line, column, line, column))
    return case


def _split_rows(text: str, file: str, delimiter: str) -> Iterator[list[Cell]]:
    cell = _CELLS[delimiter]
    position, line, start, end = 0, 1, 0, len(text)
    row: list[Cell] = []
    while position < end or row:
        found = cell.match(text, position)
        if found is None:
            raise TableError(_quote_problem(text, position, SourceMark(file, line, position - start + 1), delimiter))
        inner, plain, stop = found.groups()
        row.append((plain if inner is None else inner.replace('""', '"'), line, position - start + 1))
        if inner is not None:
            for broken in _BREAK.finditer(text, position, found.start(3)):
                line, start = line + 1, broken.end()
        position = found.end()
        if stop != delimiter:
            yield row
            row, line, start = [], line + 1, position


def _quote_problem(text: str, position: int, mark: SourceMark, delimiter: str) -> Problem:
    closed = re.compile(r'"(?:[^"]++|"")*+"').match(text, position)
    separator = "comma" if delimiter == "," else "tab"
    message = (
        "the quote of this cell is never closed: write a quote inside of a quoted cell twice"
        if closed is None
        else f"text follows the closing quote of this cell (allowed: a {separator} or the end of the line); "
        "write a quote inside of a quoted cell twice"
    )
    return Problem(mark, "", message)


def _width_problem(row: Sequence[Cell], header: Sequence[str], columns: ColumnMap) -> Problem:
    count = f"the row has {len(row)} cell{'' if len(row) == 1 else 's'}, the header {len(header)}"
    if len(row) > len(header):
        message = f"{count}: put text that contains the separator in quotes"
        return Problem(columns.mark(*row[len(header)][1:]), "", message)
    missing = quoted(header[len(row)])
    return Problem(columns.mark(*row[0][1:]), "", f"{count}: {missing} is missing; leave cells empty instead")


def json_line_cases(lines: Iterable[bytes], columns: ColumnMap) -> Iterator[MarkedMap]:
    """Yield a case for each line of JSON Lines that is not blank.

    Args:
        lines: lines of the file in UTF-8.
        columns: maps keys to fields; receives problems of lines and keys.

    Raises:
        TableError: the first line is not UTF-8, or holds a NUL character.
    """
    for number, line in enumerate(lines, start=1):
        text = table_text(line, columns.file) if number == 1 else line.decode("utf-8", "surrogateescape")
        if text.isspace() or not text:
            continue
        value, message = _parse_line(text)
        if message:
            _add_row_problem(Problem(columns.mark(number, 1), "", message), columns)
        else:
            yield columns.case_from_row(mark_json(value, number, 1))


def _parse_line(text: str) -> tuple[Any, str]:
    try:
        value = parse_json(text.rstrip("\r\n"), unique_keys=True)
    except DuplicateKeyError as error:
        return None, f"the key {quoted(str(error))} occurs twice in one object"
    except ValueError as error:
        return None, f"the line is not valid JSON: {error} (required: one object on each line)"
    if not isinstance(value, dict):
        return None, f"the line is {kind_of(value)}, not an object (required: one object on each line)"
    try:
        if "\\u" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None, "the line holds bytes that are not UTF-8, or half of a surrogate pair: save the file as UTF-8"
    return value, ""


def row_cases(lines: Iterable[bytes], columns: ColumnMap) -> Iterator[MarkedMap]:
    """Yield a case for each row of a source without text lines, such as a Parquet file; `lines` has each row as JSON.

    In positions, the line is the number of the row, and the column is 0.
    """
    for number, line in enumerate(lines, start=1):
        try:
            row = Foreign(line).json_object()
        except ForeignError as error:
            columns.problems.append(Problem(columns.mark(number, 0), "", f"the row {error}"))
        else:
            yield columns.case_from_row(mark_json(row, number, 0))


def sheet_cases(lines: Iterable[bytes], columns: ColumnMap) -> Iterator[MarkedMap]:
    """Yield a case for each row of a sheet below its header; `lines` are the rows as `Table.sheets` describes them.

    In positions, the line is the number of the row, and the column is that of the cell, or 0 for a whole row.
    """
    rows = (Foreign(line).json_object() for line in lines)
    header = next(rows)
    columns.sheet, top = header["sheet"], header["row"]
    names = [cell for cell in _sheet_cells(header) if cell[0].strip()]
    places = dict(zip((column for _, _, column in names), _header_fields(names, columns), strict=True))
    for column, message in _cell_problems(header):
        places[column] = None
        columns.problems.append(Problem(columns.mark(top, column), "", message))
    for row in rows:
        cells = _sheet_cells(row)
        for _, _, column in cells:
            if column not in places:
                places[column] = None
                mark = columns.mark(top, column)
                columns.problems.append(Problem(mark, "", "the header of this column is empty: name each column"))
        for column, message in _cell_problems(row):
            if places.get(column) is not None:
                columns.problems.append(Problem(columns.mark(row["row"], column), "", message))
        if cells:
            case = _case_from_row(cells, [places[column] for _, _, column in cells], columns)
            case.line, case.column = row["row"], 0
            yield case


def _sheet_cells(row: dict[str, Any]) -> list[Cell]:
    return [(text, row["row"], int(column)) for column, text in row["cells"].items()]


def _cell_problems(row: dict[str, Any]) -> list[tuple[int, str]]:
    return [(int(column), message) for column, message in row["problems"].items()]


def _end_position(text: str) -> tuple[int, int]:
    lines = _BREAK.split(text)
    return len(lines), len(lines[-1]) + 1
