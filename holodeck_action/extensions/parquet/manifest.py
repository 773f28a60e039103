"""What the extension `parquet` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="parquet",
    help="Results as Parquet tables.",
)
