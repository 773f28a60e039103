"""The calls to GitHub's REST and GraphQL APIs."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

from holodeck_action.github.rest import objects, stored_objects
from holodeck_action.github.rest.objects import (
    ApiError,
    ChangedFile,
    CheckRun,
    CheckState,
    Comment,
    InlineComment,
    Ownership,
    Pull,
)
from holodeck_action.github.rest.stored_objects import Artifact, Commit, TreeEntry, WorkflowRun

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holodeck_action.github.rest.client import Client

TIMEOUT_S = 15.0
"""Seconds for a connection, and for each piece of an answer."""

PER_PAGE = 100
"""Entries of a page of commits or artifacts, the most that GitHub gives."""
MOST_NODES = 100
"""Ids of one GraphQL query (GitHub, node limit)."""

_T = TypeVar("_T")
_REPOSITORY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+")
_TOKEN = re.compile(r"[!-~]+")


def connect(
    token: str,
    api_url: str,
    repository: str,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
    timeout_s: float = TIMEOUT_S,
) -> Api:
    """Return the calls to one repository. Nothing is asked yet.

    Args:
        token: that signs them.
        api_url: of the REST API, as the runner gives it in `GITHUB_API_URL`, such as `https://api.github.com`.
        repository: `owner/name`.
        pause: waits for seconds, before a request is repeated.
        clock: seconds since the epoch.
        timeout_s: seconds for a connection, and for each piece of an answer.

    Raises:
        ApiError: one of these cannot be one.
    """
    if not _TOKEN.fullmatch(token):
        raise ApiError("the GitHub token is empty or has characters that no token has", "denied", None)
    if not _is_api_url(api_url):
        raise ApiError("GITHUB_API_URL is not the address of an API, such as https://api.github.com", "invalid", None)
    if not _REPOSITORY.fullmatch(repository) or repository.split("/")[1] in (".", ".."):
        raise ApiError("the repository is not given as owner/name", "invalid", None)
    from holodeck_action.github.rest.client import Client

    return Api(Client(token, api_url, pause=pause, clock=clock, timeout_s=timeout_s), repository)


class Api:
    """The calls to one repository; close it when done. Each raises `ApiError`.

    Lists are complete when they are returned. Anything that is not GitHub's described answer is an `ApiError`.

    What can be repeated without harm (reads, edits of a comment) was repeated before an error comes out. What creates
    or appends is only repeated where GitHub refused it for its rate; else `ApiError.accepted` says that it may have
    been done.
    """

    def __init__(self, client: Client, repository: str) -> None:
        self._client = client
        self._root = f"/repos/{repository}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pull(self, number: int) -> Pull:
        """Return a pull request."""
        return self._one("GET", f"/pulls/{number:d}", objects.pull)

    def pulls_of_commit(self, sha: str) -> Sequence[Pull]:
        """Return the pull requests, of any state, that a commit belongs to."""
        return self._all(f"/commits/{_part(sha)}/pulls", objects.pull)

    def pulls_of_head(self, owner: str, branch: str) -> Sequence[Pull]:
        """Return the open pull requests from a branch of `owner`, perhaps a fork's."""
        return self._all("/pulls", objects.pull, {"head": f"{owner}:{branch}", "state": "open"})

    def comments(self, number: int) -> Sequence[Comment]:
        """Return the comments on a pull request, oldest first."""
        return self._all(f"/issues/{number:d}/comments", objects.comment)

    def ownership(self, node_ids: Sequence[str]) -> Mapping[str, Ownership]:
        """Tell of each comment or review whether it is ours and hidden; ids that are not known are omitted.

        A GitHub without GraphQL, or one that refuses the token, raises ApiError: the caller goes by the author's type.
        """
        known: dict[str, Ownership] = {}
        ids = list(dict.fromkeys(node_ids))
        for start in range(0, len(ids), MOST_NODES):
            some = ids[start : start + MOST_NODES]
            known |= self._client.query(objects.OWNERSHIP, {"ids": some}, partial(objects.ownerships, asked=some))
        return known

    def create_comment(self, number: int, body: str) -> Comment:
        """Comment on a pull request."""
        return self._one("POST", f"/issues/{number:d}/comments", objects.comment, {"body": body})

    def update_comment(self, comment_id: int, body: str) -> Comment:
        """Replace a comment's text."""
        return self._one("PATCH", f"/issues/comments/{comment_id:d}", objects.comment, {"body": body})

    def create_check(self, sha: str, name: str, external_id: str, state: CheckState) -> CheckRun:
        """Make a check run on a commit."""
        body = {"name": name, "head_sha": sha, "external_id": external_id, **objects.check_body(state, name=name)}
        return self._one("POST", "/check-runs", objects.check_run, body)

    def update_check(self, check_id: int, state: CheckState) -> CheckRun:
        """Change a check run; its annotations are added to those it has."""
        return self._one("PATCH", f"/check-runs/{check_id:d}", objects.check_run, objects.check_body(state))

    def check(self, check_id: int) -> CheckRun:
        """Return a check run."""
        return self._one("GET", f"/check-runs/{check_id:d}", objects.check_run)

    def checks(self, sha: str, name: str) -> Sequence[CheckRun]:
        """Return the check runs of a name on a commit, also those that newer ones replaced."""
        parameters = {"check_name": name, "filter": "all"}
        return self._all(f"/commits/{_part(sha)}/check-runs", objects.check_run, parameters, key="check_runs")

    def files(self, number: int) -> Sequence[ChangedFile]:
        """Return the files of a pull request's diff, the first 3,000 as GitHub gives them."""
        return self._all(f"/pulls/{number:d}/files", objects.changed_file)

    def reviews(self, number: int) -> Sequence[Comment]:
        """Return the reviews of a pull request, oldest first."""
        return self._all(f"/pulls/{number:d}/reviews", objects.comment)

    def review_comments(self, number: int) -> Sequence[Comment]:
        """Return the inline comments of a pull request's reviews."""
        return self._all(f"/pulls/{number:d}/comments", objects.comment)

    def create_review(self, number: int, sha: str, body: str, comments: Sequence[InlineComment]) -> Comment:
        """Make a review with event COMMENT."""
        return self._one(
            "POST", f"/pulls/{number:d}/reviews", objects.comment, objects.review_body(sha, body, comments)
        )

    def update_review(self, number: int, review_id: int, body: str) -> Comment:
        """Replace a review's text."""
        return self._one("PUT", f"/pulls/{number:d}/reviews/{review_id:d}", objects.comment, {"body": body})

    def update_review_comment(self, comment_id: int, body: str) -> Comment:
        """Replace an inline comment's text."""
        return self._one("PATCH", f"/pulls/comments/{comment_id:d}", objects.comment, {"body": body})

    def default_branch(self) -> str:
        """Return the name of the default branch."""
        return self._one("GET", "", stored_objects.default_branch)

    def merge_base(self, base: str, head: str) -> str:
        """Return the best common ancestor of two commits, each given by its hash or a branch."""
        # The commits between them are of no interest.
        return self._one("GET", f"/compare/{_part(base)}...{_part(head)}?per_page=1", stored_objects.merge_base)

    def commits(self, start: str, page: int) -> Sequence[Commit]:
        """Return a page of 100 of the commits before one and itself, the newest first; none after the last."""
        path = f"/commits?sha={_part(start)}&per_page={PER_PAGE}&page={page:d}"
        return self._one("GET", path, lambda data: objects.listed(data, stored_objects.commit))

    def commit(self, sha: str) -> Commit:
        """Return a commit with its parents."""
        return self._one("GET", f"/git/commits/{_part(sha)}", stored_objects.commit)

    def artifacts(self, name: str | None, page: int) -> Sequence[Artifact | None]:
        """Return a page of 100 of the artifacts, of a name or all, the newest first; None for one of no run."""
        named = "" if name is None else f"&name={_part(name)}"
        path = f"/actions/artifacts?per_page={PER_PAGE}&page={page:d}{named}"
        return self._one("GET", path, lambda data: objects.listed(data, stored_objects.artifact, "artifacts"))

    def download_artifact(self, artifact_id: int, most: int, into: BinaryIO) -> None:
        """Write the zip file of an artifact, of at most so many bytes."""
        self._client.download(f"{self._root}/actions/artifacts/{artifact_id:d}/zip", most, into)

    def workflow_run(self, run_id: int) -> WorkflowRun:
        """Return a run of a workflow."""
        return self._one("GET", f"/actions/runs/{run_id:d}", stored_objects.workflow_run)

    def branch(self, name: str) -> str:
        """Return the commit that a branch names."""
        return self._one("GET", f"/git/ref/{_part(f'heads/{name}')}", stored_objects.reference)

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        return self._one("GET", f"/git/commits/{_part(commit)}", stored_objects.tree_of)

    def tree(self, sha: str) -> Sequence[TreeEntry]:
        """Return everything in and below a folder."""
        return self._one("GET", f"/git/trees/{_part(sha)}?recursive=1", stored_objects.tree)

    def blob(self, sha: str) -> bytes:
        """Return a file."""
        return self._one("GET", f"/git/blobs/{_part(sha)}", stored_objects.blob)

    def create_blob(self, content: bytes) -> str:
        """Write a file that no commit has yet; return its hash."""
        body = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
        return self._one("POST", "/git/blobs", stored_objects.name_of, body)

    def create_tree(self, base: str | None, changes: Mapping[str, str | None]) -> str:
        """Write a tree: another one with files set, or removed where they are None; return its hash.

        Args:
            base: hash of the tree; None for an empty one.
            changes: hash of a file by path.
        """
        entries = [{"path": path, "mode": "100644", "type": "blob", "sha": sha} for path, sha in changes.items()]
        body = {"tree": entries, **({} if base is None else {"base_tree": base})}
        return self._one("POST", "/git/trees", stored_objects.name_of, body)

    def create_commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write a commit that no branch has yet; return its hash."""
        body = {"tree": tree, "parents": list(parents), "message": message}
        return self._one("POST", "/git/commits", stored_objects.name_of, body)

    def create_branch(self, name: str, commit: str) -> None:
        """Make a branch; one that there is is `invalid`."""
        self._one("POST", "/git/refs", stored_objects.reference, {"ref": f"refs/heads/{name}", "sha": commit})

    def advance_branch(self, name: str, commit: str) -> None:
        """Let a branch name a commit that follows the one it names; where it does not follow, that is `invalid`."""
        path = f"/git/refs/{_part(f'heads/{name}')}"
        self._one("PATCH", path, stored_objects.reference, {"sha": commit, "force": False})

    def _one(self, method: str, path: str, read: Callable[[Any], _T], body: Mapping[str, Any] | None = None) -> _T:
        return self._client.call(method, self._root + path, read, body=body)

    def _all(
        self, path: str, read: Callable[[Any], _T], parameters: Mapping[str, Any] | None = None, key: str | None = None
    ) -> tuple[_T, ...]:
        return self._client.pages(self._root + path, parameters or {}, lambda data: objects.listed(data, read, key))


def _part(text: str) -> str:
    return quote(text, safe="")


def _is_api_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("https", "http") and bool(parts.hostname) and (parts.port or 1) > 0 and text.isprintable()
        )
    except ValueError:
        return False
