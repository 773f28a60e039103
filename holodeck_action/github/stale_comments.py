"""Finds outdated comments of earlier runs on pull requests that a run could not write to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holodeck_action.github.channels import Channel, Outcome, any_unpublished
from holodeck_action.github.event import Destination, LookupByNumber, NoLookup
from holodeck_action.github.sticky_comment import UNREAD_COMMENT, EarlierComment
from holodeck_action.reports.comment.changes import State
from holodeck_action.reports.comment.places import LinkContext
from holodeck_action.reports.stale_comment import StaleComment, stale_lines


def stale_notice(
    destination: Destination,
    links: LinkContext,
    outcomes: Sequence[tuple[int | None, Outcome]],
    earlier_comments: Mapping[int, EarlierComment | None],
) -> str:
    """Return the notice for the start of the check run and the job summary; empty if no comment is outdated.

    Args:
        destination: where the run publishes.
        links: creates links to the repository and the run.
        outcomes: (number, outcome) of the comment for each pull request; number is None if no pull request was found.
        earlier_comments: earlier comment (None: no comment) by number of the pull request; no entry if comments were
            not read.
    """
    if not _may_have_comment(destination):
        return ""
    stale = []
    for number, outcome in outcomes:
        found = UNREAD_COMMENT if number is None else earlier_comments.get(number, UNREAD_COMMENT)
        if found is not None and any_unpublished([Channel("comment", outcome)]):
            stale.append(_stale_comment(_pull_number(destination) if number is None else number, found))
    return stale_lines(stale, links, plural=len(outcomes) > 1)


def unpublished_notice(destination: Destination, links: LinkContext) -> str:
    """Return the notice at the start of the job summary if nothing could be published; empty if the event has no pull
    request."""
    number = _pull_number(destination)
    known = number is not None and _may_have_comment(destination)
    return stale_lines([_stale_comment(number, UNREAD_COMMENT)], links, plural=False) if known else ""


def _may_have_comment(destination: Destination) -> bool:
    return destination.comments and not isinstance(destination.lookup, NoLookup)


def _pull_number(destination: Destination) -> int | None:
    """Return the number of the pull request in the event; None if the event names no pull request."""
    if destination.pull is not None:
        return destination.pull.number
    return destination.lookup.number if isinstance(destination.lookup, LookupByNumber) else None


def _stale_comment(number: int | None, comment: EarlierComment) -> StaleComment:
    state = None if comment.body is None else State.read(comment.body)
    return StaleComment(number, comment.body is not None, None if state is None else state.sha, comment.certain)
