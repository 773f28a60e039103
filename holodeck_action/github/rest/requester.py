"""PyGithub's requester with our bounds and retries; every problem of a request is an `ApiError`.

PyGithub's own objects (`Repository`, `IssueComment`, …) send all their requests through it. PyGithub's retries
(`GithubRetry`) repeat a POST, read an error of any size, and never see a body that breaks off or is not JSON. Its
connection reads an answer of any size for any time, and its requester asks for ever while GitHub computes an answer
(202). That is why the requests are repeated here, and go over our `Connection`.

This module imports PyGithub and httpx2: import it only where GitHub is called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin, urlsplit

import httpx2
from github import Auth
from github.Requester import Requester
from msgspec import Struct
from msgspec.structs import replace

from holodeck_action import __version__
from holodeck_action.github.rest.answers import (
    TooLargeError,
    TooSlowError,
    check_shape,
    describe_failure,
    error_kind,
    is_certificate_error,
    parse_body,
)
from holodeck_action.github.rest.api import MOST_PAGES, PER_PAGE
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
    from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass

WRITE_INTERVAL_S = 1.0
"""Seconds between writes (GitHub, best practices for the REST API)."""

_MOST_REDIRECTS = 3
_MESSAGE_LIMIT = 300
_NEXT_LINK = lazy_pattern(r"""<([^>]*)>\s*;\s*rel=["']?next\b""")
_RESOURCE = lazy_pattern(r"/(?:repos|repositories)/.*", re.DOTALL)


class _Request(Struct, frozen=True):
    """A request. `address` is the path or URL to request; `path` is the path below the API's URL, for messages."""

    method: str
    path: str
    address: str
    parameters: Mapping[str, Any]
    body: Any

    @property
    def reads(self) -> bool:
        return is_read(self.method, self.path)


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
    """Counts of a request's repeats, timeouts, refusals because of a rate limit, and redirects."""

    repeats: int = 0
    timeouts: int = 0
    limited: int = 0
    redirects: int = 0

    @property
    def backoff(self) -> float:
        return 2.0**self.repeats


class _LeftError(ApiError):
    """A response redirects to a URL outside of the API; `address` is empty if it is missing or invalid."""

    def __init__(self, error: ApiError, address: str) -> None:
        super().__init__(str(error), error.kind, error.status, accepted=error.accepted)
        self.address = address


class BoundedRequester(Requester):
    """Sends the requests of PyGithub's objects; messages of its errors never contain the token.

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
        api_url = api_url.rstrip("/")
        super().__init__(
            auth=Auth.Token(token),
            base_url=api_url,
            timeout=math.ceil(timeout_s),
            user_agent=f"holodeck-action/{__version__}",
            per_page=PER_PAGE,
            verify=True,
            retry=None,
            pool_size=None,
            lazy=True,
        )
        parts = urlsplit(api_url)
        self._origin = (parts.scheme, parts.hostname, parts.port)
        self._root = parts.path + "/"
        self._bounded = Connection(api_url, timeout_s, monotonic)
        self._redactor = Redactor((token,))
        self._pause, self._clock, self._monotonic = pause, clock, monotonic
        self._waits_left = TOTAL_WAIT_S
        self._interval = 0.0 if is_loopback(parts.hostname or "") else WRITE_INTERVAL_S
        self._next_write = 0.0
        self._page_numbers: dict[str, int] = {}

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self._bounded.close()

    def requestJsonAndCheck(  # noqa: N802 - PyGithub's name
        self,
        verb: str,
        url: str,
        parameters: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        input: Any | None = None,
        follow_302_redirect: bool = False,
    ) -> tuple[dict[str, Any], Any]:
        """Send a request, and return the headers and the JSON of its response; see `requestJson`.

        A URL from a response is requested from our API, whatever host it names.
        """
        address = url if url == self.graphql_url else _below_api(url)
        if address is None:
            raise ApiError("GitHub's answer cannot be used: it names a URL outside of the API", "unavailable", None)
        return super().requestJsonAndCheck(verb, address, parameters, headers, input, follow_302_redirect)

    def requestJson(  # noqa: N802 - PyGithub's name
        self,
        verb: str,
        url: str,
        parameters: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        input: Any | None = None,
        cnx: HTTPRequestsConnectionClass | HTTPSRequestsConnectionClass | None = None,
        follow_302_redirect: bool = False,
    ) -> tuple[int, dict[str, Any], str]:
        """Send a request, and return status, headers and body of its response, which is a success with usable JSON.

        Raises:
            ApiError: the request failed.
        """
        request = _Request(verb, urlsplit(url).path, url, parameters or {}, _replace_surrogates(input))
        attempts = _Attempts()
        while True:
            try:
                return self._attempt(request, attempts)
            except RedirectedError as redirected:
                # A repository that was renamed. The parameters are part of the new address.
                request = replace(request, address=self._redirect_url(request, redirected, attempts), parameters={})
                attempts = _Attempts(redirects=attempts.redirects + 1)
            except _FailedError as failed:
                self._wait(failed, attempts)

    def file_address(self, path: str) -> str:
        """Return the URL outside of the API to which `path` redirects.

        Raises:
            ApiError: the request failed, or does not redirect to the URL of a file.
        """
        problem = "it is not a redirect to a file"
        try:
            self.requestJson("GET", path)
        except _LeftError as left:
            parts = urlsplit(left.address)
            # Encrypted, unless the API is not either.
            if parts.hostname and parts.scheme in ("https", self.scheme):
                return left.address
            problem = "it does not redirect to the URL of a file"
        raise self._unusable_error(_Request("GET", path, path, {}, None), None, problem)

    def masked_line(self, text: str) -> str:
        """Return a text from GitHub as one short line without the token."""
        return one_line(self._redactor.text(text), _MESSAGE_LIMIT)

    def _wait(self, failed: _FailedError, attempts: _Attempts) -> None:
        """Wait before a request is repeated. Raises: `ApiError` if it must not be repeated."""
        if failed.wait is None or attempts.repeats == MOST_REPEATS:
            raise failed.error from None
        if failed.wait > self._waits_left:
            left = "none" if self._waits_left < 1 else f"only {self._waits_left:.0f}"
            total = f"of the {TOTAL_WAIT_S:.0f} seconds that calls to GitHub may wait, {left} are left"
            raise failed.error.with_suffix(f"; {total}") from None
        self._waits_left -= failed.wait
        attempts.repeats += 1
        self._pause(failed.wait)

    def _attempt(self, request: _Request, attempts: _Attempts) -> tuple[int, dict[str, Any], str]:
        if request.method != "GET" and (early := self._next_write - self._monotonic()) > 0:
            self._pause(early)
        try:
            status, headers, text = super().requestJson(
                request.method,
                request.address,
                dict(request.parameters),
                {"Accept": "application/vnd.github+json"},
                request.body,
                # PyGithub calls its methods and asks nothing else of it.
                cast("HTTPSRequestsConnectionClass", self._bounded),
            )
            check_shape(parse_body(text), request.method, is_query=request.method == "POST" and request.reads)
        except RefusedError as refused:
            raise self._refusal_error(request, refused, attempts) from None
        except ShapeError as error:
            wait = attempts.backoff if request.reads else None
            raise _FailedError(self._unusable_error(request, status, str(error)), wait) from None
        except TooLargeError:
            raise self._unusable_error(request, None, f"it is larger than {MOST_BYTES:,} bytes") from None
        except (httpx2.RequestError, TooSlowError) as error:
            raise self._no_response_error(request, error, attempts) from None
        except (httpx2.InvalidURL, httpx2.StreamError) as error:
            # Their texts may hold what was sent: only the name is shown.
            raise self._unusable_error(request, None, f"it raised {type(error).__name__}") from None
        finally:
            if request.method != "GET":
                self._next_write = self._monotonic() + self._interval
        self._count_page(request, status, headers.get("link", ""))
        return status, headers, text

    def _count_page(self, request: _Request, status: int, link: str) -> None:
        """Count the pages of a list, which PyGithub follows without end."""
        following = _NEXT_LINK.search(link)
        if following is None:
            return
        address = _below_api(following[1])
        if address is None:
            raise self._unusable_error(request, status, "it names a URL outside of the API")
        if address == request.address:
            raise self._unusable_error(request, status, "it repeats a page")
        number = self._page_numbers.get(request.address, 1) + 1
        if number > MOST_PAGES:
            problem = f"it has more than {MOST_PAGES} pages of {PER_PAGE} entries"
            raise self._unusable_error(request, status, problem)
        self._page_numbers[address] = number

    def _refusal_error(self, request: _Request, refused: RefusedError, attempts: _Attempts) -> _FailedError:
        status, headers, message = refused.status, refused.headers, str(refused)
        wait = None
        if status in (403, 429):
            wait = rate_limit_wait(status, headers, message, self._clock(), attempts.limited)
            attempts.limited += 1
            if wait is not None:
                sentence = f"GitHub's rate limit is used up for {self._label(request)}: {self._retry_clause(wait)}"
                return _FailedError(ApiError(sentence, "rate_limited", status), wait)
        elif (status >= 500 or status == 202) and is_repeatable(request.method, request.path):
            wait = max(attempts.backoff, retry_after(headers.get("retry-after"), self._clock()) or 0.0)
        kind = error_kind(status)
        sentence = f"GitHub answered {status} to {self._label(request)}: {self.masked_line(message)}"
        return _FailedError(
            ApiError(sentence, kind, status, accepted=kind == "unavailable" and not request.reads), wait
        )

    def _no_response_error(self, request: _Request, error: Exception, attempts: _Attempts) -> _FailedError:
        reason, sent = describe_failure(error)
        attempts.timeouts += isinstance(error, httpx2.TimeoutException | TooSlowError)
        again = (
            attempts.timeouts <= MOST_TIMEOUTS
            and not is_certificate_error(error)
            and (not sent or is_repeatable(request.method, request.path))
        )
        sentence = f"GitHub did not answer {self._label(request)}: {reason}"
        lost = ApiError(sentence, "unavailable", None, accepted=sent and not request.reads)
        return _FailedError(lost, attempts.backoff if again else None)

    def _unusable_error(self, request: _Request, status: int | None, problem: str) -> ApiError:
        sentence = f"GitHub's answer to {self._label(request)} cannot be used: {problem}"
        return ApiError(sentence, "unavailable", status, accepted=not request.reads)

    def _redirect_url(self, request: _Request, redirected: RedirectedError, attempts: _Attempts) -> str:
        """Return the URL within the API to which a response redirects."""
        location = redirected.headers.get("location")
        try:
            address = urljoin(self.base_url, location) if location else ""
            parts = urlsplit(address)
            origin = parts.scheme, parts.hostname, parts.port
        except ValueError:
            address, origin = "", ("", None, None)
        if origin != self._origin or not parts.path.startswith(f"{self._root}repo"):
            problem = "it redirects to a URL outside of the API"
            raise _LeftError(self._unusable_error(request, redirected.status, problem), address)
        if attempts.redirects == _MOST_REDIRECTS:
            raise self._unusable_error(request, None, f"more than {_MOST_REDIRECTS} redirects")
        return address

    def _retry_clause(self, wait_s: float) -> str:
        if wait_s > 24 * 3600:
            return "it takes requests again in more than a day"
        moment = datetime.fromtimestamp(self._clock() + wait_s, UTC)
        return f"it takes requests again at {moment:%H:%M:%S} UTC, in {max(1, round(wait_s)):,} seconds"

    def _label(self, request: _Request) -> str:
        return f"{request.method} {self.masked_line(request.path)}"


def _below_api(url: str) -> str | None:
    """Return the path and query of a URL from a response, below the URL of the API; None if it has no such path."""
    parts = urlsplit(url)
    found = _RESOURCE.search(parts.path)
    if found is None:
        return None
    return f"{found[0]}?{parts.query}" if parts.query else found[0]


def _replace_surrogates(value: Any) -> Any:
    """Return a JSON value with lone surrogates replaced by `?`, since GitHub would refuse the request.

    A lone surrogate is half of a character, such as after a cut in a UTF-16 string.
    """
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {name: _replace_surrogates(item) for name, item in value.items()}
    return [*map(_replace_surrogates, value)] if isinstance(value, Sequence) else value
