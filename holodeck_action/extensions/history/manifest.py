"""The manifest of the extension `history`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Document, Extension, HistoryFunctions

EXTENSION = Extension(
    name="history",
    help="Runs kept over time: trends, flaky cases, drift.",
    commands=(
        Command(
            name="history",
            help="Show earlier runs: trends, flaky cases, drift.",
            to="holodeck_action.extensions.history.command:history",
            group="Look",
        ),
    ),
    past=HistoryFunctions(
        beside="holodeck_action.extensions.history.earlier_runs:read_earlier",
        histories="holodeck_action.extensions.history.histories:Histories",
        open="holodeck_action.extensions.history.history_store:open_history",
        branch="holodeck_action.extensions.history.data_branch:BranchResults",
    ),
    documents=(Document(name="history", schema="holodeck_action.extensions.history.schemas:history"),),
)
