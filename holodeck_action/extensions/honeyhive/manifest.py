"""The manifest of the extension `honeyhive`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Document, Extension, Format

EXTENSION = Extension(
    name="honeyhive",
    help="Results in HoneyHive's data model.",
    needs=(
        "calibration",
        "history",
    ),
    formats=(
        Format(
            name="honeyhive",
            help="HoneyHive's data model",
            write="holodeck_action.extensions.honeyhive.export:write_honeyhive",
            options="holodeck_action.extensions.honeyhive.export:OPTIONS",
        ),
    ),
    documents=(
        Document(name="honeyhive", schema="holodeck_action.extensions.honeyhive.schemas:honeyhive"),
        Document(name="evaluation-batch", schema="holodeck_action.extensions.honeyhive.schemas:evaluation_batch"),
        Document(
            name="multi-evaluation-result",
            schema="holodeck_action.extensions.honeyhive.schemas:multi_evaluation_result",
        ),
    ),
)
