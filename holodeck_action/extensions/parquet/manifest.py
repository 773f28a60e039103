"""What the extension `parquet` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Format

EXTENSION = Extension(
    name="parquet",
    help="Results as Parquet tables.",
    formats=(
        Format(name="parquet", help="Parquet tables", write="holodeck_action.extensions.parquet.export:write_parquet"),
    ),
)
