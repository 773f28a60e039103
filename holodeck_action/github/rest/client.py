"""Requests to GitHub over HTTP: one policy of repeats, bounds on what comes back, one error for all that goes wrong.

This module imports httpx2: import it only where GitHub is asked.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO, Generic, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

import httpx2
from msgspec import Struct

from holodeck_action import __version__
from holodeck_action.github.rest.answers import (
    GraphqlRefusal,
    TooLargeError,
    TooSlowError,
    body_of,
    graphql_refusal,
    is_untrusted,
    json_of,
    kind_of,
    loss,
    message_of,
)
from holodeck_action.github.rest.objects import ApiError, ShapeError
from holodeck_action.github.rest.retry import (
    LONGEST_WAITS_S,
    MOST_REPEATS,
    MOST_TIMEOUTS,
    rate_limit_wait,
    reads,
    repeatable,
    retry_after,
)
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor

T = TypeVar("T")

PAGE = 100
"""Entries of a page, the most that GitHub gives."""
MOST_PAGES = 100
WRITE_INTERVAL_S = 1.0
"""Seconds between writes (GitHub, best practices for the REST API)."""
MOST_BYTES = 64 * 1024 * 1024
"""Of one answer, decompressed: a page of 100 comments of 65,536 characters of 4 bytes takes 26 MB."""

_BODY_TIMEOUTS = 4
_MOST_REDIRECTS = 3
_MESSAGE = 300
_NEXT = re.compile(r"""rel=["']?next\b""")


class _Answer(Struct, Generic[T], frozen=True):
    """An answer with a status below 300: what was read of its JSON, and whether it says that there is another page."""

    status: int
    value: T
    more: bool


class _RedirectedError(Exception):
    def __init__(self, status: int, location: str) -> None:
        super().__init__(status)
        self.status = status
        self.location = location


class _FailedError(Exception):
    """An attempt failed.

    Attributes:
        error: what is raised where it was the last one.
        wait: seconds until the next one; None where there must be none.
    """

    def __init__(self, error: ApiError, wait: float | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


class _Attempts(Struct):
    """What a request has been through: how often it was repeated, timed out, and was refused for the rate."""

    repeats: int = 0
    timeouts: int = 0
    limited: int = 0

    @property
    def backoff(self) -> float:
        return 2.0**self.repeats


class Client:
    """Makes requests; every problem is an `ApiError` whose sentence shows no token.

    Args:
        token: sent with every request.
        api_url: of the REST API, such as `https://api.github.com` or `https://host/api/v3`.
        pause: waits for seconds.
        clock: seconds since the epoch.
        timeout_s: seconds for a connection, and for each piece of an answer.

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
    ) -> None:
        self._base = api_url.rstrip("/")
        parts = urlsplit(self._base)
        self._origin = (parts.scheme, parts.hostname, parts.port)
        self._prefix = parts.path + "/"
        self._redactor = Redactor((token,))
        self._pause = pause
        self._clock = clock
        self._timeout_s = timeout_s
        self._waits_left = LONGEST_WAITS_S
        # A proxy cannot reach what listens on this machine, which needs no second between writes either.
        local = is_loopback(parts.hostname or "")
        self._interval = 0.0 if local else WRITE_INTERVAL_S
        self._next_write = 0.0
        headers = {
            "accept": "application/vnd.github+json",
            "authorization": f"Bearer {token}",
            "user-agent": f"holodeck-action/{__version__}",
        }
        try:
            # Certificates are not read for plain HTTP on this machine: that takes longer than a request.
            verify = not local or parts.scheme == "https"
            self._http = httpx2.Client(headers=headers, timeout=timeout_s, trust_env=not local, verify=verify)
        except (ImportError, OSError, ValueError, httpx2.InvalidURL):
            problem = "the proxy or the certificates that the environment names cannot be used"
            raise ApiError(f"GitHub cannot be asked: {problem}", "invalid", None) from None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(self, method: str, path: str, read: Callable[[Any], T], *, body: Mapping[str, Any] | None = None) -> T:
        """Make one request, and return what `read` makes of the answer's JSON.

        Args:
            method: GET, POST, PATCH or PUT.
            path: below the API's address, its parts quoted.
            read: raises `ShapeError` for what was not asked for.
            body: sent as JSON.

        Raises:
            ApiError: it was not answered with success.
        """
        return self._request(method, path, self._base + path, body, read).value

    def pages(self, path: str, parameters: Mapping[str, Any], read: Callable[[Any], Iterable[T]]) -> tuple[T, ...]:
        """Return the entries of all pages of a list, each once: what moves to the next page meanwhile comes again.

        Pages are asked for by number: addresses in answers are not followed.

        Raises:
            ApiError: a page did not come, or there are more than `MOST_PAGES`.
        """
        found: dict[T, None] = {}
        for number in range(1, MOST_PAGES + 1):
            query = urlencode({**parameters, "per_page": PAGE, "page": number})
            answer = self._request("GET", path, f"{self._base}{path}?{query}", None, read)
            page = dict.fromkeys(answer.value)
            if page and page.keys() <= found.keys() and answer.more:
                raise self._unusable("GET", path, answer.status, "it repeats a page")
            found |= page
            if not answer.more:
                return tuple(found)
        raise self._unusable("GET", path, answer.status, f"it goes on after {MOST_PAGES} pages of {PAGE}")

    def query(self, text: str, variables: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        """Ask GraphQL a query, never a mutation: it may be asked twice; return what `read` makes of the data.

        Raises:
            ApiError: it was not answered.
        """
        url = self._base.removesuffix("/v3") + "/graphql"

        def checked(answer: Any) -> GraphqlRefusal | T:
            return graphql_refusal(answer) or read(answer.get("data"))

        answer = self._request("POST", urlsplit(url).path, url, {"query": text, "variables": variables}, checked)
        if isinstance(answer.value, GraphqlRefusal):
            sentence = f"GitHub refused {self._named('POST', '/graphql')}: {self._safe(answer.value.message)}"
            raise ApiError(sentence, answer.value.kind, answer.status)
        return answer.value

    def download(self, path: str, most: int, into: BinaryIO) -> None:
        """Write a file to which the API redirects.

        Args:
            path: below the API's address, its parts quoted.
            most: bytes that it may have.
            into: takes what came, from where it stands; after an error perhaps a part of it.

        Raises:
            ApiError: it could not be had, or it is larger.
        """
        from holodeck_action.github.rest.downloads import fetch

        address = self._location(path)
        if not self._is_storage(address):
            raise self._unusable("GET", path, None, "it leads to no address of a file")
        # What it says is shown without the address, which is a key to the file.
        fetch(address, self._named("GET", path), most, into, pause=self._pause, timeout_s=self._timeout_s)

    def _location(self, path: str) -> str:
        """Return where a file is; a repository that was renamed is followed."""
        url = self._base + path
        for _ in range(1 + _MOST_REDIRECTS):
            try:
                self._repeated("GET", path, url, None, _no_file)
            except _RedirectedError as redirected:
                url = _absolute(self._base, redirected.location)
                if not self._is_api(url, "repo"):
                    return url
        raise self._unusable("GET", path, None, f"more than {_MOST_REDIRECTS} redirects")

    def _is_storage(self, address: str) -> bool:
        """Tell whether a file may be had from an address: encrypted, unless the API is not either."""
        parts = urlsplit(address)
        return bool(parts.hostname) and parts.scheme in ("https", self._origin[0])

    def _is_api(self, address: str, below: str = "") -> bool:
        try:
            parts = urlsplit(address)
            same = (parts.scheme, parts.hostname, parts.port) == self._origin
        except ValueError:
            return False
        return same and parts.path.startswith(self._prefix + below)

    def _request(
        self, method: str, path: str, url: str, body: Mapping[str, Any] | None, read: Callable[[Any], T]
    ) -> _Answer[T]:
        # Half a character, as a cut of text in another encoding leaves it, makes GitHub refuse all of the request.
        content = (
            None if body is None else json.dumps(body, ensure_ascii=False, default=_plain).encode(errors="replace")
        )
        for _ in range(1 + _MOST_REDIRECTS):
            try:
                return self._repeated(method, path, url, content, read)
            except _RedirectedError as redirected:
                # A repository that was renamed. The parameters are part of the new address.
                url = self._moved(method, path, redirected)
        raise self._unusable(method, path, None, f"more than {_MOST_REDIRECTS} redirects")

    def _repeated(
        self, method: str, path: str, url: str, content: bytes | None, read: Callable[[Any], T]
    ) -> _Answer[T]:
        """Ask until there is an answer, or until it must not be asked again."""
        attempts = _Attempts()
        while True:
            try:
                return self._attempt(method, path, url, content, read, attempts)
            except _FailedError as failed:
                if failed.wait is None or attempts.repeats == MOST_REPEATS:
                    raise failed.error from None
                if failed.wait > self._waits_left:
                    left = "none" if self._waits_left < 1 else f"only {self._waits_left:.0f}"
                    total = f"of the {LONGEST_WAITS_S:.0f} seconds that calls to GitHub may wait, {left} are left"
                    raise failed.error.going_on(f"; {total}") from None
                wait = failed.wait
            self._waits_left -= wait
            attempts.repeats += 1
            self._pause(wait)

    def _attempt(
        self,
        method: str,
        path: str,
        url: str,
        content: bytes | None,
        read: Callable[[Any], T],
        attempts: _Attempts,
    ) -> _Answer[T]:
        headers = {} if content is None else {"content-type": "application/json"}
        if method != "GET" and (early := self._next_write - time.monotonic()) > 0:
            self._pause(early)
        try:
            with self._http.stream(method, url, content=content, headers=headers) as response:
                status = response.status_code
                # With 202 GitHub says that it is still computing the answer.
                if status >= 400 or (status == 202 and method == "GET"):
                    raise self._refused(method, path, response, attempts)
                data = body_of(response, MOST_BYTES, _BODY_TIMEOUTS * self._timeout_s)
                if status >= 300:
                    raise _RedirectedError(status, response.headers.get("location", ""))
                return _Answer(status, read(json_of(data)), bool(_NEXT.search(response.headers.get("link", ""))))
        except ShapeError as error:
            wait = attempts.backoff if reads(method, path) else None
            raise _FailedError(self._unusable(method, path, status, str(error)), wait) from None
        except TooLargeError:
            raise self._unusable(method, path, None, f"it is larger than {MOST_BYTES:,} bytes") from None
        except (httpx2.RequestError, TooSlowError) as error:
            raise self._lost(method, path, error, attempts) from None
        except (httpx2.InvalidURL, httpx2.StreamError) as error:
            # Their texts may hold what was sent: only the name is shown.
            raise self._unusable(method, path, None, f"it led to {type(error).__name__}") from None
        finally:
            if method != "GET":
                self._next_write = time.monotonic() + self._interval

    def _refused(self, method: str, path: str, response: httpx2.Response, attempts: _Attempts) -> _FailedError:
        status = response.status_code
        message = message_of(response)
        wait = None
        if status in (403, 429):
            wait = rate_limit_wait(status, response.headers, message, self._clock(), attempts.limited)
            attempts.limited += 1
            if wait is not None:
                sentence = f"GitHub's rate limit is used up for {self._named(method, path)}: {self._again_in(wait)}"
                return _FailedError(ApiError(sentence, "rate_limited", status), wait)
        elif (status >= 500 or status == 202) and repeatable(method, path):
            wait = max(attempts.backoff, retry_after(response.headers.get("retry-after"), self._clock()) or 0.0)
        kind = kind_of(status)
        sentence = f"GitHub answered {status} to {self._named(method, path)}: {self._safe(message)}"
        accepted = kind == "unavailable" and not reads(method, path)
        return _FailedError(ApiError(sentence, kind, status, accepted=accepted), wait)

    def _lost(self, method: str, path: str, error: Exception, attempts: _Attempts) -> _FailedError:
        reason, sent = loss(error)
        attempts.timeouts += isinstance(error, httpx2.TimeoutException | TooSlowError)
        again = (
            attempts.timeouts <= MOST_TIMEOUTS and not is_untrusted(error) and (not sent or repeatable(method, path))
        )
        sentence = f"GitHub could not be asked {self._named(method, path)}: {reason}"
        lost = ApiError(sentence, "unavailable", None, accepted=sent and not reads(method, path))
        return _FailedError(lost, attempts.backoff if again else None)

    def _unusable(self, method: str, path: str, status: int | None, problem: str) -> ApiError:
        sentence = f"GitHub's answer to {self._named(method, path)} cannot be used: {problem}"
        return ApiError(sentence, "unavailable", status, accepted=not reads(method, path))

    def _moved(self, method: str, path: str, redirected: _RedirectedError) -> str:
        location = _absolute(self._base, redirected.location)
        if not self._is_api(location):
            raise self._unusable(method, path, redirected.status, "it leads to another place than the API")
        return location

    def _again_in(self, wait: float) -> str:
        if wait > 24 * 3600:
            return "it takes requests again in more than a day"
        moment = datetime.fromtimestamp(self._clock() + wait, UTC)
        return f"it takes requests again at {moment:%H:%M:%S} UTC, in {max(1, round(wait)):,} seconds"

    def _named(self, method: str, path: str) -> str:
        return f"{method} {self._safe(path)}"

    def _safe(self, text: str) -> str:
        return one_line(self._redactor.text(text), _MESSAGE)


def _absolute(base: str, location: str) -> str:
    """Return the address that a redirect leads to; empty for none."""
    try:
        return urljoin(base, location) if location else ""
    except ValueError:
        return ""


def _no_file(answer: Any) -> None:
    raise ShapeError("it is no redirect to a file")


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)
