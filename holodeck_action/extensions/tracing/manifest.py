"""What the extension `tracing` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="tracing",
    help="Traces of a run for OpenTelemetry.",
)
