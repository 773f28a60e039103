"""Errors of calls to GitHub, and the pull requests that they are about."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

PER_PAGE = 100
"""Number of entries per page, the maximum that GitHub allows."""
MOST_PAGES = 100
"""Maximum number of pages of a list."""

ErrorKind = Literal["denied", "not_found", "invalid", "rate_limited", "unavailable"]


class ApiError(Exception):
    """A call failed; the message is one sentence without secrets.

    Attributes:
        kind: `denied` (401, 403), `not_found` (404, 410), `rate_limited` (429, or 403 because of a rate limit, for
            longer than we wait), `invalid` (other 4xx, or no request can be made), `unavailable` (408, 5xx, timeout,
            connection, unusable answer).
        status: HTTP status; None if there was no response.
        accepted: whether GitHub may have carried out the request without confirming it: check before repeating it.
    """

    def __init__(self, message: str, kind: ErrorKind, status: int | None, *, accepted: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.accepted = accepted

    def with_suffix(self, suffix: str) -> ApiError:
        """Return the error with `suffix` appended to its message."""
        return ApiError(f"{self}{suffix}", self.kind, self.status, accepted=self.accepted)

    def with_remedy(self, permission: str) -> str:
        """Return the message, with a remedy if access was denied; `permission` is a line such as `contents: read`."""
        if self.status == 401:
            return f"{self}; give github-token a token that is valid"
        return f"{self}; add {permission} to the permissions: of the job" if self.kind == "denied" else str(self)


class Pull(Struct, frozen=True):
    """A pull request.

    `head_repository` is `owner/name`, or None if the fork was deleted; `merge_sha` is the test merge commit, or None.
    """

    number: int
    state: str
    head_sha: str
    head_repository: str | None
    base_repository: str
    merge_sha: str | None


class ShapeError(ValueError):
    """JSON does not have the documented structure; the message names the field and contains no untrusted text."""
