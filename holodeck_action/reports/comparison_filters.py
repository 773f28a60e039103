"""Template filters for a comparison with the base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holodeck_action.decide.compare.comparison import ComparedRun, Comparison, Difference, MetricStep
from holodeck_action.record.serialization import from_plain
from holodeck_action.reports import comparison as texts
from holodeck_action.reports import terms
from holodeck_action.reports.first_lines import comparison_notices
from holodeck_action.reports.preferences import preference_lines
from holodeck_action.reports.untrusted import Fields, Untrusted, text_of, value_of

T = TypeVar("T")


def value_as(kind: type[T], fields: Fields) -> T:
    """Return the object that `fields` wraps. In the process of a custom template, `fields` wraps plain data, which is
    converted to `kind`."""
    found = value_of(fields)
    return found if isinstance(found, kind) else from_plain(found, kind)


def changed(comparison: Fields) -> str:
    """Return the number of cases that got worse and better, as a sentence."""
    return texts.changed_text(value_as(Comparison, comparison))


def rate(comparison: Fields) -> str:
    """Return the change of the pass rate; an empty string if it is not compared."""
    return texts.rate_text(value_as(Comparison, comparison))


def base_name(run: Fields) -> Untrusted:
    """Return the name of the base."""
    return Untrusted(texts.base_name(value_as(ComparedRun, run)))


def age(comparison: Fields) -> str:
    """Return how much older the base's run is; an empty string if unknown."""
    return texts.age_text(value_as(Comparison, comparison))


def change(difference: Fields) -> str:
    """Return a difference of means with its interval."""
    return texts.change_text(value_as(Difference, difference))


def rate_change(difference: Fields) -> str:
    """Return a difference of pass rates in percentage points with its interval."""
    return texts.rate_change_text(value_as(Difference, difference))


def change_state(difference: Fields, comparison: Fields) -> str:
    """Return whether a difference is beyond chance, in words."""
    return texts.state_text(value_as(Difference, difference), value_as(Comparison, comparison))


def arrow(difference: Fields) -> str:
    """Return an arrow for a difference beyond chance; an empty string for other differences."""
    found = value_as(Difference, difference)
    if found.state == "regressed":
        return "▼"
    return "▲" if found.significant and found.difference > 0 else ""


def step(metric_step: Fields, turns: int, trial: int | None) -> Untrusted:
    """Return the change of a metric in a changed case, in words."""
    return Untrusted(texts.step_text(value_as(MetricStep, metric_step), turns, trial))


def consumed(comparison: Fields) -> list[tuple[str, str, str]]:
    """Return (quantity, base value, new value) for each known kind of usage."""
    found = value_as(Comparison, comparison)
    return list(texts.consumed_lines(found.base_consumed, found.head_consumed))


def unpaired(comparison: Fields) -> list[Untrusted]:
    """Return the metrics and cases that are not compared, one line each."""
    return [Untrusted(line) for line in texts.unpaired_lines(value_as(Comparison, comparison))]


def flaky(comparison: Fields) -> list[Untrusted]:
    """Return the flaky cases with their trials, one line each."""
    return [Untrusted(line) for line in texts.flaky_lines(value_as(Comparison, comparison))]


def confirmed(comparison: Fields, case_id: Untrusted | str) -> str:
    """Return the end of a sentence, such as `, failed in 3 of 5 trials`, for a regressed case; an empty string if the
    case was not run again."""
    return texts.confirmed_text(value_as(Comparison, comparison), text_of(case_id))


def preferences(comparison: Fields) -> list[Untrusted]:
    """Return the verdicts on pairs of answers, one line each."""
    return [Untrusted(line) for line in preference_lines(value_as(Comparison, comparison))]


def outlook(comparison: Fields) -> str:
    """Return the limits of a comparison in words; an empty string if nothing is compared."""
    return texts.outlook_text(value_as(Comparison, comparison))


def first_lines(comparison: Fields) -> list[str]:
    """Return the first lines of a comparison in Markdown."""
    return comparison_notices(value_as(Comparison, comparison))


FILTERS: dict[str, Callable[..., Any]] = {
    "changed": changed,
    "rate": rate,
    "base_name": base_name,
    "age": age,
    "change": change,
    "rate_change": rate_change,
    "change_state": change_state,
    "arrow": arrow,
    "step": step,
    "consumed": consumed,
    "unpaired": unpaired,
    "outlook": outlook,
    "flaky": flaky,
    "confirmed": confirmed,
    "preferences": preferences,
    "first_lines": first_lines,
    "terms": terms.terms,
    "terms_list": terms.terms_list,
}
"""The template filters by name."""
