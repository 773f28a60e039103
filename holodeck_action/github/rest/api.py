"""The calls to GitHub's REST and GraphQL APIs."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar
from urllib.parse import quote, urlsplit

from holodeck_action.github.rest import objects, stored_objects
from holodeck_action.github.rest.objects import (
    ApiError,
    ChangedFile,
    CheckRun,
    CheckState,
    Comment,
    InlineComment,
    Issue,
    Ownership,
    Pull,
)
from holodeck_action.github.rest.stored_objects import Artifact, Commit, TreeEntry, WorkflowRun
from holodeck_action.seam.extras import way_to_get
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holodeck_action.github.rest.client import Client

TIMEOUT_S = 15.0
"""Timeout in seconds for a connection, and for each read of a response."""

PER_PAGE = 100
"""Number of commits or artifacts per page, the maximum that GitHub allows."""
MOST_NODES = 100
"""Maximum number of ids in one GraphQL query (GitHub, node limit)."""

_T = TypeVar("_T")
_MERGE_BASE, _REFERENCE, _TREE = (
    partial(stored_objects.nested_hash, name=name) for name in ("merge_base_commit", "object", "tree")
)
_REPOSITORY = lazy_pattern(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+")
_TOKEN = lazy_pattern(r"[!-~]+")


def connect(
    token: str,
    api_url: str,
    repository: str,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
    timeout_s: float = TIMEOUT_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> Api:
    """Return the API client for one repository, without calling GitHub.

    Args:
        token: token that authenticates the requests.
        api_url: URL of the REST API, as in the runner's `GITHUB_API_URL`, such as `https://api.github.com`.
        repository: `owner/name`.
        pause: waits for a number of seconds before a request is repeated.
        clock: returns the seconds since the epoch.
        timeout_s: timeout in seconds for a connection, and for each read of a response.
        monotonic: returns monotonic seconds, which limit the time of a whole response.

    Raises:
        ApiError: an argument is invalid, or PyGithub is not installed.
    """
    if not _TOKEN.fullmatch(token):
        raise ApiError("the GitHub token is empty or has characters that no token has", "denied", None)
    if not _is_api_url(api_url):
        raise ApiError("GITHUB_API_URL is not the address of an API, such as https://api.github.com", "invalid", None)
    if not _REPOSITORY.fullmatch(repository) or repository.split("/")[1] in (".", ".."):
        raise ApiError("the repository is not given as owner/name", "invalid", None)
    try:
        from holodeck_action.github.rest.client import Client
    except ModuleNotFoundError:
        needed = f"calls to GitHub need the Python package 'PyGithub', which is not installed; {way_to_get('github')}"
        raise ApiError(needed, "invalid", None) from None
    client = Client(token, api_url, pause=pause, clock=clock, timeout_s=timeout_s, monotonic=monotonic)
    return Api(client, repository)


class Api:
    """Client for one repository; a context manager. Every method raises `ApiError` if its request fails.

    Lists are complete when they are returned. A response that differs from GitHub's documentation is an `ApiError`.

    Requests that can safely be repeated (reads, edits of a comment) are repeated before an error is raised. Requests
    that create or append are only repeated if GitHub refused them because of a rate limit; otherwise
    `ApiError.accepted` is whether GitHub may have carried them out.
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

    def user_permissions(self) -> Mapping[str, bool]:
        """Return the rights of the token's user in the repository, such as `push`; empty if GitHub does not list them.

        The token itself may have fewer rights.
        """
        return self._call_one("GET", "", objects.user_permissions)

    def pull(self, number: int) -> Pull:
        """Return a pull request."""
        return self._call_one("GET", f"/pulls/{number:d}", objects.pull)

    def pulls_of_commit(self, sha: str) -> Sequence[Pull]:
        """Return the pull requests, of any state, that contain a commit."""
        return self._call_all(f"/commits/{_part(sha)}/pulls", objects.pull)

    def branches_at(self, sha: str) -> Sequence[str]:
        """Return the names of the branches whose newest commit is `sha`."""
        return self._call_one("GET", f"/commits/{_part(sha)}/branches-where-head", stored_objects.branch_names)

    def pulls_of_head(self, owner: str, branch: str) -> Sequence[Pull]:
        """Return the open pull requests from a branch of `owner`'s repository, perhaps a fork."""
        return self._call_all("/pulls", objects.pull, {"head": f"{owner}:{branch}", "state": "open"})

    def comments(self, number: int) -> Sequence[Comment]:
        """Return the comments on a pull request, oldest first."""
        return self._call_all(f"/issues/{number:d}/comments", objects.comment)

    def ownership(self, node_ids: Sequence[str]) -> Mapping[str, Ownership]:
        """Return, by node id, whether a comment, review or issue is ours and hidden; unknown ids are omitted.

        A server without GraphQL, or one that refuses the token, causes an `ApiError`; callers then use the author type.
        """
        known: dict[str, Ownership] = {}
        ids = list(dict.fromkeys(node_ids))
        for start in range(0, len(ids), MOST_NODES):
            some = ids[start : start + MOST_NODES]
            known |= self._client.query(objects.OWNERSHIP, {"ids": some}, partial(objects.ownerships, ids=some))
        return known

    def create_comment(self, number: int, body: str) -> Comment:
        """Create a comment on a pull request."""
        return self._call_one("POST", f"/issues/{number:d}/comments", objects.comment, {"body": body})

    def update_comment(self, comment_id: int, body: str) -> Comment:
        """Replace the body of a comment."""
        return self._call_one("PATCH", f"/issues/comments/{comment_id:d}", objects.comment, {"body": body})

    def viewer(self) -> str:
        """Return the login of the token's user, such as `github-actions[bot]`; a server without GraphQL is an error."""
        return self._client.query(objects.VIEWER, {}, objects.viewer_login)

    def issues(self, author: str | None) -> Sequence[Issue]:
        """Return the issues and pull requests of any state, by one author, or by all if `author` is None."""
        return self._call_all(
            "/issues", objects.issue, {"state": "all", **({} if author is None else {"creator": author})}
        )

    def create_issue(self, title: str, body: str) -> Issue:
        """Create an issue."""
        return self._call_one("POST", "/issues", objects.issue, {"title": title, "body": body})

    def update_issue(self, number: int, body: str, state: Literal["open", "closed"] | None = None) -> Issue:
        """Replace the body of an issue, and close it as completed or open it again if `state` is given."""
        reasons = {"open": "reopened", "closed": "completed"}
        change = {} if state is None else {"state": state, "state_reason": reasons[state]}
        return self._call_one("PATCH", f"/issues/{number:d}", objects.issue, {"body": body, **change})

    def create_check(self, sha: str, name: str, external_id: str, state: CheckState) -> CheckRun:
        """Create a check run on a commit."""
        body = {"name": name, "head_sha": sha, "external_id": external_id, **objects.check_body(state, name=name)}
        return self._call_one("POST", "/check-runs", objects.check_run, body)

    def update_check(self, check_id: int, state: CheckState) -> CheckRun:
        """Update a check run; the annotations in `state` are added to its existing ones."""
        return self._call_one("PATCH", f"/check-runs/{check_id:d}", objects.check_run, objects.check_body(state))

    def check(self, check_id: int) -> CheckRun:
        """Return a check run."""
        return self._call_one("GET", f"/check-runs/{check_id:d}", objects.check_run)

    def checks(self, sha: str, name: str) -> Sequence[CheckRun]:
        """Return the check runs with a name on a commit, including those that newer runs replaced."""
        parameters = {"check_name": name, "filter": "all"}
        return self._call_all(f"/commits/{_part(sha)}/check-runs", objects.check_run, parameters, key="check_runs")

    def files(self, number: int) -> Sequence[ChangedFile]:
        """Return the changed files of a pull request; GitHub lists at most 3,000."""
        return self._call_all(f"/pulls/{number:d}/files", objects.changed_file)

    def reviews(self, number: int) -> Sequence[Comment]:
        """Return the reviews of a pull request, oldest first."""
        return self._call_all(f"/pulls/{number:d}/reviews", objects.comment)

    def review_comments(self, number: int) -> Sequence[Comment]:
        """Return the inline comments of a pull request's reviews."""
        return self._call_all(f"/pulls/{number:d}/comments", objects.comment)

    def create_review(self, number: int, sha: str, body: str, comments: Sequence[InlineComment]) -> Comment:
        """Create a review with the event COMMENT."""
        return self._call_one(
            "POST", f"/pulls/{number:d}/reviews", objects.comment, objects.review_body(sha, body, comments)
        )

    def update_review(self, number: int, review_id: int, body: str) -> Comment:
        """Replace the body of a review."""
        return self._call_one("PUT", f"/pulls/{number:d}/reviews/{review_id:d}", objects.comment, {"body": body})

    def update_review_comment(self, comment_id: int, body: str) -> Comment:
        """Replace the body of an inline comment."""
        return self._call_one("PATCH", f"/pulls/comments/{comment_id:d}", objects.comment, {"body": body})

    def default_branch(self) -> str:
        """Return the name of the default branch."""
        return self._call_one("GET", "", stored_objects.default_branch)

    def merge_base(self, base: str, head: str) -> str:
        """Return the hash of the merge base of two commits, each given as a hash or a branch."""
        # The commits between them are of no interest.
        return self._call_one("GET", f"/compare/{_part(base)}...{_part(head)}?per_page=1", _MERGE_BASE)

    def commits(self, start: str, page: int) -> Sequence[Commit]:
        """Return page `page` of a commit and its ancestors, 100 per page, newest first; empty after the last page."""
        path = f"/commits?sha={_part(start)}&per_page={PER_PAGE}&page={page:d}"
        return self._call_one("GET", path, lambda data: objects.read_list(data, stored_objects.commit))

    def commit(self, sha: str) -> Commit:
        """Return a commit with its parents."""
        return self._call_one("GET", f"/git/commits/{_part(sha)}", stored_objects.commit)

    def artifacts(self, name: str | None, page: int) -> Sequence[Artifact | None]:
        """Return page `page` of the artifacts with a name (None: all), newest first; None for an artifact without a
        workflow run."""
        named = "" if name is None else f"&name={_part(name)}"
        path = f"/actions/artifacts?per_page={PER_PAGE}&page={page:d}{named}"
        return self._call_one("GET", path, lambda data: objects.read_list(data, stored_objects.artifact, "artifacts"))

    def download_artifact(self, artifact_id: int, max_bytes: int, output: BinaryIO) -> None:
        """Write the zip file of an artifact, at most `max_bytes` bytes, to `output`."""
        self._client.download(f"{self._root}/actions/artifacts/{artifact_id:d}/zip", max_bytes, output)

    def workflow_run(self, run_id: int) -> WorkflowRun:
        """Return a workflow run."""
        return self._call_one("GET", f"/actions/runs/{run_id:d}", stored_objects.workflow_run)

    def branch(self, name: str) -> str:
        """Return the hash of a branch's newest commit."""
        return self._call_one("GET", f"/git/ref/{_part(f'heads/{name}')}", _REFERENCE)

    def tree_of(self, commit: str) -> str:
        """Return the hash of a commit's tree."""
        return self._call_one("GET", f"/git/commits/{_part(commit)}", _TREE)

    def tree(self, sha: str) -> Sequence[TreeEntry]:
        """Return all entries of a tree, including those of its subfolders."""
        return self._call_one("GET", f"/git/trees/{_part(sha)}?recursive=1", stored_objects.tree)

    def blob(self, sha: str) -> bytes:
        """Return the content of a file."""
        return self._call_one("GET", f"/git/blobs/{_part(sha)}", stored_objects.blob)

    def create_blob(self, content: bytes) -> str:
        """Create a blob with a file's content; return its hash."""
        body = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
        return self._call_one("POST", "/git/blobs", stored_objects.created_hash, body)

    def create_tree(self, base: str | None, changes: Mapping[str, str | None]) -> str:
        """Create a tree from another one with changed files; return its hash.

        Args:
            base: hash of the other tree; None to start from an empty one.
            changes: hash of each changed file's blob by path; None removes the file.
        """
        entries = [{"path": path, "mode": "100644", "type": "blob", "sha": sha} for path, sha in changes.items()]
        body = {"tree": entries, **({} if base is None else {"base_tree": base})}
        return self._call_one("POST", "/git/trees", stored_objects.created_hash, body)

    def create_commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Create a commit that no branch contains yet; return its hash."""
        body = {"tree": tree, "parents": list(parents), "message": message}
        return self._call_one("POST", "/git/commits", stored_objects.created_hash, body)

    def create_branch(self, name: str, commit: str) -> None:
        """Create a branch. If it exists, the error's kind is `invalid`."""
        self._call_one("POST", "/git/refs", _REFERENCE, {"ref": f"refs/heads/{name}", "sha": commit})

    def advance_branch(self, name: str, commit: str) -> None:
        """Fast-forward a branch to a commit. If the commit is not a descendant, the error's kind is `invalid`."""
        path = f"/git/refs/{_part(f'heads/{name}')}"
        self._call_one("PATCH", path, _REFERENCE, {"sha": commit, "force": False})

    def _call_one(
        self, method: str, path: str, parse: Callable[[Any], _T], body: Mapping[str, Any] | None = None
    ) -> _T:
        return self._client.call(method, self._root + path, parse, body=body)

    def _call_all(
        self, path: str, parse: Callable[[Any], _T], parameters: Mapping[str, Any] | None = None, key: str | None = None
    ) -> tuple[_T, ...]:
        return self._client.pages(self._root + path, parameters or {}, lambda data: objects.read_list(data, parse, key))


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
