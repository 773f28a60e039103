"""What the extension `knowledge` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="knowledge",
    help="Search in documents as a tool of the suite's own model.",
)
