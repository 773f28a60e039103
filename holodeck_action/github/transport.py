"""Requests to GitHub through PyGithub, with bounds on what comes back and one error for all that goes wrong.

PyGithub builds the addresses (also those of GitHub Enterprise Server and of GraphQL), signs, and spaces writes out. The
connection is ours, because PyGithub's reads bodies of any size, follows redirects without end, and asks again for ever
while GitHub says 202.

This module imports PyGithub: import it only to publish.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import urljoin, urlsplit

from github import Auth, Github
from github.GithubException import GithubException
from github.Requester import HTTPSRequestsConnectionClass, Requester, RequestsResponse
from requests import RequestException
from urllib3.exceptions import HTTPError

from holodeck_action import __version__
from holodeck_action.github.answers import MOST_BYTES, TooLargeError, TooSlowError, json_of, message_of, read_body
from holodeck_action.github.remote import ApiError, ErrorKind
from holodeck_action.github.retry import (
    LONGEST_WAITS_S,
    GivenUpError,
    JunkError,
    RefusedError,
    Repeats,
    UnansweredError,
    reads,
)
from holodeck_action.github.values import ShapeError
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor

T = TypeVar("T")

PAGE = 100
"""Entries of a page, the most that GitHub gives."""

MOST_PAGES = 100

WRITE_INTERVAL_S = 1.0
"""Seconds between writes (GitHub, best practices for the REST API)."""

_MOST_REDIRECTS = 3
_BODY_TIMEOUTS = 4
_MESSAGE = 300
_NEXT = re.compile(r"""rel=["']?next\b""")
_BROKEN = (
    GithubException,
    RequestException,
    HTTPError,
    AssertionError,
    RuntimeError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    OSError,
)
"""Whatever PyGithub, requests and urllib3 raise for requests they cannot send and answers they cannot read."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """An answer with a status below 300: what was read of its JSON, and whether it says that there is another page."""

    status: int
    value: T
    more: bool


class _RedirectedError(Exception):
    def __init__(self, status: int, location: str) -> None:
        super().__init__(status)
        self.status = status
        self.location = location


class _Read(RequestsResponse):
    """An answer whose body is read, as PyGithub takes it: with no body and none of the headers it would act upon."""

    def __init__(self, status: int, link: str) -> None:
        self.status = status
        self.headers = {"link": link}  # type: ignore[assignment]

    def read(self) -> str:
        return ""


class _Connection(HTTPSRequestsConnectionClass):
    """PyGithub's connection with bounds. What `begin` was given reads the answers, and `value` is what it returned."""

    def __init__(self, protocol: str, host: str, port: int | None, timeout_s: float, retry: Repeats) -> None:
        super().__init__(host, port, timeout=timeout_s, retry=retry)  # type: ignore[arg-type]
        self.protocol = protocol
        self.port = port or (443 if protocol == "https" else 80)
        self.session.mount("http://", self.adapter)
        self._start = retry
        self._timeout_s = timeout_s
        # A proxy cannot reach what listens on this machine.
        self.session.trust_env = not is_loopback(host)
        self.value: Any = None
        self._read: Callable[[Any], Any] = _nothing

    def begin(self, read: Callable[[Any], Any]) -> None:
        """Start a request whose answer's JSON `read` takes: its repeats are counted anew."""
        self._read = read
        self.adapter.max_retries = self._start

    def getresponse(self) -> RequestsResponse:
        host = f"[{self.host}]" if ":" in self.host else self.host
        url = f"{self.protocol}://{host}:{self.port}{self.url}"
        while True:
            response = self.session.request(
                self.verb,
                url,
                headers=self.headers,
                data=self.input,
                timeout=self._timeout_s,
                verify=self.verify,
                allow_redirects=False,
                stream=True,
            )
            retries: Repeats = response.raw.retries
            self.adapter.max_retries = retries.next_request()
            try:
                content = read_body(response.raw, MOST_BYTES, _BODY_TIMEOUTS * self._timeout_s)
                if response.status_code < 300:
                    self.value = _value(response.status_code, content, self._read)
                    return _Read(response.status_code, response.headers.get("Link", ""))
            except (HTTPError, TooSlowError, JunkError) as error:
                response.close()
                again = retries.increment(self.verb, self.url, error=error)
                again.sleep()
                self.adapter.max_retries = again
                continue
            if response.status_code < 400:
                raise _RedirectedError(response.status_code, response.headers.get("Location", ""))
            raise RefusedError(response.status_code, content)


class Transport:
    """Makes requests; every problem is an `ApiError` whose sentence shows no token.

    Args:
        token: sent with every request.
        api_url: of the REST API, such as `https://api.github.com` or `https://host/api/v3`.
        pause: waits for seconds.
        clock: seconds since the epoch.
        timeout_s: seconds for a connection, and for each piece of an answer.
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
        parts = urlsplit(api_url)
        host = parts.hostname or ""
        retry = Repeats(pause=pause, clock=clock)
        self._redactor = Redactor((token,))
        self._clock = clock
        self._origin = (parts.scheme, host, parts.port)
        self._prefix = parts.path.rstrip("/") + "/"
        self._connection = _Connection(parts.scheme, host, parts.port, timeout_s, retry)
        self._github = Github(
            auth=Auth.Token(token),
            base_url=api_url.rstrip("/"),
            timeout=max(1, round(timeout_s)),
            user_agent=f"holodeck-action/{__version__}",
            per_page=PAGE,
            retry=retry,
            seconds_between_requests=0,
            seconds_between_writes=0 if is_loopback(host) else WRITE_INTERVAL_S,
            lazy=True,
        )

    @property
    def _requester(self) -> Requester:
        return self._github.requester

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()
        self._github.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        return self._request(method, path, {}, body, read).value

    def pages(self, path: str, parameters: Mapping[str, Any], read: Callable[[Any], T]) -> Iterator[Answer[T]]:
        """Yield the pages of a list, at most `MOST_PAGES`, by number: addresses in answers are not followed.

        Raises:
            ApiError: a page did not come, or there are more.
        """
        for number in range(1, MOST_PAGES + 1):
            answer = self._request("GET", path, {**parameters, "per_page": PAGE, "page": number}, None, read)
            yield answer
            if not answer.more:
                return
        raise self.unusable("GET", path, answer.status, f"it goes on after {MOST_PAGES} pages of {PAGE}")

    def query(self, text: str, variables: Mapping[str, Any], read: Callable[[Any], T]) -> Answer[T]:
        """Ask GraphQL a query, never a mutation: it may be asked twice.

        Raises:
            ApiError: it was not answered with success. Errors that GraphQL tells of are part of the answer.
        """
        return self._request("POST", self._requester.graphql_url, {}, {"query": text, "variables": variables}, read)

    def unusable(self, method: str, path: str, status: int | None, problem: str) -> ApiError:
        """Return the error for an answer that is not what was asked for; `problem` names it in words of ours."""
        sentence = f"GitHub's answer to {self._shown(method, path)} cannot be used: {problem}"
        return ApiError(sentence, "unavailable", status, accepted=not reads(method, path))

    def refusal(self, method: str, path: str, status: int, kind: ErrorKind, message: str) -> ApiError:
        """Return the error for what was refused for a reason that an answer tells; the message is hostile."""
        return ApiError(f"GitHub refused {self._shown(method, path)}: {self._safe(message)}", kind, status)

    def _request(
        self,
        method: str,
        path: str,
        parameters: dict[str, Any],
        body: Mapping[str, Any] | None,
        read: Callable[[Any], T],
    ) -> Answer[T]:
        url = path
        for _ in range(1 + _MOST_REDIRECTS):
            self._connection.begin(read)
            try:
                return self._send(method, path, url, parameters, body)
            except _RedirectedError as redirected:
                # A repository that was renamed. The parameters are part of the new address.
                url, parameters = self._moved(method, path, redirected), {}
        raise self.unusable(method, path, None, f"more than {_MOST_REDIRECTS} redirects")

    def _send(
        self, method: str, path: str, url: str, parameters: dict[str, Any], body: Mapping[str, Any] | None
    ) -> Answer[Any]:
        sent = _without_surrogates(body)
        try:
            status, headers, _ = self._requester.requestJson(method, url, parameters, None, sent, self._connection)
        except _RedirectedError:
            raise
        except RefusedError as refused:
            raise self._refused(method, path, refused) from None
        except UnansweredError as lost:
            sentence = f"GitHub could not be asked {self._shown(method, path)}: {lost.reason}{_unwaited(lost)}"
            accepted = lost.sent and not reads(method, path)
            raise ApiError(sentence, "unavailable", None, accepted=accepted) from None
        except JunkError as junk:
            raise self.unusable(method, path, junk.status, junk.problem + _unwaited(junk)) from None
        except TooLargeError:
            raise self.unusable(method, path, None, f"it is larger than {MOST_BYTES:,} bytes") from None
        except _BROKEN as error:
            # Their texts may hold headers, and so the token: only the name is shown.
            raise self.unusable(method, path, None, f"it led to {type(error).__name__}") from None
        return Answer(status, self._connection.value, bool(_NEXT.search(headers["link"])))

    def _moved(self, method: str, path: str, redirected: _RedirectedError) -> str:
        scheme, host, port = self._origin
        try:
            location = urljoin(f"{scheme}://{host}" + (f":{port}" if port else ""), redirected.location)
            parts = urlsplit(location)
            same = (parts.scheme, parts.hostname, parts.port) == self._origin
        except ValueError:
            same = False
        if not same or not parts.path.startswith(self._prefix):
            raise self.unusable(method, path, redirected.status, "it leads to another place than the API")
        return location

    def _refused(self, method: str, path: str, refused: RefusedError) -> ApiError:
        status = refused.status
        if refused.wait is not None:
            told = f"{self._again_at(refused.wait)}{_unwaited(refused)}"
            sentence = f"GitHub's rate limit is used up for {self._shown(method, path)}: {told}"
            return ApiError(sentence, "rate_limited", status)
        message = self._safe(message_of(status, refused.content))
        sentence = f"GitHub answered {status} to {self._shown(method, path)}: {message}{_unwaited(refused)}"
        kind = _kind(status)
        return ApiError(sentence, kind, status, accepted=kind == "unavailable" and not reads(method, path))

    def _again_at(self, wait: float) -> str:
        if wait > 24 * 3600:
            return "it takes requests again in more than a day"
        moment = datetime.fromtimestamp(self._clock() + wait, UTC)
        return f"it takes requests again at {moment:%H:%M:%S} UTC, in {max(1, round(wait)):,} seconds"

    def _shown(self, method: str, path: str) -> str:
        return f"{method} {self._safe(urlsplit(path).path)}"

    def _safe(self, text: str) -> str:
        return one_line(self._redactor.text(text), _MESSAGE)


def _nothing(_: Any) -> None:
    return None


def _value(status: int, content: bytes, read: Callable[[Any], T]) -> T:
    """Return what `read` makes of a body's JSON.

    Raises:
        JunkError: it is not what was asked for.
    """
    try:
        # Half a character in a text costs that character, not the answer.
        data = json_of(content.decode("utf-8", "replace").encode())
    except ValueError:
        raise JunkError(status, "it is no JSON") from None
    try:
        return read(data)
    except ShapeError as error:
        raise JunkError(status, str(error)) from None


def _unwaited(error: GivenUpError) -> str:
    """Say, to go on after a reason, that it was not asked again for want of time."""
    if error.unwaited is None:
        return ""
    left = "none" if error.unwaited < 1 else f"only {error.unwaited:.0f}"
    return f"; of the {LONGEST_WAITS_S:.0f} seconds that publishing may wait, {left} are left"


def is_loopback(host: str) -> bool:
    """Tell whether a host's name is this machine's."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _kind(status: int) -> ErrorKind:
    if status in (401, 403):
        return "denied"
    if status in (404, 410):
        return "not_found"
    return "invalid" if 400 <= status < 500 and status != 408 else "unavailable"


def _without_surrogates(body: Mapping[str, Any] | None) -> Any:
    # Half a character, as a cut of text in another encoding leaves it, makes GitHub refuse all of the request.
    if body is None:
        return None
    return json.loads(json.dumps(body, ensure_ascii=False, default=_plain).encode("utf-8", "replace"))


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)
