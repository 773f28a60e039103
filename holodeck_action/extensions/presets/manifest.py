"""What the extension `presets` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="presets",
    help="Preset evaluators: named sets of judged metrics.",
    needs=("deepeval",),
)
