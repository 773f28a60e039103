"""What the extension `gllm` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="gllm",
    help="The evaluators of gllm-evals by their own names.",
    needs=(
        "azure",
        "deepeval",
        "presets",
    ),
)
