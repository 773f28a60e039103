"""What the extension `history` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Document, Extension

EXTENSION = Extension(
    name="history",
    help="Runs kept over time: trends, flaky cases, drift.",
    commands=(
        Command(
            name="history",
            help="Show what earlier runs tell together: trends, flaky cases, drift.",
            to="holodeck_action.extensions.history.command:history",
            group="Look",
        ),
    ),
    documents=(Document(name="history", schema="holodeck_action.extensions.history.schemas:history"),),
)
