"""Conversion of Excel files to Markdown tables (imported in the worker process only)."""

from __future__ import annotations

import datetime
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import openpyxl
from openpyxl.utils import range_boundaries

from holodeck_action.targets.documents.kinds import UnreadableError, check_office, open_document
from holodeck_action.text.plain import cut

_CELLS = re.compile(r"[A-Z]{1,3}[0-9]{1,7}(:[A-Z]{1,3}[0-9]{1,7})?|[A-Z]{1,3}:[A-Z]{1,3}|[0-9]{1,7}:[0-9]{1,7}")
_MOST_NAMED = 20
"""Maximum number of sheets named in a message."""


def convert_excel(path: str, roots: Sequence[str] | None, sheet: str | None, cells: str | None) -> str:
    """Return the cells of a .xlsx file as Markdown tables with the first row as header; blank rows are omitted.

    Args:
        path: path of the file.
        roots: folders of which one must contain the file; None if there is no restriction.
        sheet: name of a sheet. If it is None, all sheets are converted, each under its name, or only the first sheet if
            `cells` is given.
        cells: a range such as `A1:C10`, `A:C`, `1:5` or `B2`; None to convert all cells.

    Raises:
        UnreadableError: the sheet or range does not exist or is empty, or a formula has no stored value.
    """
    bounds = None if cells is None else _parse_bounds(cells)
    with open_document(path, roots) as file:
        check_office(file, "excel")
        data = file.read()
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=False)
    names = [worksheet.title for worksheet in book.worksheets]
    if sheet is not None and sheet not in names:
        more = ", …" if len(names) > _MOST_NAMED else ""
        raise UnreadableError(
            f"there is no sheet {cut(repr(sheet), 80)} (it has: {', '.join(names[:_MOST_NAMED])}{more})"
        )
    chosen = names if sheet is None and cells is None else [sheet if sheet is not None else names[0]]
    tables = {name: list(_rows(book[name], formulas[name], bounds)) for name in chosen}
    if not any(tables.values()):
        raise UnreadableError(f"there is nothing in {'it' if cells is None else cells}")
    if len(chosen) == 1:
        return _format_table(tables[chosen[0]])
    return "\n\n".join(f"## {name}\n\n{_format_table(rows)}" for name, rows in tables.items() if rows)


def _parse_bounds(cells: str) -> dict[str, int | None]:
    plain = cells.replace("$", "").strip().upper()
    try:
        if _CELLS.fullmatch(plain) is None:
            raise ValueError(plain)
        left, top, right, bottom = range_boundaries(plain)
    except ValueError:
        raise UnreadableError(f"{cut(repr(cells), 80)} is not a range of cells; give one such as A1:C10") from None
    return {"min_col": left, "min_row": top, "max_col": right, "max_row": bottom}


def _rows(values: Any, formulas: Any, bounds: dict[str, int | None] | None) -> Iterator[list[str]]:
    """Yield the rows that are not blank, each as a list of strings."""
    for worksheet in (values, formulas):
        # Some programs write wrong sizes.
        worksheet.reset_dimensions()
    pairs = zip(values.iter_rows(**bounds or {}), formulas.iter_rows(**bounds or {}), strict=True)
    for cells, formula_cells in pairs:
        for cell, formula in zip(cells, formula_cells, strict=True):
            if cell.value is None and formula.value is not None:
                raise UnreadableError(
                    f"the formula in {formula.coordinate} has no stored value; save the file in a spreadsheet program"
                )
        texts = [_cell_text(cell.value) for cell in cells]
        if any(texts):
            yield texts


def _cell_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return " ".join(str(value).replace("|", "\\|").split())


def _format_table(rows: Iterable[list[str]]) -> str:
    found = list(rows)
    width = max(max((at + 1 for at, text in enumerate(row) if text), default=0) for row in found)
    padded = [(row + [""] * width)[:width] for row in found]
    padded.insert(1, ["---"] * width)
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)
