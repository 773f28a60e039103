"""Requests to GitHub through PyGithub, with one retry policy and one exception type, `ApiError`.

PyGithub builds each request: its URL, query, headers with the token, and body. Our `Connection` sends it.

This module imports PyGithub and httpx2: import it only where GitHub is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, cast
from urllib.parse import urljoin, urlsplit

import httpx2
from github import Auth, Github
from msgspec import Struct
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.github.rest.answers import (
    GraphqlRefusal,
    TooLargeError,
    TooSlowError,
    describe_failure,
    error_kind,
    graphql_refusal,
    is_certificate_error,
    parse_body,
)
from holodeck_action.github.rest.connection import MOST_BYTES, Connection, RedirectedError, RefusedError
from holodeck_action.github.rest.objects import ApiError, ShapeError
from holodeck_action.github.rest.retry import (
    MOST_REPEATS,
    MOST_TIMEOUTS,
    TOTAL_WAIT_S,
    is_read,
    is_repeatable,
    rate_limit_wait,
    retry_after,
)
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from github.Requester import HTTPSRequestsConnectionClass

T = TypeVar("T")

PAGE_SIZE = 100
"""Number of entries per page, the maximum that GitHub allows."""
MOST_PAGES = 100
WRITE_INTERVAL_S = 1.0
"""Seconds between writes (GitHub, best practices for the REST API)."""

_MOST_REDIRECTS = 3
_MESSAGE_LIMIT = 300
_NEXT_LINK = lazy_pattern(r"""rel=["']?next\b""")


class _Request(Struct, frozen=True):
    """A request. `address` is the path or URL to request; `path` is the path below the API's URL, for messages."""

    method: str
    path: str
    address: str
    parameters: Mapping[str, Any] = {}
    body: Mapping[str, Any] | None = None


class _Answer(Struct, Generic[T], frozen=True):
    """A response with a status below 300: the value read from its JSON, and whether another page follows."""

    status: int
    value: T
    more: bool


class _FailedError(Exception):
    """An attempt failed.

    Attributes:
        error: the error to raise if this was the last attempt.
        wait: seconds to wait before the next attempt; None if the request must not be repeated.
    """

    def __init__(self, error: ApiError, wait_s: float | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait_s


class _Attempts(Struct):
    """Counts of a request's repeats, timeouts, and refusals because of a rate limit."""

    repeats: int = 0
    timeouts: int = 0
    limited: int = 0

    @property
    def backoff(self) -> float:
        return 2.0**self.repeats


class Client:
    """Sends requests; every problem is an `ApiError`, whose message never contains the token.

    Args:
        token: token that is sent with every request.
        api_url: URL of the REST API, such as `https://api.github.com` or `https://host/api/v3`.
        pause: waits for a number of seconds.
        clock: returns the seconds since the epoch.
        timeout_s: timeout in seconds for a connection, and for each read of a response.
        monotonic: returns monotonic seconds.

    Raises:
        ApiError: the environment names a proxy or certificates that cannot be used.
    """

    def __init__(
        self,
        token: str,
        api_url: str,
        *,
        pause: Callable[[float], None],
        clock: Callable[[], float],
        timeout_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._base = api_url.rstrip("/")
        parts = urlsplit(self._base)
        self._origin = (parts.scheme, parts.hostname, parts.port)
        self._prefix = parts.path + "/"
        self._connection = Connection(self._base, timeout_s, monotonic)
        # PyGithub neither repeats nor waits: both are done here, around each call.
        self._github = Github(
            auth=Auth.Token(token),
            base_url=self._base,
            user_agent=f"holodeck-action/{__version__}",
            per_page=PAGE_SIZE,
            retry=None,
            lazy=True,
            seconds_between_requests=0,
            seconds_between_writes=0,
        )
        self._redactor = Redactor((token,))
        self._pause = pause
        self._clock = clock
        self._monotonic = monotonic
        self._timeout_s = timeout_s
        self._waits_left = TOTAL_WAIT_S
        self._interval = 0.0 if is_loopback(parts.hostname or "") else WRITE_INTERVAL_S
        self._next_write = 0.0

    def close(self) -> None:
        """Close the connections."""
        self._github.close()
        self._connection.close()

    def call(self, method: str, path: str, parse: Callable[[Any], T], *, body: Mapping[str, Any] | None = None) -> T:
        """Send one request, and return the value that `parse` extracts from the response's JSON.

        Args:
            method: GET, POST, PATCH or PUT.
            path: path below the API's URL, with quoted parts.
            parse: converts the JSON; raises `ShapeError` if it is not the expected object.
            body: body to send as JSON; None to send no body.

        Raises:
            ApiError: the request failed.
        """
        return self._send(_Request(method, path, path, body=body), parse).value

    def pages(self, path: str, parameters: Mapping[str, Any], parse: Callable[[Any], Iterable[T]]) -> tuple[T, ...]:
        """Return the entries of all pages of a list, without the duplicates that arise if entries move between pages.

        Pages are requested by number; links in responses are not followed.

        Raises:
            ApiError: a page could not be read, or there are more than `MOST_PAGES` pages.
        """
        found: dict[T, None] = {}
        for number in range(1, MOST_PAGES + 1):
            query = {**parameters, "per_page": self._github.per_page, "page": number}
            answer = self._send(_Request("GET", path, path, query), parse)
            page = dict.fromkeys(answer.value)
            if page and page.keys() <= found.keys() and answer.more:
                raise self._unusable_error("GET", path, answer.status, "it repeats a page")
            found |= page
            if not answer.more:
                return tuple(found)
        raise self._unusable_error(
            "GET", path, answer.status, f"it has more than {MOST_PAGES} pages of {PAGE_SIZE} entries"
        )

    def query(self, text: str, variables: Mapping[str, Any], parse: Callable[[Any], T]) -> T:
        """Send a GraphQL query, and return the value that `parse` extracts from its data.

        The query must not be a mutation, since the request may be repeated.

        Raises:
            ApiError: the request failed.
        """
        url = self._github.requester.graphql_url
        body = {"query": text, "variables": variables}

        def check_refusal(answer: Any) -> GraphqlRefusal | T:
            return graphql_refusal(answer) or parse(answer.get("data"))

        answer = self._send(_Request("POST", urlsplit(url).path, url, body=body), check_refusal)
        if isinstance(answer.value, GraphqlRefusal):
            sentence = (
                f"GitHub refused {self._request_label('POST', '/graphql')}: {self._masked_line(answer.value.message)}"
            )
            raise ApiError(sentence, answer.value.kind, answer.status)
        return answer.value

    def download(self, path: str, max_bytes: int, output: BinaryIO) -> None:
        """Download the file to which the API redirects.

        Args:
            path: path below the API's URL, with quoted parts.
            max_bytes: maximum number of bytes.
            output: file to write to, from its current position; after an error it may contain a part of the download.

        Raises:
            ApiError: the file cannot be downloaded or is larger than `max_bytes` bytes.
        """
        from holodeck_action.github.rest.downloads import fetch

        address = self._resolve_file_url(path)
        parts = urlsplit(address)
        # Encrypted, unless the API is not either.
        if not parts.hostname or parts.scheme not in ("https", self._origin[0]):
            raise self._unusable_error("GET", path, None, "it does not redirect to the URL of a file")
        # What it says is shown without the address, which is a key to the file.
        fetch(
            address, self._request_label("GET", path), max_bytes, output, pause=self._pause, timeout_s=self._timeout_s
        )

    def _resolve_file_url(self, path: str) -> str:
        """Return the URL outside of the API to which `path` redirects. Redirects within the API, as for a renamed
        repository, are followed."""
        address = path
        for _ in range(1 + _MOST_REDIRECTS):
            try:
                self._send_with_retries(_Request("GET", path, address), _refuse_answer)
            except RedirectedError as redirected:
                address = _absolute_url(self._base, redirected)
                if not self._is_api(address, "repo"):
                    return address
        raise self._unusable_error("GET", path, None, f"more than {_MOST_REDIRECTS} redirects")

    def _is_api(self, address: str, prefix: str = "") -> bool:
        try:
            parts = urlsplit(address)
            same = (parts.scheme, parts.hostname, parts.port) == self._origin
        except ValueError:
            return False
        return same and parts.path.startswith(self._prefix + prefix)

    def _send(self, request: _Request, parse: Callable[[Any], T]) -> _Answer[T]:
        if request.body is not None:
            request = replace(request, body=_replace_surrogates(request.body))
        for _ in range(1 + _MOST_REDIRECTS):
            try:
                return self._send_with_retries(request, parse)
            except RedirectedError as redirected:
                # A repository that was renamed. The parameters are part of the new address.
                request = replace(request, address=self._redirect_url(request, redirected), parameters={})
        raise self._unusable_error(request.method, request.path, None, f"more than {_MOST_REDIRECTS} redirects")

    def _send_with_retries(self, request: _Request, parse: Callable[[Any], T]) -> _Answer[T]:
        """Send a request until there is a response, or until it must not be repeated."""
        attempts = _Attempts()
        while True:
            try:
                return self._attempt(request, parse, attempts)
            except _FailedError as failed:
                if failed.wait is None or attempts.repeats == MOST_REPEATS:
                    raise failed.error from None
                if failed.wait > self._waits_left:
                    left = "none" if self._waits_left < 1 else f"only {self._waits_left:.0f}"
                    total = f"of the {TOTAL_WAIT_S:.0f} seconds that calls to GitHub may wait, {left} are left"
                    raise failed.error.with_suffix(f"; {total}") from None
                wait = failed.wait
            self._waits_left -= wait
            attempts.repeats += 1
            self._pause(wait)

    def _attempt(self, request: _Request, parse: Callable[[Any], T], attempts: _Attempts) -> _Answer[T]:
        method, path = request.method, request.path
        if method != "GET" and (early := self._next_write - self._monotonic()) > 0:
            self._pause(early)
        try:
            status, headers, text = self._github.requester.requestJson(
                method,
                request.address,
                dict(request.parameters),
                {"Accept": "application/vnd.github+json"},
                request.body,
                # PyGithub calls its methods and asks nothing else of it.
                cast("HTTPSRequestsConnectionClass", self._connection),
            )
            return _Answer(status, parse(parse_body(text)), bool(_NEXT_LINK.search(headers["link"])))
        except RefusedError as refused:
            raise self._refusal_error(method, path, refused, attempts) from None
        except ShapeError as error:
            wait = attempts.backoff if is_read(method, path) else None
            raise _FailedError(self._unusable_error(method, path, status, str(error)), wait) from None
        except TooLargeError:
            raise self._unusable_error(method, path, None, f"it is larger than {MOST_BYTES:,} bytes") from None
        except (httpx2.RequestError, TooSlowError) as error:
            raise self._no_response_error(method, path, error, attempts) from None
        except (httpx2.InvalidURL, httpx2.StreamError) as error:
            # Their texts may hold what was sent: only the name is shown.
            raise self._unusable_error(method, path, None, f"it raised {type(error).__name__}") from None
        finally:
            if method != "GET":
                self._next_write = self._monotonic() + self._interval

    def _refusal_error(self, method: str, path: str, refused: RefusedError, attempts: _Attempts) -> _FailedError:
        status, headers, message = refused.status, refused.headers, str(refused)
        wait = None
        if status in (403, 429):
            wait = rate_limit_wait(status, headers, message, self._clock(), attempts.limited)
            attempts.limited += 1
            if wait is not None:
                label = self._request_label(method, path)
                sentence = f"GitHub's rate limit is used up for {label}: {self._retry_clause(wait)}"
                return _FailedError(ApiError(sentence, "rate_limited", status), wait)
        elif (status >= 500 or status == 202) and is_repeatable(method, path):
            wait = max(attempts.backoff, retry_after(headers.get("retry-after"), self._clock()) or 0.0)
        kind = error_kind(status)
        sentence = f"GitHub answered {status} to {self._request_label(method, path)}: {self._masked_line(message)}"
        accepted = kind == "unavailable" and not is_read(method, path)
        return _FailedError(ApiError(sentence, kind, status, accepted=accepted), wait)

    def _no_response_error(self, method: str, path: str, error: Exception, attempts: _Attempts) -> _FailedError:
        reason, sent = describe_failure(error)
        attempts.timeouts += isinstance(error, httpx2.TimeoutException | TooSlowError)
        again = (
            attempts.timeouts <= MOST_TIMEOUTS
            and not is_certificate_error(error)
            and (not sent or is_repeatable(method, path))
        )
        sentence = f"GitHub did not answer {self._request_label(method, path)}: {reason}"
        lost = ApiError(sentence, "unavailable", None, accepted=sent and not is_read(method, path))
        return _FailedError(lost, attempts.backoff if again else None)

    def _unusable_error(self, method: str, path: str, status: int | None, problem: str) -> ApiError:
        sentence = f"GitHub's answer to {self._request_label(method, path)} cannot be used: {problem}"
        return ApiError(sentence, "unavailable", status, accepted=not is_read(method, path))

    def _redirect_url(self, request: _Request, redirected: RedirectedError) -> str:
        location = _absolute_url(self._base, redirected)
        if not self._is_api(location):
            problem = "it redirects to a URL outside of the API"
            raise self._unusable_error(request.method, request.path, redirected.status, problem)
        return location

    def _retry_clause(self, wait_s: float) -> str:
        if wait_s > 24 * 3600:
            return "it takes requests again in more than a day"
        moment = datetime.fromtimestamp(self._clock() + wait_s, UTC)
        return f"it takes requests again at {moment:%H:%M:%S} UTC, in {max(1, round(wait_s)):,} seconds"

    def _request_label(self, method: str, path: str) -> str:
        return f"{method} {self._masked_line(path)}"

    def _masked_line(self, text: str) -> str:
        return one_line(self._redactor.text(text), _MESSAGE_LIMIT)


def _absolute_url(base: str, redirected: RedirectedError) -> str:
    """Return the absolute URL of a redirect; an empty string if it is missing or invalid."""
    location = redirected.headers.get("location")
    try:
        return urljoin(base, location) if location else ""
    except ValueError:
        return ""


def _refuse_answer(answer: Any) -> None:
    raise ShapeError("it is not a redirect to a file")


def _replace_surrogates(value: Any) -> Any:
    """Return a JSON value with lone surrogates replaced by `?`, since GitHub would refuse the request.

    A lone surrogate is half of a character, such as after a cut in a UTF-16 string.
    """
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {name: _replace_surrogates(item) for name, item in value.items()}
    return [*map(_replace_surrogates, value)] if isinstance(value, Sequence) else value
