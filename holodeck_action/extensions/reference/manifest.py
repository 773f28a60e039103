"""The manifest of the extension `reference`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="reference",
    help="Text scores computed again with the libraries that define them.",
    needs=("report_formats",),
    commands=(
        Command(
            name="verify",
            help=(
                "Recompute the text scores of RESULTS (results.json files, or folders of them) with the reference "
                "libraries."
            ),
            to="holodeck_action.extensions.reference.command:verify",
            group="Judge",
        ),
    ),
)
