"""What is asked again and when: PyGithub's retry with the rules that publishing needs (GitHub reference, rule 14).

PyGithub's own asks again for a POST that failed with 5xx, which may make a second comment, never for a PATCH, and does
not know 429. The rules here:

* refused for the rate (403 that says so, 429): GitHub did not do it, so every method is asked again;
* 5xx, timeouts, broken connections: only what can be repeated without harm;
* a success whose body is not what was asked for, as a proxy's page is: only reads. Whether a write was done is for its
  channel to look up;
* a connection that never came about: every method.

All calls of a publication wait out of one `Allowance`.

This module imports PyGithub: import it only to publish.
"""

from __future__ import annotations

import math
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from github.GithubRetry import GithubRetry
from github.Requester import Requester
from urllib3.connectionpool import ConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError, SSLError, TimeoutError
from urllib3.response import BaseHTTPResponse
from urllib3.util.retry import RequestHistory

from holodeck_action.github.answers import ERROR_BYTES, TooLargeError, TooSlowError, message_of, read_body

MOST_REPEATS = 4
"""Times that one request is asked again."""

MOST_TIMEOUTS = 1
"""Of these after a timeout: the waiting is already done."""

LONGEST_WAITS_S = 180.0
"""Seconds of all waits of a publication: a job that stands still costs money, and the comment is not worth more."""

SECONDARY_WAIT_S = 60.0
"""Seconds when GitHub does not say: at least a minute, then exponentially (GitHub, rate limits for the REST API)."""

_READING_S = 15.0
_NEVER = "resource not accessible"
_APPENDS = re.compile(r"/check-runs/[0-9]+$")


class GivenUpError(Exception):
    """A request is not sent again.

    Attributes:
        unwaited: what the publication may still wait, in seconds, where that was too little; else None.
    """

    unwaited: float | None = None


class JunkError(GivenUpError):
    """A success that is not what was asked for: its status, and what is wrong with it in words of ours."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = problem


class UnansweredError(GivenUpError):
    """No answer came; `reason` says what happened to it, `sent` whether GitHub may have got the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent


class RefusedError(GivenUpError):
    """An answer that it was not done: its status and body; `wait` is the seconds that a rate limit asks for."""

    def __init__(self, status: int, content: bytes, wait: float | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.content = content
        self.wait = wait


class Allowance:
    """What the calls of a publication may wait, all together, before they ask again; `left` is in seconds."""

    def __init__(self, seconds: float = LONGEST_WAITS_S) -> None:
        self.left = seconds

    def take(self, seconds: float) -> bool:
        """Take the seconds of a wait; False where so many are not left."""
        if seconds > self.left:
            return False
        self.left -= seconds
        return True


@dataclass(frozen=True, slots=True)
class Progress:
    """What one call has been through.

    Attributes:
        wait: seconds to wait now.
        timeouts: how many.
        limited: refusals for the rate, so far.
    """

    wait: float = 0.0
    timeouts: int = 0
    limited: int = 0


def reads(method: str, path: str) -> bool:
    """Tell whether a request changes nothing. A POST to GraphQL is a query here, never a mutation."""
    return path.endswith("/graphql") if method == "POST" else method in ("GET", "HEAD")


def repeatable(method: str, path: str) -> bool:
    """Tell whether a request may be carried out twice without harm.

    A PATCH of a check run adds its annotations to those there are.
    """
    if method == "POST":
        return reads(method, path)
    return method != "PATCH" or not _APPENDS.search(path)


def rate_limit_wait(status: int, headers: Mapping[str, str], message: str, now: float, before: int) -> float | None:
    """Return the seconds that a rate limit asks to wait; None where the answer is no rate limit.

    Args:
        status: 403 or 429.
        headers: of the answer; their names in any case.
        message: what the answer says.
        now: seconds since the epoch.
        before: rate limits that this request met before.
    """
    if message.lower().startswith(_NEVER):
        return None
    asked = retry_after(headers.get("Retry-After"), now)
    exhausted = (headers.get("X-RateLimit-Remaining") or "").strip() == "0"
    if status != 429 and asked is None and not exhausted and not Requester.isRateLimitError(message):
        return None
    if asked is not None:
        return max(asked, 2.0**before)
    reset = _number(headers.get("X-RateLimit-Reset"))
    if exhausted and reset is not None:
        # One more second: nobody says when within its second the limit is lifted.
        return max(reset - now + 1.0, 2.0**before)
    return float(SECONDARY_WAIT_S * 2.0**before)


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds of a `Retry-After` header, a number or a date; None where it says nothing usable."""
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    try:
        return max(parsedate_to_datetime(value.strip()).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


class Repeats(GithubRetry):
    """PyGithub's retry with our rules. It raises `RefusedError`, `UnansweredError` and `JunkError` where it gives up.

    Args:
        pause: waits for seconds.
        clock: seconds since the epoch.
        allowance: what all calls may wait together.
        progress: what the call has been through; kept by urllib3 from one attempt to the next.
    """

    def __init__(
        self,
        *,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        allowance: Allowance | None = None,
        progress: Progress = Progress(),
        **settings: Any,
    ) -> None:
        super().__init__(**{"total": MOST_REPEATS, **settings})
        self.pause = pause
        self.clock = clock
        self.allowance = allowance or Allowance()
        self.progress = progress

    def new(self, **settings: Any) -> Self:
        """Return the state after an attempt; urllib3 and PyGithub add their own settings."""
        kept = {
            "pause": self.pause,
            "clock": self.clock,
            "allowance": self.allowance,
            "progress": self.progress,
        }
        return super().new(**{**kept, **settings})

    def next_request(self) -> Self:
        """Return the state in which the next request starts: with repeats left."""
        return self.new(history=(), progress=Progress())

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        """Tell whether `increment` is to look at an answer; 202 says that GitHub is still computing it."""
        return status_code in (403, 429) or status_code >= 500 or (status_code == 202 and method == "GET")

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        """Wait before the next attempt."""
        if self.progress.wait > 0:
            self.pause(self.progress.wait)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: ConnectionPool | None = None,
        _stacktrace: TracebackType | None = None,
    ) -> Self:
        """Return the state for the next attempt.

        Raises:
            RefusedError: the answer stands.
            JunkError: it is not what was asked for, and the request is not sent again.
            UnansweredError: none came, and the request is not sent again.
        """
        method = (method or "GET").upper()
        path = urlsplit(url or "").path
        happened = RequestHistory(method, url, error, response.status if response is not None else None, None)
        if response is not None:
            return self._after_answer(method, path, response, happened)
        return self._after_loss(method, path, error, happened)

    def _after_answer(self, method: str, path: str, response: BaseHTTPResponse, happened: RequestHistory) -> Self:
        status = response.status
        content = _content(response)
        if status in (403, 429):
            before = self.progress.limited
            wait = rate_limit_wait(status, response.headers, message_of(status, content), self.clock(), before)
            return self._again(RefusedError(status, content, wait), wait, happened, limited=before + 1)
        asked = retry_after(response.headers.get("Retry-After"), self.clock()) or 0.0
        wait = max(self._backoff(), asked) if repeatable(method, path) else None
        return self._again(RefusedError(status, content), wait, happened)

    def _after_loss(self, method: str, path: str, error: Exception | None, happened: RequestHistory) -> Self:
        if isinstance(error, JunkError):
            return self._again(error, self._backoff() if reads(method, path) else None, happened)
        lost = _lost(error)
        timeouts = self.progress.timeouts + (isinstance(error, TimeoutError | TooSlowError) and not _unconnected(error))
        again = timeouts <= MOST_TIMEOUTS and not _untrusted(error) and (not lost.sent or repeatable(method, path))
        return self._again(lost, self._backoff() if again else None, happened, timeouts=timeouts)

    def _again(self, error: GivenUpError, wait: float | None, happened: RequestHistory, **progress: int) -> Self:
        """Return the state after a wait; raise the error for no wait, or one that is not to be had."""
        if wait is not None and len(self.history) < MOST_REPEATS:
            if self.allowance.take(wait):
                now = replace(self.progress, wait=wait, **progress)
                return self.new(history=(*self.history, happened), progress=now)
            error.unwaited = self.allowance.left
        # Whoever reads the traceback of an error on its way shall not find the request's headers in it.
        raise error from None

    def _backoff(self) -> float:
        return float(2 ** len(self.history))


def _content(response: BaseHTTPResponse) -> bytes:
    try:
        return read_body(response, ERROR_BYTES, _READING_S)
    except (HTTPError, TooLargeError, TooSlowError):
        response.close()
        return b""


def _number(value: str | None) -> float | None:
    try:
        number = float((value or "").strip())
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0.0 else None


def _unconnected(error: Exception | None) -> bool:
    # RefusedError connections and unknown hosts are told at once: they are no timeouts, although urllib3 has them so.
    return isinstance(error, NewConnectionError)


def _untrusted(error: Exception | None) -> bool:
    return isinstance(error, SSLError) and any(isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args)


def _lost(error: Exception | None) -> UnansweredError:
    if isinstance(error, ProxyError):
        return UnansweredError("the proxy cannot be used", sent=False)
    if _untrusted(error):
        return UnansweredError("its certificate is not trusted here", sent=False)
    if _unconnected(error):
        return UnansweredError("no connection could be made", sent=False)
    if isinstance(error, ConnectTimeoutError):
        return UnansweredError("no connection could be made in time", sent=False)
    if isinstance(error, TimeoutError | TooSlowError):
        return UnansweredError("the answer did not come in time", sent=True)
    return UnansweredError("the connection broke off before the answer", sent=True)
