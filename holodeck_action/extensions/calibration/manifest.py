"""What the extension `calibration` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension

EXTENSION = Extension(
    name="calibration",
    help="Judge cards: what a judge's verdicts are worth beside the labels of people.",
    commands=(
        Command(
            name="calibrate",
            help="Compare a judge with the labels of people in LABELS.csv, and report how well they agree.",
            to="holodeck_action.extensions.calibration.command:calibrate",
            group="Judge",
        ),
    ),
)
