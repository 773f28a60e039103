"""What the extension `honeyhive` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="honeyhive",
    help="Results in HoneyHive's data model.",
    needs=(
        "calibration",
        "history",
    ),
)
