"""The manifest of the extension `doctor`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="doctor",
    help="What this installation, its job and its suites have and lack.",
    commands=(
        Command(
            name="doctor",
            help="Show what this installation and its job have, and what SUITEs need to run here.",
            to="holodeck_action.extensions.doctor.command:doctor",
            group="Repository",
        ),
    ),
)
