"""The manifest of the extension `race`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Document, Extension, StepCommand

_HERE = "holodeck_action.extensions.race"

EXTENSION = Extension(
    name="race",
    help="Several variants of a suite side by side, to find the best one, or better values of its settings.",
    commands=(
        Command(
            name="race",
            help="Race variants of SUITE (default: agent.yaml), and drop those that cannot be the best.",
            to=f"{_HERE}.command:race",
            group="Run",
        ),
        Command(
            name="optimize",
            help="Find better values of the numeric axes in evaluations.optimizer of SUITE (default: agent.yaml).",
            to=f"{_HERE}.optimize_command:optimize",
            group="Run",
        ),
    ),
    steps=(
        StepCommand(
            name="race",
            run=f"{_HERE}.step:race_in_step",
            inputs=("suite", "target", "output-dir", "cache", "max-cost-usd"),
            comment=True,
        ),
    ),
    documents=(Document("race", f"{_HERE}.schemas:race"), Document("optimize", f"{_HERE}.schemas:optimize")),
)
