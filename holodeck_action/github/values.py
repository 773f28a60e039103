"""GitHub's JSON as the values of `remote`, read strictly, and the bodies of requests that are made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from holodeck_action.github.remote import (
    ChangedFile,
    CheckRun,
    CheckState,
    Comment,
    InlineComment,
    Ownership,
    Pull,
    Review,
)

_T = TypeVar("_T")
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PAGE = re.compile(r"https?://[A-Za-z0-9./:?#@!$&*+,;=%_~\[\]-]+")
_SUFFIX = "[bot]"


class ShapeError(ValueError):
    """JSON that is not what GitHub describes; the message names the field, in words of ours."""


def pull(data: Any) -> Pull:
    """Read a pull request; a deleted fork has no head repository."""
    head, base = _object(data, "head"), _object(data, "base")
    repository = _optional(head, "repo", dict)
    merge = _optional(data, "merge_commit_sha", str)
    return Pull(
        number=_id(data, "number"),
        state=_field(data, "state", str),
        head_sha=_sha(_field(head, "sha", str), "head.sha"),
        head_repository=None if repository is None else _field(repository, "full_name", str),
        base_repository=_field(_object(base, "repo"), "full_name", str),
        merge_sha=None if merge is None else _sha(merge, "merge_commit_sha"),
    )


def comment(data: Any) -> Comment:
    """Read a comment on a pull request."""
    login, kind = _author(data)
    return Comment(
        id=_id(data, "id"),
        node_id=_field(data, "node_id", str),
        body=_optional(data, "body", str) or "",
        author=login,
        author_type=kind,
        url=_page(data),
    )


def inline_comment(data: Any) -> Comment:
    """Read an inline comment of a review."""
    return replace(
        comment(data),
        path=_field(data, "path", str),
        line=_optional(data, "line", int),
        review_id=_optional(data, "pull_request_review_id", int),
    )


def review(data: Any) -> Review:
    """Read a review."""
    login, kind = _author(data)
    return Review(
        id=_id(data, "id"),
        node_id=_field(data, "node_id", str),
        body=_optional(data, "body", str) or "",
        author=login,
        author_type=kind,
        url=_page(data),
        state=_field(data, "state", str),
    )


def check_run(data: Any) -> CheckRun:
    """Read a check run."""
    return CheckRun(
        id=_id(data, "id"),
        url=_page(data),
        external_id=_optional(data, "external_id", str) or "",
        annotations=_field(_object(data, "output"), "annotations_count", int),
    )


def changed_file(data: Any) -> ChangedFile:
    """Read a file of a pull request's diff."""
    path, status = _field(data, "filename", str), _field(data, "status", str)
    return ChangedFile(path=path, status=status, patch=_optional(data, "patch", str))


def listed(data: Any, read: Callable[[Any], _T], key: str | None = None) -> tuple[_T, ...]:
    """Read a page of a list, which stands under `key` where GitHub wraps it."""
    items = data if key is None else _field(data, key, list)
    if not isinstance(items, list):
        raise ShapeError("it is no list")
    return tuple(read(item) for item in items)


def ownerships(data: Any, asked: Sequence[str]) -> dict[str, Ownership]:
    """Read the data of the query `OWNERSHIP`; ids that GitHub does not know are left out."""
    viewer = _field(_object(data, "viewer"), "login", str)
    nodes = _field(data, "nodes", list)
    if len(nodes) != len(asked):
        raise ShapeError("`nodes` has another length than what was asked for")
    return {
        _field(node, "id", str): Ownership(
            own=_own(node, viewer), minimized=_optional(node, "isMinimized", bool) or False
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
    if _optional(node, "viewerDidAuthor", bool):
        return True
    author = _optional(node, "author", dict)
    if author is None:
        return False
    login = _field(author, "login", str)
    if viewer.endswith(_SUFFIX) and not login.endswith(_SUFFIX):
        # GraphQL has a bot's login without the suffix: a person may have the same one.
        return author.get("__typename") == "Bot" and login == viewer.removesuffix(_SUFFIX)
    return login == viewer


def _author(data: Any) -> tuple[str, str]:
    # Whoever deletes an account leaves comments that nobody wrote.
    user = _optional(data, "user", dict)
    return ("ghost", "User") if user is None else (_field(user, "login", str), _field(user, "type", str))


def _page(data: Any) -> str:
    # It becomes a link: what could be anything but an address is none.
    url = _optional(data, "html_url", str) or ""
    return url if _PAGE.fullmatch(url) else ""


def _sha(value: str, name: str) -> str:
    if not _SHA.fullmatch(value):
        raise ShapeError(f"`{name}` is no commit")
    return value


def _id(data: Any, name: str) -> int:
    value = _field(data, name, int)
    if value < 1:
        raise ShapeError(f"`{name}` is not 1 or more")
    return value


def _object(data: Any, name: str) -> dict[str, Any]:
    return _field(data, name, dict)


def _field(data: Any, name: str, kind: type[_T]) -> _T:
    value = _optional(data, name, kind)
    if value is None:
        raise ShapeError(f"`{name}` is missing")
    return value


def _optional(data: Any, name: str, kind: type[_T]) -> _T | None:
    if not isinstance(data, Mapping):
        raise ShapeError(f"`{name}` is asked of what is no object")
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ShapeError(f"`{name}` is of another type")
    return value
