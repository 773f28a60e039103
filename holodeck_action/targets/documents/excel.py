"""Conversion of Excel files to Markdown tables (used inside worker processes only)."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import openpyxl
from openpyxl.utils import range_boundaries

from holodeck_action.targets.documents.kinds import UnreadableError, check_office, has_part, open_document
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut

_CELLS = lazy_pattern(r"[A-Z]{1,3}[0-9]{1,7}(:[A-Z]{1,3}[0-9]{1,7})?|[A-Z]{1,3}:[A-Z]{1,3}|[0-9]{1,7}:[0-9]{1,7}")
_MOST_NAMED = 20
"""Maximum number of sheets named in a message."""


def convert_excel(path: str, roots: Sequence[str] | None, sheet: str | None, cells: str | None) -> str:
    """Return the cells of a .xlsx file as Markdown tables. The first row is the header; blank rows are omitted.

    Args:
        path: path of the file.
        roots: folders of which one must contain the file; None if there is no restriction.
        sheet: name of the sheet to convert. If it is None, all sheets are converted, each with a heading, or only the
            first sheet if `cells` is given.
        cells: a range such as `A1:C10`, `A:C`, `1:5` or `B2`; None to convert all cells.

    Raises:
        UnreadableError: the sheet or range does not exist or is empty, or a formula has no stored value.
    """
    bounds = None if cells is None else _parse_bounds(cells)
    book = Workbook(path, roots)
    names = book.sheet_names(sheet)
    chosen = names if sheet is None and cells is None else [sheet if sheet is not None else names[0]]
    tables = {name: list(_rows(book, name, bounds)) for name in chosen}
    if not any(tables.values()):
        raise UnreadableError(f"{'it' if cells is None else cells} has no cell with a value")
    if len(chosen) == 1:
        return _format_table(tables[chosen[0]])
    return "\n\n".join(f"## {name}\n\n{_format_table(rows)}" for name, rows in tables.items() if rows)


class MergedCells(NamedTuple):
    """A range of merged cells: its name, such as `B2:B4`, and its first and last rows and columns, from 1."""

    name: str
    first_row: int
    last_row: int
    first_column: int
    last_column: int


class Workbook:
    """A .xlsx file with the values and the formulas of its cells."""

    def __init__(self, path: str, roots: Sequence[str] | None) -> None:
        """Open a file, which must be in one of the folders `roots`, unless `roots` is None.

        Raises:
            UnreadableError: the file is not a .xlsx file, is too large, or is outside the folders.
        """
        with open_document(path, roots) as file:
            check_office(file, "excel")
            self._data = data = file.read()
        self._values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        self._formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=False)

    def sheet_names(self, sheet: str | None) -> list[str]:
        """Return the names of all sheets, after checking that `sheet` is one of them or None.

        Raises:
            UnreadableError: no sheet has the name `sheet`.
        """
        names = [worksheet.title for worksheet in self._values.worksheets]
        if sheet is not None and sheet not in names:
            more = ", …" if len(names) > _MOST_NAMED else ""
            raise UnreadableError(
                f"there is no sheet {cut(repr(sheet), 80)} (it has: {', '.join(names[:_MOST_NAMED])}{more})"
            )
        return names

    def merged_cells(self, sheet: str) -> list[MergedCells]:
        """Return the ranges of merged cells of a sheet; only the first cell of a range has a value in `rows`."""
        if not has_part(io.BytesIO(self._data), "xl/worksheets/", b"<mergeCell "):
            # Such sheets are loaded a second time.
            return []
        book = openpyxl.load_workbook(io.BytesIO(self._data), data_only=True)
        return [
            MergedCells(str(found), found.min_row, found.max_row, found.min_col, found.max_col)
            for found in book[sheet].merged_cells.ranges
        ]

    def rows(self, sheet: str, bounds: dict[str, int | None] | None = None) -> Iterator[list[tuple[Any, Any]]]:
        """Yield the rows of a sheet in order. A row is a list of pairs: a cell with its stored value, and the same cell
        with its formula.

        Args:
            sheet: name of the sheet.
            bounds: the range of cells, as keyword arguments of `Worksheet.iter_rows`; None for all cells.
        """
        worksheets = self._values[sheet], self._formulas[sheet]
        for worksheet in worksheets:
            # Some programs write wrong sizes of sheets.
            worksheet.reset_dimensions()
        for cells in zip(*(worksheet.iter_rows(**bounds or {}) for worksheet in worksheets), strict=True):
            yield [*zip(*cells, strict=True)]


def lacks_value(cell: Any, formula: Any) -> bool:
    """Return whether a cell has a formula whose value is not stored in the file."""
    # A formula with an empty string as value has the data type "str".
    return cell.value is None and formula.value is not None and cell.data_type != "str"


def _parse_bounds(cells: str) -> dict[str, int | None]:
    plain = cells.replace("$", "").strip().upper()
    try:
        if _CELLS.fullmatch(plain) is None:
            raise ValueError(plain)
        left, top, right, bottom = range_boundaries(plain)
    except ValueError:
        raise UnreadableError(f"{cut(repr(cells), 80)} is not a range of cells; give one such as A1:C10") from None
    return {"min_col": left, "min_row": top, "max_col": right, "max_row": bottom}


def _rows(book: Workbook, sheet: str, bounds: dict[str, int | None] | None) -> Iterator[list[str]]:
    """Yield the rows that are not blank, each as a list of strings."""
    for cells in book.rows(sheet, bounds):
        for cell, formula in cells:
            if lacks_value(cell, formula):
                raise UnreadableError(
                    f"the formula in {formula.coordinate} has no stored value; save the file in a spreadsheet program"
                )
        texts = [" ".join(cell_text(cell.value).replace("|", "\\|").split()) for cell, _ in cells]
        if any(texts):
            yield texts


def cell_text(value: Any) -> str:
    """Return a value of a cell as text: whole numbers without a fraction, dates in ISO form."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case float():
            # Spreadsheet programs show 15 digits.
            return f"{value:.15g}"
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return str(value)


def _format_table(rows: Iterable[list[str]]) -> str:
    found = list(rows)
    width = max(max((at + 1 for at, text in enumerate(row) if text), default=0) for row in found)
    padded = [(row + [""] * width)[:width] for row in found]
    padded.insert(1, ["---"] * width)
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)
