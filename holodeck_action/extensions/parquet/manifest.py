"""The manifest of the extension `parquet`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Format, Table

EXTENSION = Extension(
    name="parquet",
    help="Results as Parquet tables, and cases from them.",
    tables=(
        Table(".parquet", "holodeck_action.extensions.parquet.parquet:read_rows", package="pyarrow", extra="parquet"),
    ),
    formats=(
        Format(name="parquet", help="Parquet tables", write="holodeck_action.extensions.parquet.export:write_parquet"),
    ),
)
