"""What the extension `azure` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Library

EXTENSION = Extension(
    name="azure",
    help="Azure AI Evaluation's metrics, on our judges.",
    libraries=(Library(name="azure", measuring="holodeck_action.extensions.azure.measuring"),),
)
