"""GitHub as the channels use it: plain values, one error, and the calls. `holodeck_action.github.api` makes them.

Texts that come from here were written by anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

ErrorKind = Literal["denied", "not_found", "invalid", "rate_limited", "unavailable"]


class ApiError(Exception):
    """A call failed; the message is one sentence without secrets.

    Attributes:
        kind: `denied` (401, or 403 for good), `not_found` (404, 410), `invalid` (400, 409, 422), `rate_limited` (403 or
            429, longer than we wait), `unavailable` (5xx, timeout, connection).
        status: HTTP status; None without an answer.
        accepted: GitHub may have done what was asked although it did not say so: look before asking again.
    """

    def __init__(self, message: str, kind: ErrorKind, status: int | None, *, accepted: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.accepted = accepted


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request.

    `head_repository` is `owner/name`, None for a deleted fork; `merge_sha` the test merge commit, where GitHub has one.
    """

    number: int
    state: str
    head_sha: str
    head_repository: str | None
    base_repository: str
    merge_sha: str | None


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request, or an inline comment of a review (then `path` is its file).

    `line` is None for an inline comment whose line is gone from the diff.
    """

    id: int
    node_id: str
    body: str
    author: str
    author_type: str
    url: str
    path: str | None = None
    line: int | None = None
    review_id: int | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """A review of a pull request."""

    id: int
    node_id: str
    body: str
    author: str
    author_type: str
    url: str
    state: str


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whether we wrote a comment or review, and whether somebody has hidden it."""

    own: bool
    minimized: bool


@dataclass(frozen=True, slots=True)
class CheckRun:
    """A check run; `annotations` is how many it has."""

    id: int
    url: str
    external_id: str
    annotations: int


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a pull request's diff; `patch` is None for binary or very large ones."""

    path: str
    status: str
    patch: str | None


@dataclass(frozen=True, slots=True)
class InlineComment:
    """An inline comment to make: on a line of the new side of the diff."""

    path: str
    line: int
    body: str


@dataclass(frozen=True, slots=True)
class CheckState:
    """What a check run is set to; None leaves a field out.

    Attributes:
        status: `in_progress` or `completed`.
        conclusion: of a completed one.
        title: headline of the output.
        summary: Markdown of at most `reports.budget.CHECK`.
        annotations: at most 50, as the API takes them; they are added to those it has.
        details_url: where "Details" leads.
        completed_at: ISO 8601, UTC.
    """

    status: Literal["in_progress", "completed"]
    conclusion: Literal["success", "failure", "neutral", "cancelled"] | None = None
    title: str | None = None
    summary: str | None = None
    annotations: Sequence[Mapping[str, Any]] = field(default=())
    details_url: str | None = None
    completed_at: str | None = None


class Remote(Protocol):
    """The calls. Each raises ApiError; each bounds its pages, its retries and its waits.

    What can be repeated without harm (reads, edits of a comment) was repeated before an error comes out. What creates
    or appends is only repeated where GitHub refused it for its rate; else `ApiError.accepted` says that it may have
    been done.
    """

    def pull(self, number: int) -> Pull:
        """Return a pull request."""
        ...

    def pulls_of_commit(self, sha: str) -> Sequence[Pull]:
        """Return the pull requests that a commit belongs to, closed ones and those of other repositories, too."""
        ...

    def pulls_of_head(self, owner: str, branch: str) -> Sequence[Pull]:
        """Return the open pull requests from `owner:branch`."""
        ...

    def comments(self, number: int) -> Iterable[Comment]:
        """Yield the comments of a pull request, the oldest first."""
        ...

    def ownership(self, node_ids: Sequence[str]) -> Mapping[str, Ownership]:
        """Tell of comments and reviews whether they are ours and hidden (GraphQL `viewerDidAuthor`, `isMinimized`).

        A GitHub without GraphQL, or one that refuses the token, raises ApiError: the caller goes by the author's type.
        """
        ...

    def create_comment(self, number: int, body: str) -> Comment:
        """Comment on a pull request."""
        ...

    def update_comment(self, comment_id: int, body: str) -> Comment:
        """Replace a comment's body."""
        ...

    def create_check(self, sha: str, name: str, external_id: str, state: CheckState) -> CheckRun:
        """Make a check run of a commit."""
        ...

    def update_check(self, check_id: int, state: CheckState) -> CheckRun:
        """Change a check run; annotations are added to those it has."""
        ...

    def check(self, check_id: int) -> CheckRun:
        """Return a check run."""
        ...

    def checks(self, sha: str, name: str) -> Iterable[CheckRun]:
        """Yield the check runs of a commit that have a name, earlier ones of the same name, too."""
        ...

    def files(self, number: int) -> Iterable[ChangedFile]:
        """Yield the files of a pull request's diff (GitHub lists at most 3,000)."""
        ...

    def reviews(self, number: int) -> Iterable[Review]:
        """Yield the reviews of a pull request, the oldest first."""
        ...

    def review_comments(self, number: int) -> Iterable[Comment]:
        """Yield the inline comments of a pull request."""
        ...

    def create_review(self, number: int, sha: str, body: str, comments: Sequence[InlineComment]) -> Review:
        """Make a review with event COMMENT."""
        ...

    def update_review(self, number: int, review_id: int, body: str) -> Review:
        """Replace a review's body."""
        ...

    def update_review_comment(self, comment_id: int, body: str) -> Comment:
        """Replace an inline comment's body."""
        ...
