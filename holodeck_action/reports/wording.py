"""Words, signs and short phrases that all reports share."""

from __future__ import annotations

from holodeck_action.results.verdict import Counts
from holodeck_action.results.views import ToolCallView
from holodeck_action.suite.marks import SourceMark

VERDICTS = {"passed": "PASSED", "failed": "FAILED", "incomplete": "INCOMPLETE", "stopped": "STOPPED"}

WORDS = {
    "passed": "passed",
    "failed": "failed",
    "error": "in error",
    "skipped": "not run",
    "informational": "informational",
    "quarantined": "quarantined",
    "incomplete": "incomplete",
    "stopped": "stopped",
    "undetermined": "cannot be decided",
}
"""What an outcome or a gate's state is called."""

SIGNS = {
    "passed": "✅",
    "failed": "❌",
    "error": "⚠️",
    "skipped": "⏭️",
    "informational": "ℹ️",
    "quarantined": "🚧",
    "incomplete": "⚠️",
    "stopped": "⏹️",
    "undetermined": "❔",
}
"""The sign of an outcome or a gate's state."""


def counts_text(counts: Counts) -> str:
    """Return the cases by outcome; those that rarely occur only when they do."""
    parts = [f"{counts.passed} passed", f"{counts.failed} failed", f"{counts.error} in error"]
    for number, what in (
        (counts.skipped, "not run"),
        (counts.informational, "informational"),
        (counts.quarantined, "quarantined"),
    ):
        if number:
            parts.append(f"{number} {what}")
    return ", ".join(parts)


def call_text(call: ToolCallView, limit: int = 300) -> str:
    """Return a tool call as `name(arguments)`; the arguments are cut at `limit` characters."""
    arguments = call.arguments if len(call.arguments) <= limit else f"{call.arguments[:limit]}…"
    return f"{call.name}({arguments})"


def place(source: SourceMark, folder: str) -> str:
    """Return `file:line:column`, the folder put before it."""
    return f"{folder}/{source}" if folder else str(source)
