"""GitHub's objects as the channels use them, read strictly from its JSON, and the bodies of requests.

Texts that come from here were written by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

ErrorKind = Literal["denied", "not_found", "invalid", "rate_limited", "unavailable"]

_T = TypeVar("_T")
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PAGE = re.compile(r"https?://[A-Za-z0-9./:?#@!$&*+,;=%_~\[\]-]+")
_SUFFIX = "[bot]"


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

    def going_on(self, more: str) -> ApiError:
        """Return the error with more behind its sentence."""
        return ApiError(f"{self}{more}", self.kind, self.status, accepted=self.accepted)

    def needing(self, permission: str) -> str:
        """Return the sentence with the way out of a refusal, such as `contents: read` for the job."""
        if self.status == 401:
            return f"{self}; give github-token a token that is valid"
        return f"{self}; add {permission} to the permissions: of the job" if self.kind == "denied" else str(self)


class Pull(Struct, frozen=True):
    """A pull request.

    `head_repository` is `owner/name`, None for a deleted fork; `merge_sha` the test merge commit, where GitHub has one.
    """

    number: int
    state: str
    head_sha: str
    head_repository: str | None
    base_repository: str
    merge_sha: str | None


class Comment(Struct, frozen=True):
    """A comment on a pull request, a review of it, or an inline comment of a review."""

    id: int
    node_id: str
    body: str
    author_type: str
    url: str


class Ownership(Struct, frozen=True):
    """Whether we wrote a comment or review, and whether somebody has hidden it."""

    own: bool
    minimized: bool


class CheckRun(Struct, frozen=True):
    """A check run; `annotations` is how many it has."""

    id: int
    url: str
    external_id: str
    annotations: int


class ChangedFile(Struct, frozen=True):
    """A file of a pull request's diff; `patch` is None for binary or very large ones."""

    path: str
    patch: str | None


class InlineComment(Struct, frozen=True):
    """An inline comment to make: on a line of the new side of the diff."""

    path: str
    line: int
    body: str


class CheckState(Struct, frozen=True):
    """What a check run is set to; None leaves a field out.

    Attributes:
        status: `in_progress` or `completed`.
        conclusion: of a completed one.
        title: headline of the output.
        summary: Markdown of at most `reports.size_limit.CHECK`.
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


class ShapeError(ValueError):
    """JSON that is not what GitHub describes; the message names the field, in words of ours."""


def pull(data: Any) -> Pull:
    """Read a pull request; a deleted fork has no head repository."""
    head, base = _object(data, "head"), _object(data, "base")
    repository = optional_field(head, "repo", dict)
    merge = optional_field(data, "merge_commit_sha", str)
    return Pull(
        number=object_id(data, "number"),
        state=required_field(data, "state", str),
        head_sha=_sha(required_field(head, "sha", str), "head.sha"),
        head_repository=None if repository is None else required_field(repository, "full_name", str),
        base_repository=required_field(_object(base, "repo"), "full_name", str),
        merge_sha=None if merge is None else _sha(merge, "merge_commit_sha"),
    )


def comment(data: Any) -> Comment:
    """Read a comment on a pull request, a review of it, or an inline comment of a review."""
    # Whoever deletes an account leaves comments that nobody wrote.
    user = optional_field(data, "user", dict)
    return Comment(
        id=object_id(data),
        node_id=required_field(data, "node_id", str),
        body=optional_field(data, "body", str) or "",
        author_type="User" if user is None else required_field(user, "type", str),
        url=_page(data),
    )


def check_run(data: Any) -> CheckRun:
    """Read a check run."""
    return CheckRun(
        id=object_id(data),
        url=_page(data),
        external_id=optional_field(data, "external_id", str) or "",
        annotations=required_field(_object(data, "output"), "annotations_count", int),
    )


def changed_file(data: Any) -> ChangedFile:
    """Read a file of a pull request's diff."""
    return ChangedFile(path=required_field(data, "filename", str), patch=optional_field(data, "patch", str))


def listed(data: Any, read: Callable[[Any], _T], key: str | None = None) -> tuple[_T, ...]:
    """Read a page of a list, which stands under `key` where GitHub wraps it."""
    items = data if key is None else required_field(data, key, list)
    if not isinstance(items, list):
        raise ShapeError("it is no list")
    return tuple(read(item) for item in items)


def ownerships(data: Any, asked: Sequence[str]) -> dict[str, Ownership]:
    """Read the data of the query `OWNERSHIP`; ids that GitHub does not know are omitted."""
    viewer = required_field(_object(data, "viewer"), "login", str)
    nodes = required_field(data, "nodes", list)
    if len(nodes) != len(asked):
        raise ShapeError("`nodes` has another length than what was asked for")
    return {
        required_field(node, "id", str): Ownership(
            own=_own(node, viewer), minimized=optional_field(node, "isMinimized", bool) or False
        )
        for node in nodes
        if node is not None
    }


OWNERSHIP = """
query Ownership($ids: [ID!]!) {
  viewer { login }
  nodes(ids: $ids) {
    id
    ... on Comment { viewerDidAuthor author { __typename login } }
    ... on Minimizable { isMinimized }
  }
}
"""
"""Who wrote comments and reviews, and whether they are hidden (GraphQL)."""


def check_body(state: CheckState, *, name: str | None = None) -> dict[str, Any]:
    """Return the body that sets a check run; `name` of a new one, whose output must have a title."""
    output: dict[str, Any] = {}
    if state.title is not None or state.summary is not None or state.annotations:
        title = state.title if state.title is not None else name
        # GitHub asks for a summary whenever there is an output.
        summary = state.summary if state.summary is not None else title or ""
        output = {"summary": summary, "annotations": [dict(annotation) for annotation in state.annotations]}
        if title is not None:
            output["title"] = title
    given = {
        "status": state.status,
        "conclusion": state.conclusion,
        "details_url": state.details_url,
        "completed_at": state.completed_at,
        "output": output or None,
    }
    return {key: value for key, value in given.items() if value is not None}


def review_body(sha: str, body: str, comments: Sequence[InlineComment]) -> dict[str, Any]:
    """Return the body that makes a review with inline comments on the new side of the diff."""
    inline = [{"path": item.path, "line": item.line, "side": "RIGHT", "body": item.body} for item in comments]
    return {"commit_id": sha, "event": "COMMENT", "body": body, **({"comments": inline} if inline else {})}


def _own(node: Any, viewer: str) -> bool:
    if optional_field(node, "viewerDidAuthor", bool):
        return True
    author = optional_field(node, "author", dict)
    if author is None:
        return False
    login = required_field(author, "login", str)
    if viewer.endswith(_SUFFIX) and not login.endswith(_SUFFIX):
        # GraphQL has a bot's login without the suffix: a person may have the same one.
        return author.get("__typename") == "Bot" and login == viewer.removesuffix(_SUFFIX)
    return login == viewer


def _page(data: Any) -> str:
    # It becomes a link: what could be anything but an address is none.
    url = optional_field(data, "html_url", str) or ""
    return url if _PAGE.fullmatch(url) else ""


def _sha(value: str, name: str) -> str:
    if not _SHA.fullmatch(value):
        raise ShapeError(f"`{name}` is no commit")
    return value


def required_hash(data: Any, name: str) -> str:
    """Return a field that is the hash of an object."""
    return _sha(required_field(data, name, str), name)


def object_id(data: Any, name: str = "id") -> int:
    """Return a field that is an id."""
    value = required_field(data, name, int)
    if value < 1:
        raise ShapeError(f"`{name}` is not 1 or more")
    return value


def _object(data: Any, name: str) -> dict[str, Any]:
    return required_field(data, name, dict)


def required_field(data: Any, name: str, kind: type[_T]) -> _T:
    """Return a field that must be there."""
    value = optional_field(data, name, kind)
    if value is None:
        raise ShapeError(f"`{name}` is missing")
    return value


def optional_field(data: Any, name: str, kind: type[_T]) -> _T | None:
    """Return a field; None where it is missing or null."""
    if not isinstance(data, Mapping):
        raise ShapeError(f"`{name}` is asked of what is no object")
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ShapeError(f"`{name}` is of another type")
    return value
