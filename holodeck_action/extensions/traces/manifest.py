"""The manifest of the extension `traces`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="traces",
    help="Conversations of production, judged as their traces tell them.",
    needs=("frameworks",),
)
