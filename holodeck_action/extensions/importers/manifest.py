"""The manifest of the extension `importers`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="importers",
    help="Import of suites from promptfoo, DeepEval, Inspect and skills.",
    commands=(
        Command(
            name="import",
            help="Convert FILE, a suite of PROGRAM, to agent.yaml with its policy file and graders.",
            to="holodeck_action.extensions.importers.command:import_",
            group="Start",
        ),
    ),
)
