"""Template filters for a whole report: its headline, and the causes of its failing cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holodeck_action.decide.error_table import ACTIONS
from holodeck_action.reports.causes import causes_of
from holodeck_action.reports.comment.comment_view import failing_examples
from holodeck_action.reports.comparison import answer_on_base
from holodeck_action.reports.comparison_filters import value_as
from holodeck_action.reports.headline import MARKDOWN, Headline
from holodeck_action.reports.headline import headline as headline_of
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.untrusted import Fields, Untrusted, text_of, wrap


def headline(report: Fields) -> Headline:
    """Return the headline of a report in Markdown, as in the comment."""
    return headline_of(value_as(Report, report), MARKDOWN)


def causes(report: Fields) -> Any:
    """Return the causes of a report's failing cases, the most important one first."""
    return wrap(causes_of(value_as(Report, report)))


def examples(report: Fields) -> Iterator[dict[str, Any]]:
    """Yield the variables of the macro `open` of comment_cases.md.j2 for each failing case."""
    return failing_examples(value_as(Report, report))


def base_answer(report: Fields, case: Fields) -> Untrusted | None:
    """Return the base's answer in a case that got worse; None for another case or if there was no answer."""
    comparison = value_as(Report, report).comparison
    found = None if comparison is None else answer_on_base(comparison, text_of(case["id"]))
    return None if found is None else Untrusted(found)


def action(actor: Any) -> str:
    """Return the action that an error requires of its actor, as Markdown."""
    who, _, what = ACTIONS[text_of(actor)].partition(":")
    return f"**{who}:**{what}"


REPORT_FILTERS: dict[str, Callable[..., Any]] = {
    "headline": headline,
    "causes": causes,
    "examples": examples,
    "base_answer": base_answer,
    "action": action,
}
"""The template filters by name."""
