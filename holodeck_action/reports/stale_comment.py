"""The first lines of a check run and a job summary if the comment of an earlier run could not be replaced."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holodeck_action.reports.comment.places import LinkContext

_NOT_REPLACED = "this run could not replace it"


class StaleComment(Struct, frozen=True):
    """A comment of an earlier run that may still be on its pull request.

    Attributes:
        pull: number of the pull request; None if it is unknown.
        read: whether the comment was read; if not, it may not exist.
        commit: the commit that the comment is about; None if it is unknown.
        certain: whether the comment is certainly out of date.
    """

    pull: int | None
    read: bool
    commit: str | None
    certain: bool


def stale_lines(stale_comments: Sequence[StaleComment], context: LinkContext, *, plural: bool) -> str:
    """Return a line of Markdown for each comment, each followed by an empty line.

    If `plural` is true, the commit has more than one pull request, so that lines include their numbers.
    """
    return "".join(f"⚠️ {_sentence(each, context, plural=plural)}\n\n" for each in stale_comments)


def _sentence(comment: StaleComment, context: LinkContext, *, plural: bool) -> str:
    if comment.pull is None:
        subject = "A comment on a pull request with this commit"
    else:
        subject = f"The comment on {f'pull request #{comment.pull}' if plural else 'this pull request'}"
    commit = context.commit(comment.commit) if comment.commit != context.sha else None
    if not comment.read:
        return f"**{subject} may be out of date:** {_NOT_REPLACED}."
    about = "of an earlier run" if commit is None else f"about {commit}"
    if not comment.certain:
        return f"**{subject} was {about} and may be out of date:** it is unknown whether this run replaced it."
    return f"**{subject} is {about} and is out of date:** {_NOT_REPLACED}."
