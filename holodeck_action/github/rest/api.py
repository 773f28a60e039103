"""The connection to one repository on GitHub, through PyGithub's objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from holodeck_action.github.rest.objects import ApiError, ErrorKind
from holodeck_action.github.rest.payload import is_repository
from holodeck_action.seam.extras import way_to_get
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from github.Issue import Issue
    from github.IssueComment import IssueComment
    from github.PullRequestComment import PullRequestComment
    from github.PullRequestReview import PullRequestReview
    from github.Repository import Repository

    from holodeck_action.github.rest.requester import BoundedRequester

    Text = Issue | IssueComment | PullRequestComment | PullRequestReview

PUBLIC_API_URL = "https://api.github.com"
TIMEOUT_S = 15.0
"""Timeout in seconds for a connection, and for each read of a response."""
MOST_NODES = 100
"""Maximum number of ids in one GraphQL query (GitHub, node limit)."""

_TOKEN = lazy_pattern(r"[!-~]+")
_PAGE = lazy_pattern(r"https?://[A-Za-z0-9./:?#@!$&*+,;=%_~\[\]-]+")
_BOT_SUFFIX = "[bot]"
_NO_TOKEN = "there is no token: leave the input github-token to its default, or set GITHUB_TOKEN"  # noqa: S105
_GRAPHQL_KINDS: Mapping[str, ErrorKind] = {
    "FORBIDDEN": "denied",
    "INSUFFICIENT_SCOPES": "denied",
    "RATE_LIMITED": "rate_limited",
    "RATE_LIMIT": "rate_limited",
    "NOT_FOUND": "not_found",
}
_OWNERSHIP = """
query Ownership($ids: [ID!]!) {
  viewer { login }
  nodes(ids: $ids) {
    id
    ... on Comment { viewerDidAuthor author { __typename login } }
    ... on Minimizable { isMinimized }
  }
}
"""

_T = TypeVar("_T")
_P = ParamSpec("_P")


def reading(call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let a function that reads PyGithub's objects raise `ApiError` if a field is missing or of another type."""

    @wraps(call)
    def wrapped(*arguments: _P.args, **options: _P.kwargs) -> _T:
        try:
            return call(*arguments, **options)
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
            name = type(error).__name__
        except Exception as error:
            from github.GithubException import BadAttributeException, GithubException

            if not isinstance(error, BadAttributeException | GithubException):
                raise
            name = type(error).__name__
        raise ApiError(f"GitHub's answer cannot be used: a field is not as documented ({name})", "unavailable", None)

    return wrapped


@reading
def every(items: Iterable[_T], key: str, *fields: str) -> tuple[_T, ...]:
    """Return the entries of a list by PyGithub, each once although entries move between pages.

    Args:
        items: the list.
        key: the field that identifies an entry.
        fields: further fields, which are read here, so that later reads of them do not fail.
    """
    found: dict[Any, _T] = {}
    for item in items:
        found[getattr(item, key)] = item
        for name in fields:
            getattr(item, name)
    return tuple(found.values())


@reading
def page_url(item: Any) -> str:
    """Return the URL of an object's page; empty if it is not clearly a URL, since it becomes a link."""
    url = item.html_url
    return url if isinstance(url, str) and _PAGE.fullmatch(url) else ""


@reading
def user_permissions(api: Api) -> Mapping[str, Any]:
    """Return the rights of the token's user in the repository, such as `push`; empty if GitHub does not list them.

    The token itself may have fewer rights.
    """
    found = api.repository.permissions
    return {} if found is None else found.raw_data


class Ownership(Struct, frozen=True):
    """Whether this action's token wrote a comment or review, and whether a user has hidden it."""

    own: bool
    minimized: bool


def connect(
    token: str,
    api_url: str | None,
    repository: str,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
    timeout_s: float = TIMEOUT_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> Api:
    """Return the connection to one repository, without calling GitHub.

    Args:
        token: token that authenticates the requests.
        api_url: URL of the REST API, as in the runner's `GITHUB_API_URL`; `PUBLIC_API_URL` if it is None.
        repository: `owner/name`.
        pause: waits for a number of seconds before a request is repeated.
        clock: returns the seconds since the epoch.
        timeout_s: timeout in seconds for a connection, and for each read of a response.
        monotonic: returns monotonic seconds, which limit the time of a whole response.

    Raises:
        ApiError: an argument is invalid, or PyGithub is not installed.
    """
    if not token:
        raise ApiError(_NO_TOKEN, "invalid", None)
    if not _TOKEN.fullmatch(token):
        raise ApiError("the GitHub token has characters that no token has", "denied", None)
    api_url = PUBLIC_API_URL if api_url is None else api_url
    if not _is_api_url(api_url):
        raise ApiError("GITHUB_API_URL is not the address of an API, such as https://api.github.com", "invalid", None)
    if not is_repository(repository):
        raise ApiError("the repository is not given as owner/name", "invalid", None)
    try:
        from github.Repository import Repository

        from holodeck_action.github.rest.requester import BoundedRequester
    except ModuleNotFoundError:
        needed = f"calls to GitHub need the Python package 'PyGithub', which is not installed; {way_to_get('github')}"
        raise ApiError(needed, "invalid", None) from None
    requester = BoundedRequester(token, api_url, pause=pause, clock=clock, timeout_s=timeout_s, monotonic=monotonic)
    return Api(Repository(requester, url=f"/repos/{repository}"), requester, f"/repos/{repository}", pause, timeout_s)


class Api:
    """One repository; a context manager.

    Every request raises `ApiError` if it fails. Requests that can safely be repeated (reads, edits of a comment) are
    repeated before. Requests that create or append are only repeated if GitHub refused them because of a rate limit;
    otherwise `ApiError.accepted` is whether GitHub may have carried them out.

    Attributes:
        repository: PyGithub's object, whose methods send the requests.
    """

    def __init__(
        self,
        repository: Repository,
        requester: BoundedRequester,
        path: str,
        pause: Callable[[float], None],
        timeout_s: float,
    ) -> None:
        self.repository = repository
        self._requester, self._path, self._pause, self._timeout_s = requester, path, pause, timeout_s

    def close(self) -> None:
        """Close the connections."""
        self._requester.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @reading
    def viewer(self) -> str:
        """Return the login of the token's user, such as `github-actions[bot]`; a server without GraphQL is an error."""
        login: str = self._query("query Viewer { viewer { login } }", {})["viewer"]["login"]
        return login

    @reading
    def ownership(self, node_ids: Sequence[str]) -> Mapping[str, Ownership]:
        """Return, by node id, whether a comment, review or issue is ours and hidden; unknown ids are omitted.

        A server without GraphQL, or one that refuses the token, causes an `ApiError`; callers then use the author type.
        """
        known: dict[str, Ownership] = {}
        ids = list(dict.fromkeys(node_ids))
        for start in range(0, len(ids), MOST_NODES):
            some = ids[start : start + MOST_NODES]
            data = self._query(_OWNERSHIP, {"ids": some})
            viewer, nodes = data["viewer"]["login"], data["nodes"]
            if len(nodes) != len(some) or not all(node is None or isinstance(node["id"], str) for node in nodes):
                raise ValueError
            known |= {
                node["id"]: Ownership(_is_own(node, viewer), bool(node.get("isMinimized")))
                for node in nodes
                if node is not None
            }
        return known

    def download_artifact(self, artifact_id: int, max_bytes: int) -> bytes:
        """Return the zip file of an artifact, at most `max_bytes` bytes."""
        from holodeck_action.github.rest.downloads import fetch

        path = f"{self._path}/actions/artifacts/{artifact_id:d}/zip"
        address = self._requester.file_address(path)
        # What it says is shown without the address, which is a key to the file.
        return fetch(address, f"GET {path}", max_bytes, pause=self._pause, timeout_s=self._timeout_s)

    def _query(self, text: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Send a GraphQL query, and return its data. It must not be a mutation, since it may be repeated."""
        url = self._requester.graphql_url
        _, answer = self._requester.requestJsonAndCheck("POST", url, input={"query": text, "variables": variables})
        for error in answer.get("errors") or ():
            described = error if isinstance(error, dict) else {}
            kind, message = str(described.get("type")), described.get("message")
            # An id that is gone is reported as an error, and as a null among the nodes.
            if kind != "NOT_FOUND" or not answer.get("data"):
                reason = self._requester.masked_line(message if isinstance(message, str) else "no reason given")
                sentence = f"GitHub refused POST /graphql: {reason}"
                raise ApiError(sentence, _GRAPHQL_KINDS.get(kind, "invalid"), 200)
        data: dict[str, Any] = answer["data"]
        return data


def _is_own(node: Any, viewer: str) -> bool:
    if node.get("viewerDidAuthor"):
        return True
    author = node.get("author")
    if author is None:
        return False
    login: str = author["login"]
    if viewer.endswith(_BOT_SUFFIX) and not login.endswith(_BOT_SUFFIX):
        # GraphQL has a bot's login without the suffix: a person may have the same one.
        return author.get("__typename") == "Bot" and login == viewer.removesuffix(_BOT_SUFFIX)
    return login == viewer


def _is_api_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("https", "http") and bool(parts.hostname) and (parts.port or 1) > 0 and text.isprintable()
        )
    except ValueError:
        return False
