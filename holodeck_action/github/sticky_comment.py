"""The sticky comment: one of each kind on a pull request, updated by every run (docs/github.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal
from urllib.parse import quote

from msgspec import Struct

from holodeck_action.github.channels import (
    NO_PULL,
    TRIES,
    Access,
    Failed,
    Outcome,
    Published,
    Skipped,
    Stopped,
    first_line,
    same,
    sentence,
)
from holodeck_action.github.rest.objects import ApiError, Comment

Mode = Literal["always", "changes", "failures", "off"]

_ID_LIMIT = 200
_ASKED_AT_ONCE = 100
"""Node ids of one GraphQL query: the most that `nodes` takes."""
_UNKNOWN = "whether the comment was {} could not be told, so it was not sent again: the next run brings it up to date"


def marker(comment_id: str) -> str:
    """Return the first line of the comment that has an id; different ids never give the same line.

    Args:
        comment_id: any text. What is more than a letter, a digit, `.`, `_`, `/`, `:` or a single `-` is
            percent-encoded, as `--` would end the HTML comment; of an id longer than 200 characters when encoded
            stands the SHA-256 digest.
    """
    encoded = quote(comment_id.encode("utf-8", "surrogatepass"), safe="/:").replace("~", "%7E").replace("--", "-%2D")
    if len(encoded) > _ID_LIMIT:
        # No encoded id has a `=`.
        encoded = f"sha256={hashlib.sha256(encoded.encode()).hexdigest()}"
    return f"<!-- holodeck-action:report:{encoded} -->"


class Wanted(Struct, frozen=True):
    """What the comment is to say, and when.

    The functions take the body of the comment that stands there, which is ours.

    Attributes:
        mode: `always`; `changes`: a comment that stands there is replaced where the result is another; `failures`: one
            is made for a verdict that is not passed, and kept up to date from then on; `off`.
        failed: the verdict is not passed.
        render: makes the body, whose first line is the marker; None for the first comment.
        changed: the body tells another result than ours.
        clash: the body was written by another step of this run and attempt.
        worse: the body tells a worse verdict than ours; only asked where there is a clash.
    """

    mode: Mode
    failed: bool
    render: Callable[[str | None], str]
    changed: Callable[[str], bool]
    clash: Callable[[str], bool]
    worse: Callable[[str], bool]


class Earlier(Struct, frozen=True):
    """A comment of an earlier run that was not replaced, or may not have been.

    Attributes:
        body: as it was read; None if it could not be read, so that there may be none.
        certain: nothing was written since it was read.
    """

    body: str | None
    certain: bool


UNREAD = Earlier(None, certain=False)


class Commented(Struct, frozen=True):
    """How the comment ended, and the earlier one that still stands there; None if there is none."""

    outcome: Outcome
    earlier: Earlier | None = None


def publish_comment(github: Access, pull_number: int, first_line: str, wanted: Wanted) -> Commented:
    """Make the comment of a pull request, or bring the one that stands there up to date.

    Only comments that we wrote and that nobody has hidden count. A GitHub that does not tell (GraphQL) is taken at the
    author's type: a bot's is ours, a person's never.

    The comment is found by its first line, a `marker`.
    """
    if wanted.mode == "off":
        return Commented(Skipped("the comment is switched off", asked=False))
    return _Sticky(github, pull_number, first_line, wanted).publish()


class _Sticky(Struct, frozen=True):
    github: Access
    number: int
    first_line: str
    wanted: Wanted

    def publish(self) -> Commented:
        try:
            ours = self._ours()
        except ApiError as error:
            return Commented(self._unread(error), UNREAD)
        except Stopped as stopped:
            return Commented(stopped.outcome, UNREAD)
        text = None
        for index, comment in enumerate(ours):
            text = self._rendered(comment.body)
            try:
                outcome = self._replace(comment, text)
            except Stopped as stopped:
                return Commented(stopped.outcome, Earlier(comment.body, certain=not stopped.unclear))
            if outcome is not None:
                # What failed here without being stopped is a clash with another step of this run.
                return Commented(_with_others(outcome, len(ours) - index))
        if text is None:
            if self.wanted.mode == "failures" and not self.wanted.failed:
                return Commented(Skipped("nothing failed, and the comment is for failures only", asked=False))
            text = self._rendered(None)
        try:
            return Commented(self._create(text))
        except Stopped as stopped:
            return Commented(stopped.outcome)

    def _rendered(self, previous: str | None) -> str:
        text = self.wanted.render(previous)
        if first_line(text) != self.first_line:
            raise ValueError("the comment does not start with its marker: it would never be found again")
        return text

    def _replace(self, comment: Comment, text: str) -> Outcome | None:
        """Bring a comment up to date; None where it is gone.

        Raises:
            Stopped: it could not be written, or GitHub says that it is gone and lists it: another would be a second.
        """
        if same(comment.body, text):
            return Published("unchanged", comment.url)
        clash = self.wanted.clash(comment.body)
        if clash and self.wanted.worse(comment.body):
            return self._clashed(comment)
        if not clash and self.wanted.mode == "changes" and not self.wanted.changed(comment.body):
            return Published("unchanged", comment.url)
        try:
            written = self.github.edit(
                lambda: self.github.api.update_comment(comment.id, text),
                lambda: self.github.api.comments(self.number),
                comment,
                text,
                _UNKNOWN.format("written"),
            )
        except ApiError as error:
            if error.kind == "not_found" and not self._listed(comment):
                return None
            raise Stopped(self._unwritten(error)) from error
        return self._clashed(written) if clash else Published("updated", written.url)

    def _listed(self, comment: Comment) -> bool:
        """Tell whether GitHub still lists a comment that it said is gone; where it cannot be asked, it may."""
        try:
            return any(listed.id == comment.id for listed in self.github.api.comments(self.number))
        except ApiError:
            return True

    def _create(self, text: str) -> Outcome:
        error: ApiError | None = None
        for _ in range(TRIES):
            try:
                return Published("created", self.github.api.create_comment(self.number, text).url)
            except ApiError as unclear:
                if not unclear.accepted:
                    raise Stopped(self._unwritten(unclear)) from unclear
                error = unclear
            found = self.github.poll_or_stop(
                lambda: self._like(text),
                lambda found: found is not None and same(found.body, text),
                _UNKNOWN.format("made"),
            )
            if found is not None:
                if same(found.body, text):
                    return Published("created", found.url)
                # Somebody else's of the same name: another step made it in the meantime.
                outcome = self._replace(found, self._rendered(found.body))
                if outcome is not None:
                    return outcome
        assert error is not None
        return Failed(f"{sentence(error)}; {_UNKNOWN.format('made')}")

    def _like(self, text: str) -> Comment | None:
        """Return our comment, preferably with this text."""
        ours = self._ours()
        return next((comment for comment in ours if same(comment.body, text)), ours[0] if ours else None)

    def _ours(self) -> Sequence[Comment]:
        """Return our comments with the marker that are not hidden, the newest first."""
        listed = self.github.api.comments(self.number)
        marked = [comment for comment in listed if first_line(comment.body) == self.first_line]
        marked.sort(key=lambda comment: comment.id, reverse=True)
        # Anybody can write the marker any number of times: the newest that are ours end the search.
        for start in range(0, len(marked), _ASKED_AT_ONCE):
            some = marked[start : start + _ASKED_AT_ONCE]
            owned = self.github.ours(some, "a comment with our marker is")
            if ours := [comment for comment, found in owned if not found.minimized]:
                return ours
        return ()

    def _clashed(self, comment: Comment) -> Outcome:
        return Failed(
            f"two steps of this run write the same comment ({comment.url}), which shows the worse verdict of the two: "
            "give each step its own `comment-id`, and a `check-name`, as GitHub shows one check run of a name"
        )

    def _unread(self, error: ApiError) -> Outcome:
        also = " (`pull-requests: write` to write the comment)"
        what = "the comments could not be read"
        return self.github.refused(what, "pull-requests: read", error, also, missing=NO_PULL)

    def _unwritten(self, error: ApiError) -> Outcome:
        return self.github.refused("the comment could not be written", "pull-requests: write", error, missing=NO_PULL)


def _with_others(outcome: Outcome, count: int) -> Outcome:
    if count < 2 or not isinstance(outcome, Published):
        return outcome
    detail = f"{outcome.detail}; {count} comments have this marker, of which this is the newest: delete the others"
    return Published(detail, outcome.url)
