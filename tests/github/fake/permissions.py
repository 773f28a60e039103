"""What a token may do (GitHub's documentation of each call, "Fine-grained access tokens" and the Checks guide)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["installation", "classic", "fine-grained"]
Level = Literal["read", "write"]
Permissions = Mapping[str, Level]
NOT_ACCESSIBLE: Mapping[Kind, str] = {
    "installation": "Resource not accessible by integration",
    "classic": "Not Found",
    "fine-grained": "Resource not accessible by personal access token",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token: the job's own (`installation`, also of other GitHub Apps) or a personal one.

    Attributes:
        login: who acts; a bot's ends with `[bot]`.
        kind: what kind of token.
        permissions: `read` or `write` by name, such as `pull_requests`; what is absent is none. For a classic token
            they stand for its scopes.
    """

    login: str
    kind: Kind = "installation"
    permissions: Permissions = field(default_factory=dict)

    @property
    def author_type(self) -> str:
        """The `type` of the user that it acts as."""
        return "Bot" if self.kind == "installation" else "User"

    def can(self, level: Level, *names: str) -> bool:
        """Tell whether it has at least a level of one of the permissions."""
        enough = ("write",) if level == "write" else ("read", "write")
        return any(self.permissions.get(name) in enough for name in names)


@dataclass(frozen=True, slots=True)
class Need:
    """What a call needs: a level of one of some permissions; `app`: and to be a GitHub App."""

    level: Level
    names: tuple[str, ...]
    app: bool = False


COMMENT = ("issues", "pull_requests")
_REPO = "/repos/{owner}/{repo}"
NEEDS: Mapping[tuple[str, str], Need | None] = {
    ("GET", "/meta"): None,
    ("GET", "/user"): None,
    ("GET", "/rate_limit"): None,
    ("GET", _REPO): None,
    ("POST", f"{_REPO}/check-runs"): Need("write", ("checks",), app=True),
    ("GET", f"{_REPO}/check-runs/{{check_run_id}}"): Need("read", ("checks",)),
    ("PATCH", f"{_REPO}/check-runs/{{check_run_id}}"): Need("write", ("checks",), app=True),
    ("GET", f"{_REPO}/check-runs/{{check_run_id}}/annotations"): Need("read", ("checks",)),
    ("GET", f"{_REPO}/commits/{{ref}}/check-runs"): Need("read", ("checks",)),
    ("GET", f"{_REPO}/commits/{{commit_sha}}/branches-where-head"): Need("read", ("contents",)),
    ("GET", f"{_REPO}/commits/{{commit_sha}}/pulls"): Need("read", ("pull_requests",)),
    ("GET", f"{_REPO}/issues"): Need("read", COMMENT[:1]),
    ("POST", f"{_REPO}/issues"): Need("write", COMMENT[:1]),
    ("GET", f"{_REPO}/issues/{{issue_number}}"): Need("read", COMMENT),
    ("PATCH", f"{_REPO}/issues/{{issue_number}}"): Need("write", COMMENT[:1]),
    ("GET", f"{_REPO}/issues/{{issue_number}}/comments"): Need("read", COMMENT),
    ("POST", f"{_REPO}/issues/{{issue_number}}/comments"): Need("write", COMMENT),
    ("GET", f"{_REPO}/issues/comments/{{comment_id}}"): Need("read", COMMENT),
    ("PATCH", f"{_REPO}/issues/comments/{{comment_id}}"): Need("write", COMMENT),
    ("DELETE", f"{_REPO}/issues/comments/{{comment_id}}"): Need("write", COMMENT),
    ("GET", f"{_REPO}/pulls"): Need("read", ("pull_requests",)),
    ("GET", f"{_REPO}/pulls/{{pull_number}}"): Need("read", ("pull_requests",)),
    ("GET", f"{_REPO}/pulls/{{pull_number}}/files"): Need("read", ("pull_requests",)),
    ("GET", f"{_REPO}/pulls/{{pull_number}}/reviews"): Need("read", ("pull_requests",)),
    ("POST", f"{_REPO}/pulls/{{pull_number}}/reviews"): Need("write", ("pull_requests",)),
    ("GET", f"{_REPO}/pulls/{{pull_number}}/reviews/{{review_id}}"): Need("read", ("pull_requests",)),
    ("PUT", f"{_REPO}/pulls/{{pull_number}}/reviews/{{review_id}}"): Need("write", ("pull_requests",)),
    ("GET", f"{_REPO}/pulls/{{pull_number}}/comments"): Need("read", ("pull_requests",)),
    ("GET", f"{_REPO}/pulls/comments/{{comment_id}}"): Need("read", ("pull_requests",)),
    ("PATCH", f"{_REPO}/pulls/comments/{{comment_id}}"): Need("write", ("pull_requests",)),
    ("DELETE", f"{_REPO}/pulls/comments/{{comment_id}}"): Need("write", ("pull_requests",)),
    ("GET", f"{_REPO}/commits"): Need("read", ("contents",)),
    ("GET", f"{_REPO}/compare/{{basehead}}"): Need("read", ("contents",)),
    ("POST", f"{_REPO}/git/blobs"): Need("write", ("contents",)),
    ("GET", f"{_REPO}/git/blobs/{{file_sha}}"): Need("read", ("contents",)),
    ("POST", f"{_REPO}/git/trees"): Need("write", ("contents",)),
    ("GET", f"{_REPO}/git/trees/{{tree_sha}}"): Need("read", ("contents",)),
    ("POST", f"{_REPO}/git/commits"): Need("write", ("contents",)),
    ("GET", f"{_REPO}/git/commits/{{commit_sha}}"): Need("read", ("contents",)),
    ("GET", f"{_REPO}/git/ref/{{ref}}"): Need("read", ("contents",)),
    ("POST", f"{_REPO}/git/refs"): Need("write", ("contents",)),
    ("PATCH", f"{_REPO}/git/refs/{{ref}}"): Need("write", ("contents",)),
    ("GET", f"{_REPO}/actions/runs/{{run_id}}"): Need("read", ("actions",)),
    ("GET", f"{_REPO}/actions/artifacts"): Need("read", ("actions",)),
    ("GET", f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}"): Need("read", ("actions",)),
}


def denial(token: Token, method: str, template: str) -> tuple[int, str] | None:
    """Return the status and message with which GitHub denies a call; None when the token may make it."""
    need = NEEDS[method, template]
    if (method, template) == ("GET", "/user") and token.kind == "installation":
        return 403, NOT_ACCESSIBLE["installation"]
    if need is None:
        return None
    if need.app and token.kind != "installation":
        return 403, "You must authenticate via a GitHub App."
    # Fine-grained tokens have no permission for checks at all.
    if token.can(need.level, *need.names) and not (need.names == ("checks",) and token.kind == "fine-grained"):
        return None
    # GitHub does not tell an OAuth scope what is there.
    return (404 if token.kind == "classic" else 403), NOT_ACCESSIBLE[token.kind]
