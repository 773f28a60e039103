"""The manifest of the extension `importers`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="importers",
    help="Suites of promptfoo and DeepEval, written as ours.",
    commands=(
        Command(
            name="import",
            help="Write the suite in FILE, of another PROGRAM, as agent.yaml with its policy file and graders.",
            to="holodeck_action.extensions.importers.command:import_",
            group="Run",
        ),
    ),
)
