"""Reads cases from Excel files. Import this module only in a process with limits on time and memory."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from holodeck_action.targets.documents.excel import MergedCells, Workbook, cell_text, lacks_value
from holodeck_action.targets.documents.kinds import UnreadableError
from holodeck_action.workers.code_errors import CallError

MOST_ROWS = 10_000
"""Maximum number of cases in a sheet."""


def read_rows(path: str, sheet: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield a sheet's rows that are not empty, in the form of `Table.sheets`; the first one is the header.

    Raises:
        CallError: the file is not a readable .xlsx file, or the sheet does not exist, is empty or has too many rows.
    """
    try:
        yield from _rows(path, sheet)
    except UnreadableError as error:
        raise CallError("not_excel", str(error)) from None
    except CallError:
        raise
    except Exception as error:
        # The library raises what its parts raise: errors of XML, of archives, of numbers.
        words = f"{type(error).__name__}: {error}"
        raise CallError("not_excel", "it cannot be read as an Excel file: ", words) from error


def _rows(path: str, sheet: str | None) -> Iterator[dict[str, Any]]:
    book = Workbook(path, None)
    names = book.sheet_names(sheet)
    if not names:
        raise UnreadableError("it has no sheet with cells")
    name = names[0] if sheet is None else sheet
    merged = _MergedColumns(book.merged_cells(name))
    found = -1
    for number, cells in enumerate(book.rows(name), start=1):
        texts: dict[str, str] = {}
        problems = merged.problems(number, is_header=found < 0)
        for column, (cell, formula) in enumerate(cells, start=1):
            problem = _problem(cell, formula)
            if problem:
                problems[str(column)] = problem
            elif text := _text(cell.value):
                texts[str(column)] = text
        if texts or problems:
            found += 1
            merged.fill(number, texts)
            if found > MOST_ROWS:
                raise UnreadableError(f"the sheet {name} has more than {MOST_ROWS:,} rows: save it as .csv")
            yield {"sheet": name, "row": number, "cells": texts, "problems": problems}
    if found < 0:
        raise UnreadableError(f"the sheet {name} is empty (required: a row with the names of the columns)")


class _MergedColumns:
    """Gives each row the value of the merged cells that it is part of."""

    def __init__(self, ranges: Sequence[MergedCells]) -> None:
        self._ranges = sorted(ranges, key=lambda each: each.first_row)
        self._values: dict[str, str] = {}

    def _of_row(self, row: int) -> list[MergedCells]:
        return [each for each in self._ranges if each.first_row <= row <= each.last_row]

    def problems(self, row: int, *, is_header: bool) -> dict[str, str]:
        """Return, by column, why merged cells cannot be used: they belong to several columns, or to the header and
        rows below it."""
        return {
            str(each.first_column): f"the cells {each.name} are merged: separate them, and give each its own value"
            for each in self._of_row(row)
            if each.first_row == row
            and (each.first_column < each.last_column or (is_header and each.first_row < each.last_row))
        }

    def fill(self, row: int, texts: dict[str, str]) -> None:
        """Add the values of merged cells to a row's texts."""
        for each in self._of_row(row):
            column = str(each.first_column)
            if each.first_row == row:
                self._values[each.name] = texts.get(column, "")
            elif value := self._values.get(each.name):
                texts.setdefault(column, value)


def _problem(cell: Any, formula: Any) -> str:
    """Return the reason why a cell's value cannot be used; empty if the value is valid, or if the cell is empty."""
    if lacks_value(cell, formula):
        return "the formula has no stored value: open the file in a spreadsheet program and save it"
    if cell.data_type == "e":
        return f"the cell has the error {cell.value}: correct it"
    return ""


def _text(value: Any) -> str:
    if isinstance(value, datetime.datetime) and value.time() != datetime.time():
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return cell_text(value)
