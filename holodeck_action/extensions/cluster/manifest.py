"""What the extension `cluster` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="cluster",
    help="Trials on the workers of a Dask cluster.",
)
