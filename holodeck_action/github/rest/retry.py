"""Decides which requests are repeated, and after how many seconds.

Requests are repeated in these cases (GitHub, best practices for the REST API):

* rate limit exceeded (429, or 403 with such a message): every method, as GitHub did not carry out the request;
* 5xx, timeouts, broken connections: only requests that can safely be repeated, so that no comment is created twice;
* a success with an unexpected body, such as a proxy's page: only reads. The channel checks whether a write was
  carried out;
* no connection could be made: every method.

The waits of all calls of a client together are limited by `TOTAL_WAIT_S`.

This module imports PyGithub: import it only where GitHub is called.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from github.Requester import Requester

from holodeck_action.text.lazy_patterns import lazy_pattern

MOST_REPEATS = 4
"""Maximum number of repeats of one request."""
MOST_TIMEOUTS = 1
"""Maximum number of repeats after a timeout, which already took a long time."""
TOTAL_WAIT_S = 180.0
"""Maximum seconds that all calls of a client wait together, because a waiting job costs money."""
SECONDARY_WAIT_S = 60.0
"""First wait in seconds if GitHub gives no time; later waits double (GitHub, rate limits for the REST API)."""

_GIT_OBJECTS = lazy_pattern(r"/git/(blobs|trees|commits)$")
_CHECK_RUN_PATH = lazy_pattern(r"/check-runs/[0-9]+$")
_NO_PERMISSION = "resource not accessible"


def is_read(method: str, path: str) -> bool:
    """Return whether a request only reads. A POST to GraphQL only reads, since this program sends no mutations."""
    return path.endswith("/graphql") if method == "POST" else method in ("GET", "HEAD")


def is_repeatable(method: str, path: str) -> bool:
    """Return whether a request can safely be carried out twice.

    A PATCH of a check run is not repeatable, since it appends annotations. The creation of a Git object is repeatable,
    since a duplicate does no harm.
    """
    if method == "POST":
        return is_read(method, path) or _GIT_OBJECTS.search(path) is not None
    return method != "PATCH" or not _CHECK_RUN_PATH.search(path)


def rate_limit_wait(
    status: int, headers: Mapping[str, str], message: str, now: float, refusal_count: int
) -> float | None:
    """Return the seconds to wait because of a rate limit; None if the response is not about a rate limit.

    Args:
        status: 403 or 429.
        headers: headers of the response, with names in any case.
        message: message in the response.
        now: current time in seconds since the epoch.
        refusal_count: number of earlier refusals of this request because of a rate limit.
    """
    text = message.lower()
    if text.startswith(_NO_PERMISSION):
        return None
    given = retry_after(headers.get("Retry-After"), now)
    exhausted = (headers.get("X-RateLimit-Remaining") or "").strip() == "0"
    if status != 429 and given is None and not exhausted and not Requester.isRateLimitError(text):
        return None
    if given is not None:
        return max(given, 2.0**refusal_count)
    reset = _number(headers.get("X-RateLimit-Reset"))
    if exhausted and reset is not None:
        # One more second: when within its second the limit is lifted is unknown.
        return max(reset - now + 1.0, 2.0**refusal_count)
    return float(SECONDARY_WAIT_S * 2.0**refusal_count)


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds in a `Retry-After` header, which is a number or a date; None if it is missing or invalid."""
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    try:
        return max(parsedate_to_datetime(value.strip()).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float((value or "").strip())
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0.0 else None
