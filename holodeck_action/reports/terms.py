"""Describes the terms of a run, such as thresholds, that are laxer than on the base, changed, or unknown there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.terms_changes import MOST_CHANGES, TermsChange, changes_clause, plain_name
from holodeck_action.record.serialization import from_plain
from holodeck_action.reports.untrusted import Fields, Untrusted, value_of
from holodeck_action.text.plain import one_line

RUN, PULL_REQUEST = "Unlike the base, this run", "Unlike the base, this pull request"
_LIMIT = 1000
_MAX_LISTED = 100
"""Maximum number of changes, and of positions of a change, to list; the JSON report has all."""


def terms_sentence(comparison: Comparison | None, subject: str = RUN) -> str:
    """Return a sentence about the laxer, changed or unknown terms; an empty string if there are none."""
    changes = _shown_changes(comparison)
    return one_line(f"{subject} {changes_clause(changes)}", _LIMIT) if changes else ""


def terms_notice(comparison: Comparison | None, subject: str = RUN) -> str:
    """Return the sentence of `terms_sentence` as Markdown."""
    changes = _shown_changes(comparison)
    return f"⚠️ **{subject}** {changes_clause(changes, format_phrase=_prose)}" if changes else ""


def _prose(text: str) -> str:
    # A console needs no Markdown.
    from holodeck_action.text.prose import prose

    return prose(text, _LIMIT)


def terms_lines(comparison: Comparison | None) -> list[str]:
    """Return a plain line for each change, with positions; empty if `terms_sentence` already contains all of them."""
    found = None if comparison is None else comparison.terms
    changes = () if found is None else found.listed_changes
    if (
        changes == _shown_changes(comparison)
        and len(changes) <= MOST_CHANGES
        and all(len(change.places) <= 1 for change in changes)
    ):
        return []
    lines = [one_line(line, _LIMIT) for line in _change_lines(changes[:_MAX_LISTED])]
    more = len(changes) - _MAX_LISTED
    return lines + ([f"and {more:,} more changes; the JSON results list all of them"] if more > 0 else [])


def _change_lines(changes: Sequence[TermsChange]) -> Iterator[str]:
    for change in changes:
        if len(change.places) <= 1:
            yield change.text
            continue
        yield f"{change.said} {len(change.places):,} cases:"
        for place in change.places[:_MAX_LISTED]:
            where = str(place)
            yield f"· {plain_name(place.name)}" + (f" at {where}" if where else "")
        if len(change.places) > _MAX_LISTED:
            yield f"· and {len(change.places) - _MAX_LISTED:,} more, which the JSON results list"


def _shown_changes(comparison: Comparison | None) -> Sequence[TermsChange]:
    return () if comparison is None or comparison.terms is None else comparison.terms.reported_changes


def terms(comparison: Fields) -> str:
    """Return a sentence about the laxer, changed or unknown terms as Markdown; an empty string if there are none."""
    return terms_notice(_comparison_of(comparison))


def terms_list(comparison: Fields) -> list[Untrusted]:
    """Return a line for each change, with positions; empty if the sentence of `terms` already contains all of them."""
    return [Untrusted(line) for line in terms_lines(_comparison_of(comparison))]


def _comparison_of(fields: Fields) -> Comparison:
    # In the process of a custom template, the fields are plain data.
    found = value_of(fields)
    return found if isinstance(found, Comparison) else from_plain(found, Comparison)
