"""What check run and job summary begin with if a comment of an earlier run could not be replaced."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holodeck_action.reports.comment.places import Place

_NOT_REPLACED = "this run could not replace it"


class StaleComment(Struct, frozen=True):
    """A comment of ours on a pull request that is, or may be, as an earlier run left it.

    Attributes:
        pull: number of the pull request; None if it is not known which the commit has.
        read: whether the comment was read, so that there is one.
        commit: the commit that it is about; None if it does not tell.
        certain: it is known to be out of date.
    """

    pull: int | None
    read: bool
    commit: str | None
    certain: bool


def stale_lines(stale: Sequence[StaleComment], at: Place, *, several: bool) -> str:
    """Return a line of Markdown for each comment, with an empty one below it.

    `several` names pull requests by number, because the commit has more than one.
    """
    return "".join(f"⚠️ {_sentence(each, at, several=several)}\n\n" for each in stale)


def _sentence(stale: StaleComment, at: Place, *, several: bool) -> str:
    if stale.pull is None:
        subject = "A comment on a pull request with this commit"
    else:
        subject = f"The comment on {f'pull request #{stale.pull}' if several else 'this pull request'}"
    commit = at.commit(stale.commit) if stale.commit != at.sha else None
    if not stale.read:
        return f"**{subject} may be out of date:** {_NOT_REPLACED}."
    about = "of an earlier run" if commit is None else f"about {commit}"
    if not stale.certain:
        return f"**{subject} was {about} and may be out of date:** whether this run replaced it is not known."
    return f"**{subject} is {about} and is out of date:** {_NOT_REPLACED}."
