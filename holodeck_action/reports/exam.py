"""Texts on the terms of a run that are less strict than those of its base, or others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.exam_changes import MOST_CHANGES, ExamChange, plain_name, sentence
from holodeck_action.record.serialization import from_plain
from holodeck_action.reports.untrusted import Fields, Untrusted, value_of
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import prose

RUN, PULL_REQUEST = "Unlike the base, this run", "Unlike the base, this pull request"
_LIMIT = 1000
_PLACES = 100
"""Places of one change, and changes, that are listed: JSON has all."""


def exam_sentence(comparison: Comparison | None, subject: str = RUN) -> str:
    """Return what became laxer, what changed and what is not known, as one line; empty for nothing."""
    changes = _shown(comparison)
    return one_line(f"{subject} {sentence(changes)}", _LIMIT) if changes else ""


def exam_notice(comparison: Comparison | None, subject: str = RUN) -> str:
    """Return the same as Markdown of one line."""
    changes = _shown(comparison)
    return f"⚠️ **{subject}** {sentence(changes, shown=_prose)}" if changes else ""


def _prose(text: str) -> str:
    return prose(text, _LIMIT)


def exam_lines(comparison: Comparison | None) -> list[str]:
    """Return every change with its places where the sentence does not tell all of them: plain text, one line each."""
    changes = _shown(comparison)
    if len(changes) <= MOST_CHANGES and all(len(change.places) <= 1 for change in changes):
        return []
    lines = [one_line(line, _LIMIT) for line in _lines(changes[:_PLACES])]
    more = len(changes) - _PLACES
    return lines + ([f"and {more:,} more changes: results in JSON have all"] if more > 0 else [])


def _lines(changes: Sequence[ExamChange]) -> Iterator[str]:
    for change in changes:
        if len(change.places) <= 1:
            yield change.text
            continue
        yield f"{change.said} {len(change.places):,} cases:"
        for place in change.places[:_PLACES]:
            where = str(place)
            yield f"· {plain_name(place.name)}" + (f" at {where}" if where else "")
        if len(change.places) > _PLACES:
            yield f"· and {len(change.places) - _PLACES:,} more, which JSON has"


def _shown(comparison: Comparison | None) -> Sequence[ExamChange]:
    return () if comparison is None or comparison.exam is None else comparison.exam.shown


def exam(comparison: Fields) -> str:
    """Return what became laxer, as a filter for templates: Markdown, empty for nothing."""
    return exam_notice(_comparison(comparison))


def exam_list(comparison: Fields) -> list[Untrusted]:
    """Return every change where the sentence does not tell all, as a filter for templates."""
    return [Untrusted(line) for line in exam_lines(_comparison(comparison))]


def _comparison(fields: Fields) -> Comparison:
    # In the process of a custom template it is plain data.
    found = value_of(fields)
    return found if isinstance(found, Comparison) else from_plain(found, Comparison)
