"""The manifest of the extension `trace_cases`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="trace_cases",
    help="Cases made of conversations of production.",
    needs=("importers", "traces"),
    commands=(
        Command(
            name="cases",
            help="Write cases of conversations that happened.",
            to="holodeck_action.extensions.trace_cases.command:cases",
            group="Run",
        ),
    ),
)
