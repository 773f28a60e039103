"""GitHub's objects that the channels use, validated strictly when read from JSON, and the bodies of requests.

Strings in these objects are untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from holodeck_action.text.lazy_patterns import lazy_pattern

ErrorKind = Literal["denied", "not_found", "invalid", "rate_limited", "unavailable"]

_T = TypeVar("_T")
_SHA = lazy_pattern(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PAGE = lazy_pattern(r"https?://[A-Za-z0-9./:?#@!$&*+,;=%_~\[\]-]+")
_SUFFIX = "[bot]"


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


class Comment(Struct, frozen=True):
    """A comment on a pull request, a review, or an inline comment of a review; `url` is empty if it is not valid."""

    id: int
    node_id: str
    body: str
    author_type: str
    url: str


class Issue(Struct, frozen=True):
    """An issue; GitHub lists pull requests as issues, too. `url` is empty if it is not valid."""

    number: int
    node_id: str
    body: str
    author_type: str
    url: str
    open: bool
    is_pull: bool


class Ownership(Struct, frozen=True):
    """Whether this action's token wrote a comment or review, and whether a user has hidden it."""

    own: bool
    minimized: bool


class CheckRun(Struct, frozen=True):
    """A check run; `annotations` is the number of its annotations, `url` is empty if it is not valid."""

    id: int
    url: str
    external_id: str
    annotations: int


class ChangedFile(Struct, frozen=True):
    """A file of a pull request's diff; `patch` is None for binary or very large files."""

    path: str
    patch: str | None


class InlineComment(Struct, frozen=True):
    """An inline comment to create, on a line of the new side of the diff."""

    path: str
    line: int
    body: str


class CheckState(Struct, frozen=True):
    """The new values of a check run; fields that are None are not changed.

    Attributes:
        status: `in_progress` or `completed`.
        conclusion: conclusion of a completed check run.
        title: headline of the output.
        summary: Markdown within the limit `reports.comment.size_limit.CHECK`.
        annotations: at most 50 annotations in the API's format, added to the existing ones.
        details_url: target of the link "Details".
        completed_at: time of completion, ISO 8601 in UTC.
    """

    status: Literal["in_progress", "completed"]
    conclusion: Literal["success", "failure", "neutral", "cancelled"] | None = None
    title: str | None = None
    summary: str | None = None
    annotations: Sequence[Mapping[str, Any]] = field(default=())
    details_url: str | None = None
    completed_at: str | None = None


class ShapeError(ValueError):
    """JSON does not have the documented structure; the message names the field and contains no untrusted text."""


def pull(data: Any) -> Pull:
    """Read a pull request; a deleted fork has no head repository."""
    head, base = _required_object(data, "head"), _required_object(data, "base")
    repository = optional_field(head, "repo", dict)
    merge = optional_field(data, "merge_commit_sha", str)
    return Pull(
        number=object_id(data, "number"),
        state=required_field(data, "state", str),
        head_sha=_sha(required_field(head, "sha", str), "head.sha"),
        head_repository=None if repository is None else required_field(repository, "full_name", str),
        base_repository=required_field(_required_object(base, "repo"), "full_name", str),
        merge_sha=None if merge is None else _sha(merge, "merge_commit_sha"),
    )


def user_permissions(data: Any) -> dict[str, bool]:
    """Read the permissions of the token's user in a repository; empty if the repository has none."""
    object_id(data)
    found = optional_field(data, "permissions", dict) or {}
    return {str(name): given is True for name, given in found.items()}


def comment(data: Any) -> Comment:
    """Read a comment on a pull request, a review, or an inline comment of a review."""
    # Whoever deletes an account leaves comments that have no author.
    user = optional_field(data, "user", dict)
    return Comment(
        id=object_id(data),
        node_id=required_field(data, "node_id", str),
        body=optional_field(data, "body", str) or "",
        author_type="User" if user is None else required_field(user, "type", str),
        url=_page_url(data),
    )


def issue(data: Any) -> Issue:
    """Read an issue."""
    user = optional_field(data, "user", dict)
    return Issue(
        number=object_id(data, "number"),
        node_id=required_field(data, "node_id", str),
        body=optional_field(data, "body", str) or "",
        author_type="User" if user is None else required_field(user, "type", str),
        url=_page_url(data),
        open=required_field(data, "state", str) == "open",
        is_pull=optional_field(data, "pull_request", dict) is not None,
    )


def viewer_login(data: Any) -> str:
    """Read the data of the query `VIEWER`."""
    return required_field(_required_object(data, "viewer"), "login", str)


def check_run(data: Any) -> CheckRun:
    """Read a check run."""
    return CheckRun(
        id=object_id(data),
        url=_page_url(data),
        external_id=optional_field(data, "external_id", str) or "",
        annotations=required_field(_required_object(data, "output"), "annotations_count", int),
    )


def changed_file(data: Any) -> ChangedFile:
    """Read a file of a pull request's diff."""
    return ChangedFile(path=required_field(data, "filename", str), patch=optional_field(data, "patch", str))


def read_list(data: Any, parse: Callable[[Any], _T], key: str | None = None) -> tuple[_T, ...]:
    """Read a page of a list. If GitHub wraps the list in an object, `key` names the object's field, else it is None."""
    items = data if key is None else required_field(data, key, list)
    if not isinstance(items, list):
        raise ShapeError("it is not a list")
    return tuple(parse(item) for item in items)


def ownerships(data: Any, ids: Sequence[str]) -> dict[str, Ownership]:
    """Read the data of the query `OWNERSHIP` for `ids`; ids that GitHub does not know are omitted."""
    viewer = viewer_login(data)
    nodes = required_field(data, "nodes", list)
    if len(nodes) != len(ids):
        raise ShapeError("`nodes` has another length than the list of ids in the query")
    return {
        required_field(node, "id", str): Ownership(
            own=_is_own(node, viewer), minimized=optional_field(node, "isMinimized", bool) or False
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
"""GraphQL query for the authors of comments, reviews and issues, and whether these are hidden."""

VIEWER = "query Viewer { viewer { login } }"
"""GraphQL query for the login of the token's user."""


def check_body(state: CheckState, *, name: str | None = None) -> dict[str, Any]:
    """Return the request body that sets a check run; `name` is given only for a new check run, whose output needs
    a title."""
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
    """Return the request body that creates a review with inline comments on the new side of the diff."""
    inline = [{"path": item.path, "line": item.line, "side": "RIGHT", "body": item.body} for item in comments]
    return {"commit_id": sha, "event": "COMMENT", "body": body, **({"comments": inline} if inline else {})}


def _is_own(node: Any, viewer: str) -> bool:
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


def _page_url(data: Any) -> str:
    # It becomes a link: only what is clearly an address.
    url = optional_field(data, "html_url", str) or ""
    return url if _PAGE.fullmatch(url) else ""


def _sha(value: str, name: str) -> str:
    if not _SHA.fullmatch(value):
        raise ShapeError(f"`{name}` is not a hash")
    return value


def required_hash(data: Any, name: str) -> str:
    """Return a field that contains a hash. Raises: `ShapeError` if it is missing or not a hash."""
    return _sha(required_field(data, name, str), name)


def object_id(data: Any, name: str = "id") -> int:
    """Return a field with an id. Raises: `ShapeError` if it is not a number of at least 1."""
    value = required_field(data, name, int)
    if value < 1:
        raise ShapeError(f"`{name}` is not 1 or more")
    return value


def _required_object(data: Any, name: str) -> dict[str, Any]:
    return required_field(data, name, dict)


def required_field(data: Any, name: str, kind: type[_T]) -> _T:
    """Return a field. Raises: `ShapeError` if it is missing or of another type."""
    value = optional_field(data, name, kind)
    if value is None:
        raise ShapeError(f"`{name}` is missing")
    return value


def optional_field(data: Any, name: str, kind: type[_T]) -> _T | None:
    """Return a field; None if it is missing or null. Raises: `ShapeError` if it is of another type."""
    if not isinstance(data, Mapping):
        raise ShapeError(f"`{name}` belongs to something that is not an object")
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ShapeError(f"`{name}` is of another type")
    return value
