"""What the extension `deepeval` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="deepeval",
    help="DeepEval's metrics, on our judges.",
    needs=("tracing",),
)
