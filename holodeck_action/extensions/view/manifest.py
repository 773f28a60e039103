"""The manifest of the extension `view`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="view",
    help="The pages of runs, served on this machine.",
    needs=("history",),
    commands=(
        Command(
            name="view",
            help=(
                "Serve the viewer's pages of RESULTS (results.json files, folders of them, histories) on this machine."
            ),
            to="holodeck_action.extensions.view.command:view",
            group="Look",
        ),
    ),
)
