"""What the extension `azure` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="azure",
    help="Azure AI Evaluation's metrics, on our judges.",
)
