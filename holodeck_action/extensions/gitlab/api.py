"""GitLab's REST API, version 4, as far as a note on a merge request needs it (https://docs.gitlab.com/api/notes/)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Self, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holodeck_action.suite.hosts import is_loopback
from holodeck_action.text.foreign import Foreign, ForeignError
from holodeck_action.text.plain import one_line

T = TypeVar("T")

TOKEN = "GITLAB_TOKEN"  # noqa: S105 - a name
_PER_PAGE = 100
_MOST_PAGES = 100
_TIMEOUT_S = 30.0
_MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of an answer; a page of 100 notes may have 100 million characters, but few have more than 65,000."""


class NoPlaceError(Exception):
    """There is no merge request to write to, or no token; the message is a clause. `requested` is whether a note was
    expected."""

    def __init__(self, clause: str, *, requested: bool) -> None:
        super().__init__(clause)
        self.requested = requested


class GitLabError(Exception):
    """A call failed; the message is a clause without secrets and without text of the server."""


class User(Struct, frozen=True):
    """A user."""

    id: int


class Note(Struct, frozen=True):
    """A note."""

    id: int
    body: str
    author: User


class MergeRequest(Struct, frozen=True):
    """A merge request: the newest commit of its source branch, and its page."""

    sha: str | None
    web_url: str


class Place(Struct, frozen=True):
    """A merge request as the variables of a pipeline name it.

    Attributes:
        url: URL of the merge request in the API.
        user_url: URL of the token's user in the API.
        source_sha: the commit of the source branch for which the pipeline runs.
        project: URL of the project's pages, without a slash at the end; empty if unknown.
        job: name of the job.
        run: `PIPELINE/JOB`.
        job_url: URL of the job's page; None if unknown.
    """

    url: str
    user_url: str
    source_sha: str
    project: str
    job: str
    run: str
    job_url: str | None

    @classmethod
    def of_pipeline(cls, environ: Mapping[str, str]) -> Self:
        """Return the merge request of a pipeline.

        Raises:
            NoPlaceError: the pipeline is not one of a merge request, or its API is not encrypted.
        """
        api, number = environ.get("CI_API_V4_URL", ""), environ.get("CI_MERGE_REQUEST_IID", "")
        project = environ.get("CI_MERGE_REQUEST_PROJECT_ID") or environ.get("CI_PROJECT_ID", "")
        if not api:
            raise NoPlaceError("CI_API_V4_URL is not set: this is not a job of GitLab", requested=True)
        if not number:
            raise NoPlaceError("this pipeline is not one of a merge request", requested=False)
        parts = urlsplit(api)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise NoPlaceError("CI_API_V4_URL is not an https:// address", requested=True)
        if not (project.isdecimal() and number.isdecimal()):
            raise NoPlaceError("CI_PROJECT_ID or CI_MERGE_REQUEST_IID is not a number", requested=True)
        return cls(
            f"{api.rstrip('/')}/projects/{project}/merge_requests/{number}",
            f"{api.rstrip('/')}/user",
            environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environ.get("CI_COMMIT_SHA", ""),
            (environ.get("CI_MERGE_REQUEST_PROJECT_URL") or environ.get("CI_PROJECT_URL", "")).rstrip("/"),
            environ.get("CI_JOB_NAME", ""),
            f"{environ.get('CI_PIPELINE_ID', '')}/{environ.get('CI_JOB_ID', '')}",
            environ.get("CI_JOB_URL"),
        )


class GitLab:
    """The notes of one merge request. Nothing is sent twice, and redirects are not followed."""

    def __init__(self, place: Place, token: str) -> None:
        """Open a client, without a call.

        Raises:
            GitLabError: the environment names a proxy or certificates that cannot be used.
        """
        from holodeck_action.github.rest.connection import http_client
        from holodeck_action.github.rest.objects import ApiError

        self._place, self._headers = place, {"PRIVATE-TOKEN": token}
        try:
            self._client = http_client(place.url, _TIMEOUT_S)
        except ApiError as error:
            raise GitLabError("the proxy or the certificates of the environment cannot be used") from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def merge_request(self) -> MergeRequest:
        """Return the merge request."""
        return self._call("GET", self._place.url, MergeRequest)

    def own_note(self, first_line: str) -> Note | None:
        """Return the newest note of the token's own user that begins with a line; None if there is none. A marker is no
        proof of authorship, since anyone can write it."""
        user = self._call("GET", self._place.user_url, User)
        own = (note for note in self._notes() if note.author.id == user.id)
        return next((note for note in own if note.body.partition("\n")[0].rstrip() == first_line), None)

    def _notes(self) -> Iterator[Note]:
        for page in range(1, _MOST_PAGES + 1):
            found = self._call(
                "GET", f"{self._place.url}/notes?sort=desc&per_page={_PER_PAGE}&page={page}", tuple[Note, ...]
            )
            yield from found
            if len(found) < _PER_PAGE:
                return

    def write(self, body: str, earlier: Note | None) -> Note:
        """Create a note, or replace the body of an earlier one."""
        notes = f"{self._place.url}/notes"
        method, url = ("POST", notes) if earlier is None else ("PUT", f"{notes}/{earlier.id}")
        return self._call(method, url, Note, {"body": body})

    def _call(self, method: str, url: str, kind: type[T], content: Mapping[str, str] | None = None) -> T:
        """Return the answer to a request.

        Raises:
            GitLabError: GitLab did not answer, refused the request, or gave another answer than the documented one.
        """
        import httpx2

        from holodeck_action.github.rest.connection import TooLargeError, TooSlowError, describe_failure, read_body

        try:
            with self._client.stream(method, url, headers=self._headers, json=content) as response:
                body = Foreign(read_body(response, _MOST_BYTES, _TIMEOUT_S, time.monotonic))
        except TooLargeError:
            raise GitLabError(f"GitLab's answer has more than {_MOST_BYTES:,} bytes") from None
        except (httpx2.HTTPError, TooSlowError) as error:
            raise GitLabError(f"GitLab did not answer: {describe_failure(error)[0]}") from None
        status = response.status_code
        if status in (401, 403):
            advice = f"{TOKEN} must be an access token with the role Reporter and the scope api"
            raise GitLabError(f"GitLab refused the call (HTTP {status}); {advice}")
        if not 200 <= status < 300:
            raise GitLabError(f"GitLab answered with HTTP {status} to {method} {one_line(urlsplit(url).path, 200)}")
        try:
            return msgspec.convert(body.json(), kind, strict=True)
        except (ForeignError, msgspec.ValidationError):
            raise GitLabError("GitLab's answer is not the documented one") from None
