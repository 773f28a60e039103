"""What the extension `frameworks` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="frameworks",
    help="Agents of frameworks, and the spans that agents send.",
)
