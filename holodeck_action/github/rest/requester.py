"""PyGithub's requester with our bounds and retries; every problem of a request is an `ApiError`.

PyGithub's own objects (`Repository`, `IssueComment`, …) send all their requests through it. PyGithub's retries
(`GithubRetry`) repeat a POST, read an error of any size, and never see a body that breaks off or is not JSON. Its
connection reads an answer of any size for any time, and its requester asks for ever while GitHub computes an answer
(202). That is why the requests are sent and repeated here.

This module imports PyGithub and httpx2: import it only where GitHub is called.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
from github import Auth
from github.Requester import Requester
from msgspec import Struct

from holodeck_action import __version__
from holodeck_action.github.rest.answers import error_kind, error_message, is_refusal, usable_answer
from holodeck_action.github.rest.connection import (
    TooLargeError,
    TooSlowError,
    describe_failure,
    http_client,
    is_certificate_error,
    read_body,
)
from holodeck_action.github.rest.objects import MOST_PAGES, PER_PAGE, ApiError, ShapeError
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
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a decompressed response; 100 comments of 65,536 characters of 4 bytes take 26 MB."""
WRITE_INTERVAL_S = 1.0
"""Seconds between writes (GitHub, best practices for the REST API)."""

_BODY_TIMEOUTS = 4
_MOST_REDIRECTS = 3
_MESSAGE_LIMIT = 300
_NEXT_LINK = lazy_pattern(r"""<([^>]*)>\s*;\s*rel=["']?next\b""")
_RESOURCE = lazy_pattern(r"/(?:repos|repositories)/.*", re.DOTALL)


class _Call(Struct):
    """A request, and how often it was sent in vain.

    Attributes:
        method: its method.
        path: the path as PyGithub names it, for messages.
        address: URL to request; another one after a redirect.
        content: JSON to send; None if there is none.
        leaves: whether the answer is to redirect to a file outside of the API.
        repeats: number of repeats.
        timeouts: number of timeouts.
        limited: number of refusals because of a rate limit.
        redirects: number of redirects.
    """

    method: str
    path: str
    address: str
    content: str | None = None
    leaves: bool = False
    repeats: int = 0
    timeouts: int = 0
    limited: int = 0
    redirects: int = 0

    @property
    def reads(self) -> bool:
        return is_read(self.method, self.path)

    @property
    def backoff(self) -> float:
        return 2.0**self.repeats

    def follow(self, address: str) -> None:
        """Request another URL from now on, whose repeats are counted again."""
        self.address, self.redirects = address, self.redirects + 1
        self.repeats = self.timeouts = self.limited = 0


_Answer = tuple[dict[str, Any], Any]
"""Headers that PyGithub or this module reads, and JSON."""


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
        api_url, auth, agent = api_url.rstrip("/"), Auth.Token(token), f"holodeck-action/{__version__}"
        super().__init__(
            auth=auth,
            base_url=api_url,
            timeout=math.ceil(timeout_s),
            user_agent=agent,
            per_page=PER_PAGE,
            verify=True,
            retry=None,
            pool_size=None,
            lazy=True,
        )
        self._http = http_client(api_url, timeout_s)
        self._headers = {"Accept": "application/vnd.github+json", "User-Agent": agent}
        auth.authentication(self._headers)
        self._body_timeout_s = _BODY_TIMEOUTS * timeout_s
        self._redactor = Redactor((token,))
        self._pause, self._clock, self._monotonic = pause, clock, monotonic
        self._waits_left = TOTAL_WAIT_S
        self._interval = 0.0 if is_loopback(urlsplit(api_url).hostname or "") else WRITE_INTERVAL_S
        self._next_write = 0.0
        self._page_numbers: dict[str, int] = {}

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self._http.close()

    def requestJsonAndCheck(  # noqa: N802 - PyGithub's name
        self,
        verb: str,
        url: str,
        parameters: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        input: Any | None = None,
        follow_302_redirect: bool = False,
    ) -> _Answer:
        """Send a request, and return headers and JSON of its response, which is a success with usable JSON.

        A URL from a response is requested from our API, whatever host it names.

        Raises:
            ApiError: the request failed.
        """
        address = url if url == self.graphql_url else _below_api(url)
        if address is None:
            raise ApiError("GitHub's answer cannot be used: it names a URL outside of the API", "unavailable", None)
        content = None if input is None else json.dumps(_replace_surrogates(input))
        target = self.add_parameters_to_url(self._url(address), parameters or {})
        call = _Call(verb, urlsplit(address).path, target, content)
        while (answer := self._attempt(call)) is None:
            pass
        self._count_page(call, address, answer[0].get("link", ""))
        if verb == "GET" and isinstance(answer[1], dict):
            # PyGithub requests an object again by its URL, which lists do not have.
            answer[1].setdefault("url", address)
        return answer

    def file_address(self, path: str) -> str:
        """Return the URL outside of the API to which `path` redirects.

        Raises:
            ApiError: the request failed, or does not redirect to the URL of a file.
        """
        call = _Call("GET", path, self._url(path), leaves=True)
        while (answer := self._attempt(call)) is None:
            pass
        headers, _ = answer
        if "location" not in headers:
            raise self._unusable_error(call, None, "it is not a redirect to a file")
        address: str = headers["location"]
        # Encrypted, unless the API is not either.
        if not urlsplit(address).hostname or urlsplit(address).scheme not in ("https", self.scheme):
            raise self._unusable_error(call, None, "it does not redirect to the URL of a file")
        return address

    def masked_line(self, text: str) -> str:
        """Return a text from GitHub as one short line without the token."""
        return one_line(self._redactor.text(text), _MESSAGE_LIMIT)

    def _url(self, address: str) -> str:
        return f"{self.base_url}{address}" if address.startswith("/") else address

    def _attempt(self, call: _Call) -> _Answer | None:
        """Send a request; return None if it is to be sent again, after its wait is over."""
        if call.method != "GET" and (early := self._next_write - self._monotonic()) > 0:
            self._pause(early)
        headers = self._headers | ({} if call.content is None else {"Content-Type": "application/json"})
        try:
            with self._http.stream(call.method, call.address, content=call.content, headers=headers) as response:
                status, received = response.status_code, response.headers
                if is_refusal(call.method, status):
                    text = error_message(response, self._monotonic)
                else:
                    body = read_body(response, MOST_BYTES, self._body_timeout_s, self._monotonic)
                    # Half a character in a text costs that character, not the answer.
                    text = Foreign(body).lossy_text()
        except TooLargeError:
            raise self._unusable_error(call, None, f"it is larger than {MOST_BYTES:,} bytes") from None
        except (httpx2.RequestError, TooSlowError) as error:
            self._wait_after_silence(call, error)
            return None
        except (httpx2.InvalidURL, httpx2.StreamError) as error:
            # Their texts may hold what was sent: only the name is shown.
            raise self._unusable_error(call, None, f"it raised {type(error).__name__}") from None
        finally:
            if call.method != "GET":
                self._next_write = self._monotonic() + self._interval
        if is_refusal(call.method, status):
            self._wait_after_refusal(call, status, received, text)
            return None
        if status >= 300:
            return self._follow(call, status, received.get("location"))
        try:
            data = usable_answer(text, call.method, is_query=call.method == "POST" and call.reads)
        except ShapeError as error:
            self._wait(call, self._unusable_error(call, status, str(error)), call.backoff if call.reads else None)
            return None
        return {"link": received["link"]} if "link" in received else {}, data

    def _wait(self, call: _Call, error: ApiError, wait_s: float | None) -> None:
        """Wait before a request is repeated; None if it must not be. Raises: `error` if it is not repeated."""
        if wait_s is None or call.repeats == MOST_REPEATS:
            raise error from None
        if wait_s > self._waits_left:
            left = "none" if self._waits_left < 1 else f"only {self._waits_left:.0f}"
            total = f"of the {TOTAL_WAIT_S:.0f} seconds that calls to GitHub may wait, {left} are left"
            raise error.with_suffix(f"; {total}") from None
        self._waits_left -= wait_s
        call.repeats += 1
        self._pause(wait_s)

    def _wait_after_refusal(self, call: _Call, status: int, headers: Mapping[str, str], message: str) -> None:
        kind, wait = error_kind(status), None
        sentence = f"GitHub answered {status} to {self._label(call)}: {self.masked_line(message)}"
        if status in (403, 429):
            wait = rate_limit_wait(status, headers, message, self._clock(), call.limited)
            call.limited += 1
            if wait is not None:
                kind = "rate_limited"
                sentence = f"GitHub's rate limit is used up for {self._label(call)}: {self._retry_clause(wait)}"
        elif (status >= 500 or status == 202) and is_repeatable(call.method, call.path):
            wait = max(call.backoff, retry_after(headers.get("retry-after"), self._clock()) or 0.0)
        self._wait(call, ApiError(sentence, kind, status, accepted=kind == "unavailable" and not call.reads), wait)

    def _wait_after_silence(self, call: _Call, error: Exception) -> None:
        reason, sent = describe_failure(error)
        call.timeouts += isinstance(error, httpx2.TimeoutException | TooSlowError)
        again = (
            call.timeouts <= MOST_TIMEOUTS
            and not is_certificate_error(error)
            and (not sent or is_repeatable(call.method, call.path))
        )
        sentence = f"GitHub did not answer {self._label(call)}: {reason}"
        lost = ApiError(sentence, "unavailable", None, accepted=sent and not call.reads)
        self._wait(call, lost, call.backoff if again else None)

    def _follow(self, call: _Call, status: int, location: str | None) -> _Answer | None:
        """Let a call follow a redirect within the API, as of a renamed repository; return a redirect to a file."""
        try:
            address = urljoin(self.base_url, location) if location else ""
            origin = urlsplit(address)[:2]
        except ValueError:
            address, origin = "", ("", "")
        base = urlsplit(self.base_url)
        if origin != base[:2] or not urlsplit(address).path.startswith(f"{base.path}/repo"):
            if call.leaves:
                return {"location": address}, None
            raise self._unusable_error(call, status, "it redirects to a URL outside of the API")
        if call.redirects == _MOST_REDIRECTS:
            raise self._unusable_error(call, None, f"more than {_MOST_REDIRECTS} redirects")
        call.follow(address)
        return None

    def _count_page(self, call: _Call, url: str, link: str) -> None:
        """Count the pages of a list, which PyGithub follows without end."""
        following = _NEXT_LINK.search(link)
        if following is None:
            return
        address = _below_api(following[1])
        if address is None:
            raise self._unusable_error(call, None, "it names a URL outside of the API")
        if address == url:
            raise self._unusable_error(call, None, "it repeats a page")
        number = self._page_numbers.get(url, 1) + 1
        if number > MOST_PAGES:
            problem = f"it has more than {MOST_PAGES} pages of {PER_PAGE} entries"
            raise self._unusable_error(call, None, problem)
        self._page_numbers[address] = number

    def _unusable_error(self, call: _Call, status: int | None, problem: str) -> ApiError:
        sentence = f"GitHub's answer to {self._label(call)} cannot be used: {problem}"
        return ApiError(sentence, "unavailable", status, accepted=not call.reads)

    def _retry_clause(self, wait_s: float) -> str:
        if wait_s > 24 * 3600:
            return "it takes requests again in more than a day"
        moment = datetime.fromtimestamp(self._clock() + wait_s, UTC)
        return f"it takes requests again at {moment:%H:%M:%S} UTC, in {max(1, round(wait_s)):,} seconds"

    def _label(self, call: _Call) -> str:
        return f"{call.method} {self.masked_line(call.path)}"


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
