"""Template filters for a comparison with the base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holodeck_action.decide.compare.comparison import ComparedRun, Comparison, Difference, MetricStep
from holodeck_action.record.serialization import from_plain
from holodeck_action.reports import comparison as texts
from holodeck_action.reports import exam
from holodeck_action.reports.first_lines import comparison_notices
from holodeck_action.reports.untrusted import Fields, Untrusted, value_of

T = TypeVar("T")


def _value(kind: type[T], fields: Fields) -> T:
    """Return the value behind what a template sees, which is plain data in the process of a custom template."""
    found = value_of(fields)
    return found if isinstance(found, kind) else from_plain(found, kind)


def changed(comparison: Fields) -> str:
    """Return how many cases got worse and better."""
    return texts.changed_text(_value(Comparison, comparison))


def rate(comparison: Fields) -> str:
    """Return what became of the pass rate; empty without one."""
    return texts.rate_text(_value(Comparison, comparison))


def base_name(run: Fields) -> Untrusted:
    """Return what to call the base."""
    return Untrusted(texts.base_name(_value(ComparedRun, run)))


def age(comparison: Fields) -> str:
    """Return how much older the base's run is; empty where that is not known."""
    return texts.age_text(_value(Comparison, comparison))


def change(difference: Fields) -> str:
    """Return a difference of means with its interval."""
    return texts.change_text(_value(Difference, difference))


def change_state(difference: Fields, comparison: Fields) -> str:
    """Return what a difference of a comparison is judged to be."""
    return texts.state_text(_value(Difference, difference), _value(Comparison, comparison))


def arrow(difference: Fields) -> str:
    """Return the sign of a difference beyond chance; empty for any other."""
    found = _value(Difference, difference)
    if found.state == "regressed":
        return "▼"
    return "▲" if found.moved and found.difference > 0 else ""


def step(found: Fields, turns: int, trial: int | None) -> Untrusted:
    """Return what a metric did in a changed case."""
    return Untrusted(texts.step_text(_value(MetricStep, found), turns, trial))


def consumed(comparison: Fields) -> list[tuple[str, str, str]]:
    """Return what both runs took."""
    found = _value(Comparison, comparison)
    return list(texts.consumed_lines(found.base_consumed, found.head_consumed))


def unpaired(comparison: Fields) -> list[Untrusted]:
    """Return what takes no part, one line each."""
    return [Untrusted(line) for line in texts.unpaired_lines(_value(Comparison, comparison))]


def outlook(comparison: Fields) -> str:
    """Return how far a comparison sees; empty where nothing is measured."""
    return texts.outlook(_value(Comparison, comparison))


def first_lines(comparison: Fields) -> list[str]:
    """Return what is said first of a comparison, as lines of Markdown."""
    return comparison_notices(_value(Comparison, comparison))


FILTERS: dict[str, Callable[..., Any]] = {
    "changed": changed,
    "rate": rate,
    "base_name": base_name,
    "age": age,
    "change": change,
    "change_state": change_state,
    "arrow": arrow,
    "step": step,
    "consumed": consumed,
    "unpaired": unpaired,
    "outlook": outlook,
    "first_lines": first_lines,
    "exam": exam.exam,
    "exam_list": exam.exam_list,
}
"""Filter by the name that templates use."""
