"""The manifest of the extension `race`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Document, Extension, StepCommand

_HERE = "holodeck_action.extensions.race"

EXTENSION = Extension(
    name="race",
    help="Several variants of a suite side by side: those that cannot be the best are dropped early.",
    commands=(
        Command(
            name="race",
            help="Race variants of SUITE (default: agent.yaml), and drop those that cannot be the best.",
            to=f"{_HERE}.command:race",
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
    documents=(Document("race", f"{_HERE}.schemas:race"),),
)
