"""The sticky comment: one comment per comment id on a pull request, updated by every run (docs/github.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.github.channels import (
    NO_PULL,
    Access,
    Failed,
    Outcome,
    Published,
    Skipped,
    Stopped,
    first_line,
    newest_clause,
    same_body,
)
from holodeck_action.github.rest.api import every, page_url
from holodeck_action.github.rest.objects import ApiError

if TYPE_CHECKING:
    from github.Issue import Issue
    from github.IssueComment import IssueComment

Mode = Literal["always", "changes", "failures", "off"]

_ID_LIMIT = 200
_UNCONFIRMED = "whether the comment was {} is unknown, so it was not sent again; the next run brings it up to date"
_DELETED = "another step made the same comment, which was then deleted; the next run writes it again"

_CHECK_ADVICE = " and its own `--check-name`, because GitHub shows one check run per name"


def marker(comment_id: str, kind: str = "report") -> str:
    """Return the marker of a comment id, the first line of the comment; different ids have different markers.

    Args:
        comment_id: any string. Characters other than letters, digits, `.`, `_`, `/`, `:` and a single `-` are
            percent-encoded, as `--` would end the HTML comment; an encoded id of more than 200 characters is replaced
            by its SHA-256 digest.
        kind: kind of text that the comment holds, in lower-case letters; each kind has its own comment.
    """
    encoded = quote(comment_id.encode("utf-8", "surrogatepass"), safe="/:").replace("~", "%7E").replace("--", "-%2D")
    if len(encoded) > _ID_LIMIT:
        # No encoded id has a `=`.
        encoded = f"sha256={hashlib.sha256(encoded.encode()).hexdigest()}"
    return f"<!-- holodeck-action:{kind}:{encoded} -->"


class CommentRequest(Struct, frozen=True):
    """The comment to write, and the conditions for writing it.

    `render`, `changed`, `clash` and `worse` take the body of our existing comment.

    Attributes:
        mode: `always`; `changes`: an existing comment is only replaced if the result differs; `failures`: the comment
            is created for a verdict other than passed, and updated from then on; `off`.
        failed: whether the verdict is other than passed.
        render: returns the new body, whose first line is the marker; its argument is None if there is no comment yet.
        changed: returns whether the existing body reports another result than this run's.
        clash: returns whether another step of this run and attempt wrote the existing body.
        worse: returns whether the existing body reports a worse verdict than this run's; only called after a clash.
        check: whether the step also writes a check run.
    """

    mode: Mode
    failed: bool
    render: Callable[[str | None], str]
    changed: Callable[[str], bool]
    clash: Callable[[str], bool]
    worse: Callable[[str], bool]
    check: bool


class EarlierComment(Struct, frozen=True):
    """A comment of an earlier run that was not replaced, or may still exist.

    Attributes:
        body: body of the comment; None if comments could not be read, so that it is unknown whether one exists.
        certain: whether the comment certainly still has this body.
    """

    body: str | None
    certain: bool


UNREAD_COMMENT = EarlierComment(None, certain=False)
"""The earlier comment if comments could not be read."""


class CommentResult(Struct, frozen=True):
    """The outcome of publishing the comment.

    `earlier` is a comment of an earlier run that was not replaced, or may still exist; None if there is no such
    comment.
    """

    outcome: Outcome
    earlier: EarlierComment | None = None


def publish_comment(github: Access, pull_number: int, first_line: str, request: CommentRequest) -> CommentResult:
    """Create or update the comment of a pull request.

    Comments that others wrote or that a user has hidden are ignored (see `Access.own_items`). The comment is found by
    its first line, a `marker`.
    """
    if request.mode == "off":
        return CommentResult(Skipped("the comment is switched off", requested=False))
    sticky = _Sticky(github, pull_number, first_line, request)
    earlier: EarlierComment | None = UNREAD_COMMENT
    try:
        with github.stopping(
            "the comments could not be read",
            "pull-requests: read",
            " (`pull-requests: write` to write the comment)",
            missing_permission=NO_PULL,
        ):
            ours = sticky.own_comments()
        text = None
        for index, comment in enumerate(ours):
            earlier, text = EarlierComment(comment.body, certain=True), sticky.render(comment.body)
            outcome = sticky.replace(comment, text)
            if outcome is not None:
                # A failure that did not stop is a clash with another step of this run.
                return CommentResult(_mention_others(outcome, len(ours) - index))
        earlier = None
        if text is None and request.mode == "failures" and not request.failed:
            return CommentResult(Skipped("nothing failed, and the comment is for failures only", requested=False))
        return CommentResult(sticky.create(text or sticky.render(None)))
    except Stopped as stopped:
        if earlier is not None and stopped.unclear:
            earlier = replace(earlier, certain=False)
        return CommentResult(stopped.outcome, earlier)


class _Sticky(Struct, frozen=True):
    github: Access
    number: int
    first_line: str
    wanted: CommentRequest

    def render(self, earlier_state: str | None) -> str:
        text = self.wanted.render(earlier_state)
        if first_line(text) != self.first_line:
            raise ValueError("the comment does not start with its marker: it would never be found again")
        return text

    def replace(self, comment: IssueComment, text: str) -> Outcome | None:
        """Update a comment; return None if it was deleted.

        Raises:
            Stopped: the comment could not be written, or GitHub reports it as deleted but still lists it, so that a new
                comment might be a duplicate.
        """
        if same_body(comment.body, text):
            return Published("unchanged", page_url(comment))
        clash = self.wanted.clash(comment.body)
        if clash and self.wanted.worse(comment.body):
            return self._clash_outcome(comment)
        if not clash and self.wanted.mode == "changes" and not self.wanted.changed(comment.body):
            return Published("unchanged", page_url(comment))
        with self._writing():
            try:
                written = self.github.edit(
                    lambda: comment.edit(text),
                    self._list_comments,
                    comment,
                    text,
                    _UNCONFIRMED.format("written"),
                )
            except ApiError as error:
                if error.kind == "not_found" and not self._is_listed(comment):
                    return None
                raise
        return self._clash_outcome(written) if clash else Published("updated", page_url(written))

    def _is_listed(self, comment: IssueComment) -> bool:
        """Return whether GitHub still lists a comment that it reported as deleted; True if GitHub does not answer."""
        try:
            return any(listed.id == comment.id for listed in self._list_comments())
        except ApiError:
            return True

    def create(self, text: str) -> Outcome:
        def make() -> Published | IssueComment:
            return Published("created", page_url(self._issue.create_comment(text)))

        with self._writing():
            made = self.github.create(
                make,
                lambda: self._find_created(text),
                _UNCONFIRMED.format("made"),
                lambda found: isinstance(found, Published),
            )
        if isinstance(made, Published):
            return made
        # Another step with the same comment id has created it in the meantime.
        return self.replace(made, self.render(made.body)) or Failed(_DELETED)

    def _find_created(self, text: str) -> Published | IssueComment | None:
        """Return the outcome if we have a comment with this text, else our newest comment; None if there is none."""
        ours = self.own_comments()
        equal = (Published("created", page_url(comment)) for comment in ours if same_body(comment.body, text))
        return next(equal, ours[0] if ours else None)

    @property
    def _issue(self) -> Issue:
        # For GitHub, a pull request is an issue, too.
        return self.github.api.repository.get_issue(self.number)

    def _list_comments(self) -> Sequence[IssueComment]:
        return every(self._issue.get_comments(), "id", "node_id", "body", "html_url", "user")

    def own_comments(self) -> Sequence[IssueComment]:
        """Return our visible comments with the marker, the newest first."""
        listed = self._list_comments()
        for owned in self.github.own_items(listed, self._is_marked, "a comment with our marker is"):
            if ours := [comment for comment, found in owned if not found.minimized]:
                return ours
        return ()

    def _is_marked(self, body: str) -> bool:
        return first_line(body) == self.first_line

    def _writing(self) -> AbstractContextManager[None]:
        what = "the comment could not be written"
        return self.github.stopping(what, "pull-requests: write", missing_permission=NO_PULL)

    def _clash_outcome(self, comment: IssueComment) -> Outcome:
        return Failed(
            f"two steps of this run write the same comment ({page_url(comment)}), which shows the worse of their "
            f"verdicts: give each step its own `comment-id`{_CHECK_ADVICE if self.wanted.check else ''}"
        )


def _mention_others(outcome: Outcome, count: int) -> Outcome:
    if count < 2 or not isinstance(outcome, Published):
        return outcome
    return Published(f"{outcome.detail}{newest_clause(count, 'comments')}; delete the others", outcome.url)
