"""Renders the leaderboard of a race as plain text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.race.objective import RATE
from holodeck_action.extensions.race.outcome import RacedVariant, RaceOutcome
from holodeck_action.llm.limits.budget import format_dollars
from holodeck_action.text.code_spans import cell, inline_code
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import prose

_LONGEST_NAME = 100
_UNKNOWN = "unknown"
_ICONS = {"leader": "🏁", "equal": "🏁", "over_limit": "❌", "undecided": "⏹️"}


def console_lines(outcome: RaceOutcome) -> Iterator[str]:
    """Yield the lines of the leaderboard as plain text."""
    suite = one_line(outcome.suite.name, 100)
    yield f"race of {suite}: {len(outcome.variants)} variants, {count_phrase(outcome.cases, 'case')}"
    rows = [_heads(outcome), *(_cells(each, outcome) for each in outcome.variants)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    yield f"{outcome.outcome}: {one_line(outcome.reason, 1000)}"
    yield costs_line(outcome)


def markdown_text(outcome: RaceOutcome) -> str:
    """Return the leaderboard as Markdown; names of variants are untrusted."""
    heads = _heads(outcome)
    if outcome.objective != RATE:
        heads[2] = cell(outcome.objective, 40)
    lines = [
        f"### {_ICONS[outcome.outcome]} Race of {inline_code(outcome.suite.name, 100)}",
        "",
        f"**{outcome.outcome}**: {prose(outcome.reason, 1000)}",
        "",
        f"| {' | '.join(heads)} |",
        f"| {' | '.join(['---'] * len(heads))} |",
        *(
            f"| {cell(each.name, _LONGEST_NAME)} | {' | '.join(_cells(each, outcome)[1:])} |"
            for each in outcome.variants
        ),
        "",
        costs_line(outcome),
    ]
    reasons = [line for each in outcome.variants if (line := _reason(each))]
    if reasons:
        lines += ["", "<details><summary>Why variants left the race</summary>", "", *reasons, "", "</details>"]
    return "\n".join(lines) + "\n"


def costs_line(outcome: RaceOutcome) -> str:
    """Return a sentence that compares number of answers and cost of the race with those of the full grid."""
    answers = f"{outcome.answers:,} of the {outcome.grid_answers:,} answers of the full grid were needed"
    spent, grid = _dollars(outcome.run.spent_usd), _dollars(outcome.run.grid_usd)
    return f"{answers}; spent: {spent}; the full grid would have cost about: {grid}"


def _heads(outcome: RaceOutcome) -> list[str]:
    objective = "pass rate" if outcome.objective == RATE else one_line(outcome.objective, 40)
    return ["variant", "state", objective, "cases", "cost per case", "p95", "spent", "full grid"]


def _cells(variant: RacedVariant, outcome: RaceOutcome) -> list[str]:
    value = variant.value
    shown = _UNKNOWN if value is None else f"{100 * value:.1f} %" if outcome.objective == RATE else f"{value:.4g}"
    notes = [f"{count} {noun}" for count, noun in ((variant.errors, "in error"), (variant.unknown, _UNKNOWN)) if count]
    cases = f"{variant.cases}" + (f" ({', '.join(notes)})" if notes else "")
    time = variant.run.p95_ms
    return [
        one_line(variant.name, _LONGEST_NAME),
        variant.state.replace("_", " ") if variant.dropped is None else f"dropped after {variant.dropped.cases}",
        shown,
        cases,
        _dollars(variant.cost_per_case_usd),
        _UNKNOWN if time is None else f"{time:.0f} ms",
        _dollars(variant.run.spent_usd),
        _dollars(variant.run.grid_usd),
    ]


def _reason(variant: RacedVariant) -> str:
    name, drop = cell(variant.name, _LONGEST_NAME), variant.dropped
    if drop is not None:
        rival = cell(drop.rival, _LONGEST_NAME)
        return f"* {name}: worse than {rival} after {count_phrase(drop.cases, 'case')} (evidence {drop.evidence:.4g})"
    return f"* {name}: {', '.join(variant.over)}" if variant.over else ""


def _dollars(amount: float | None) -> str:
    return _UNKNOWN if amount is None else format_dollars(amount)
