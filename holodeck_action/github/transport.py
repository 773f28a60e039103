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
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from github import Auth, Github
from github.GithubException import GithubException
from github.Requester import HTTPSRequestsConnectionClass, Requester, RequestsResponse
from requests import RequestException
from urllib3.exceptions import HTTPError

from holodeck_action import __version__
from holodeck_action.github.answers import MOST_BYTES, TooLargeError, TooSlowError, json_of, message_of, read_body
from holodeck_action.github.remote import ApiError, ErrorKind
from holodeck_action.github.retry import RefusedError, Repeats, UnansweredError
from holodeck_action.text.plain import one_line

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
class Answer:
    """An answer with a status below 300: its JSON, and whether it says that there is another page."""

    status: int
    data: Any
    more: bool


class _RedirectedError(Exception):
    def __init__(self, status: int, location: str) -> None:
        super().__init__(status)
        self.status = status
        self.location = location


class _Read(RequestsResponse):
    """An answer whose body is read, as PyGithub takes it: with none of the headers that it would act upon."""

    def __init__(self, status: int, text: str, link: str) -> None:
        self.status = status
        self.headers = {"link": link}  # type: ignore[assignment]
        self._text = text

    def read(self) -> str:
        return self._text


class _Connection(HTTPSRequestsConnectionClass):
    """PyGithub's connection with bounds. A call's requests share what its waits may take together."""

    def __init__(self, protocol: str, host: str, port: int | None, timeout_s: float, retry: Repeats) -> None:
        super().__init__(host, port, timeout=timeout_s, retry=retry)  # type: ignore[arg-type]
        self.protocol = protocol
        self.port = port or (443 if protocol == "https" else 80)
        self.session.mount("http://", self.adapter)
        self._start = retry
        self._timeout_s = timeout_s
        # A proxy cannot reach what listens on this machine.
        self.session.trust_env = not is_loopback(host)

    def begin(self) -> None:
        """Start a call: its waits are counted anew."""
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
            except (HTTPError, TooSlowError) as error:
                response.close()
                again = retries.increment(self.verb, self.url, error=error)
                again.sleep()
                self.adapter.max_retries = again
                continue
            if 300 <= response.status_code < 400:
                raise _RedirectedError(response.status_code, response.headers.get("Location", ""))
            if response.status_code >= 400:
                raise RefusedError(response.status_code, content)
            return _Read(response.status_code, content.decode("utf-8", "replace"), response.headers.get("Link", ""))


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
        self._token = token
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

    def call(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Make one request.

        Args:
            method: GET, POST, PATCH or PUT.
            path: below the API's address, its parts quoted.
            parameters: of the query.
            body: sent as JSON.

        Raises:
            ApiError: it was not answered with success.
        """
        self._connection.begin()
        return self._request(method, path, dict(parameters or {}), body)

    def pages(self, path: str, parameters: Mapping[str, Any]) -> Iterator[Answer]:
        """Yield the pages of a list, at most `MOST_PAGES`, by number: addresses in answers are not followed.

        Raises:
            ApiError: a page did not come, or there are more.
        """
        self._connection.begin()
        for number in range(1, MOST_PAGES + 1):
            answer = self._request("GET", path, {**parameters, "per_page": PAGE, "page": number}, None)
            yield answer
            if not answer.more:
                return
        raise self.unusable("GET", path, answer.status, f"it goes on after {MOST_PAGES} pages of {PAGE}")

    def query(self, text: str, variables: Mapping[str, Any]) -> Answer:
        """Ask GraphQL a query, never a mutation: it may be asked twice.

        Raises:
            ApiError: it was not answered with success. Errors that GraphQL tells of stand in the answer's data.
        """
        self._connection.begin()
        return self._request("POST", self._requester.graphql_url, {}, {"query": text, "variables": variables})

    def unusable(self, method: str, path: str, status: int | None, problem: str) -> ApiError:
        """Return the error for an answer that is not what was asked for; `problem` names it in words of ours."""
        sentence = f"GitHub's answer to {self._shown(method, path)} cannot be used: {problem}"
        return ApiError(sentence, "unavailable", status, accepted=self._writes(method, path))

    def refusal(self, method: str, path: str, status: int, kind: ErrorKind, message: str) -> ApiError:
        """Return the error for what was refused for a reason that an answer tells; the message is hostile."""
        return ApiError(f"GitHub refused {self._shown(method, path)}: {self._safe(message)}", kind, status)

    def _request(self, method: str, path: str, parameters: dict[str, Any], body: Mapping[str, Any] | None) -> Answer:
        url = path
        for _ in range(1 + _MOST_REDIRECTS):
            try:
                return self._send(method, path, url, parameters, body)
            except _RedirectedError as redirected:
                # A repository that was renamed. The parameters are part of the new address.
                url, parameters = self._moved(method, path, redirected), {}
        raise self.unusable(method, path, None, f"more than {_MOST_REDIRECTS} redirects")

    def _send(
        self, method: str, path: str, url: str, parameters: dict[str, Any], body: Mapping[str, Any] | None
    ) -> Answer:
        sent = _without_surrogates(body)
        try:
            status, headers, text = self._requester.requestJson(method, url, parameters, None, sent, self._connection)
        except _RedirectedError:
            raise
        except RefusedError as refused:
            raise self._refused(method, path, refused) from None
        except UnansweredError as lost:
            sentence = f"GitHub could not be asked {self._shown(method, path)}: {lost.reason}"
            accepted = lost.sent and self._writes(method, path)
            raise ApiError(sentence, "unavailable", None, accepted=accepted) from None
        except TooLargeError:
            raise self.unusable(method, path, None, f"it is larger than {MOST_BYTES:,} bytes") from None
        except _BROKEN as error:
            # Their texts may hold headers, and so the token: only the name is shown.
            raise self.unusable(method, path, None, f"it led to {type(error).__name__}") from None
        try:
            return Answer(status, json_of(text.encode()), bool(_NEXT.search(headers["link"])))
        except ValueError:
            raise self.unusable(method, path, status, "it is no JSON") from None

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
            sentence = f"GitHub's rate limit is used up for {self._shown(method, path)}: {self._again_at(refused.wait)}"
            return ApiError(sentence, "rate_limited", status)
        message = self._safe(message_of(status, refused.content))
        sentence = f"GitHub answered {status} to {self._shown(method, path)}: {message}"
        kind = _kind(status)
        return ApiError(sentence, kind, status, accepted=kind == "unavailable" and self._writes(method, path))

    def _again_at(self, wait: float) -> str:
        if wait > 24 * 3600:
            return "it takes requests again in more than a day"
        moment = datetime.fromtimestamp(self._clock() + wait, UTC)
        return f"it takes requests again at {moment:%H:%M:%S} UTC, in {max(1, round(wait)):,} seconds"

    def _writes(self, method: str, path: str) -> bool:
        return method != "GET" and not path.endswith("/graphql")

    def _shown(self, method: str, path: str) -> str:
        return f"{method} {self._safe(urlsplit(path).path)}"

    def _safe(self, text: str) -> str:
        # Before, as a cut would leave a part of it; after, as characters may have stood hidden in it.
        return one_line(text.replace(self._token, "***"), _MESSAGE).replace(self._token, "***")


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
