"""Which comments of earlier runs still stand on the pull requests that a run could not write to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holodeck_action.github.channels import Channel, Outcome, missing
from holodeck_action.github.event import ByNumber, NoPull, Target
from holodeck_action.github.sticky_comment import UNREAD, Earlier
from holodeck_action.reports.comment.changes import State
from holodeck_action.reports.comment.places import Place
from holodeck_action.reports.stale_comment import StaleComment, stale_lines


def first_lines(
    target: Target, at: Place, ended: Sequence[tuple[int | None, Outcome]], earlier: Mapping[int, Earlier | None]
) -> str:
    """Return what check run and job summary begin with; empty if no comment is out of date.

    Args:
        target: what the run is about.
        at: where its texts are published.
        ended: how the comment of each pull request ended, by number; None if it ended before they were known.
        earlier: what stood there, by number; a pull request that was not looked at is missing.
    """
    if not _may_have_comment(target):
        return ""
    stale = []
    for number, outcome in ended:
        found = UNREAD if number is None else earlier.get(number, UNREAD)
        if found is not None and missing([Channel("comment", outcome)]):
            stale.append(_stale(_number(target) if number is None else number, found))
    return stale_lines(stale, at, several=len(ended) > 1)


def first_line_unpublished(target: Target, at: Place) -> str:
    """Return what the job summary begins with if nothing could be published for a pull request that the event names."""
    number = _number(target)
    known = number is not None and _may_have_comment(target)
    return stale_lines([_stale(number, UNREAD)], at, several=False) if known else ""


def _may_have_comment(target: Target) -> bool:
    return target.comments and not isinstance(target.lookup, NoPull)


def _number(target: Target) -> int | None:
    """Return the pull request that the event names; None if it names none."""
    if target.pull is not None:
        return target.pull.number
    return target.lookup.number if isinstance(target.lookup, ByNumber) else None


def _stale(number: int | None, earlier: Earlier) -> StaleComment:
    state = None if earlier.body is None else State.read(earlier.body)
    return StaleComment(number, earlier.body is not None, None if state is None else state.sha, earlier.certain)
