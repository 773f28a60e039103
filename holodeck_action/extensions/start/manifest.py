"""The manifest of the extension `start`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="start",
    help="The first suite of a repository, for the agent that it has.",
    needs=("importers",),
    commands=(
        Command(
            name="init",
            help="Find the agent in DIR (default: here), and write the files that DIR lacks: suite, policy, workflow.",
            to="holodeck_action.extensions.start.command:init",
            group="Start",
        ),
    ),
)
