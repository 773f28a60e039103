"""The manifest of the extension `calibration`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Cards, Command, Extension

EXTENSION = Extension(
    name="calibration",
    help="Judge cards: how a judge's verdicts compare with human labels.",
    cards=Cards(
        read="holodeck_action.extensions.calibration.card_files:suite_cards",
        summarise="holodeck_action.extensions.calibration.card_files:summarise_card",
    ),
    commands=(
        Command(
            name="calibrate",
            help="Compare a judge with the human labels in LABELS.csv, and report how well they agree.",
            to="holodeck_action.extensions.calibration.command:calibrate",
            group="Judge",
        ),
    ),
)
