"""Describes the verdicts on pairs of answers: how often this run's answer was preferred to the base's."""

from __future__ import annotations

from collections.abc import Iterator

from holodeck_action.decide.compare.comparison import Comparison, Preference
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.reports.phrases import percent_text
from holodeck_action.text.plain import one_line


def preference_lines(comparison: Comparison) -> Iterator[str]:
    """Yield lines about each metric that compares answers: the win rate, then what may have influenced the judge."""
    for each in comparison.preferences:
        name = one_line(each.metric, 60)
        yield f"{name}: {_win_rate_text(each)}"
        yield f"{name}: {_influence_text(each)}"
        yield from each.notices


def _win_rate_text(preference: Preference) -> str:
    interval = _interval_text(preference.low, preference.high)
    chance = (
        "too few cases for an interval" if preference.p_value is None else f"{interval}, p = {preference.p_value:.2g}"
    )
    counts = f"{preference.wins:,} won, {preference.ties:,} tied, {preference.losses:,} lost"
    missing = f"; {count_phrase(preference.missing, 'pair')} could not be judged" if preference.missing else ""
    return (
        f"win rate {percent_text(preference.win_rate)} over {count_phrase(preference.cases, 'case')} ({chance}); "
        f"{count_phrase(preference.pairs, 'pair')}: {counts}{missing}"
    )


def _influence_text(preference: Preference) -> str:
    asked = preference.pairs - preference.identical
    flipped = "both answers are the same in every pair"
    if asked:
        share = percent_text(preference.flipped / asked)
        flipped = f"the order decided {preference.flipped:,} of {count_phrase(asked, 'pair')} ({share}), which are ties"
    if not preference.unequal:
        return f"{flipped}; no decided pair has answers of different lengths"
    interval = (
        "" if preference.longer_low is None else f", {_interval_text(preference.longer_low, preference.longer_high)}"
    )
    share = percent_text(preference.longer / preference.unequal)
    return (
        f"{flipped}; the longer answer won {preference.longer:,} of {count_phrase(preference.unequal, 'decided pair')} "
        f"({share}{interval})"
    )


def _interval_text(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"95 % interval {percent_text(low)} to {percent_text(high)}"
