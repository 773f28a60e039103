"""The manifest of the extension `spreadsheets`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Table

EXTENSION = Extension(
    name="spreadsheets",
    help="Cases from sheets of Excel files.",
    tables=(
        Table(
            ".xlsx",
            "holodeck_action.extensions.spreadsheets.reader:read_rows",
            package="openpyxl",
            extra="files",
            sheets=True,
        ),
    ),
)
