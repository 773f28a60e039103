"""Which requests are asked again, and after how long.

What is asked again (GitHub, best practices for the REST API):

* refused for the rate (403 that says so, 429): GitHub did not do it, so every method is asked again;
* 5xx, timeouts, broken connections: only what can be repeated without harm, so that no comment is made twice;
* a success whose body is not what was asked for, as a proxy's page is: only reads. Whether a write was done is for its
  channel to look up;
* a connection that never came about: every method.

All calls of a publication share `LONGEST_WAITS_S` for waiting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

MOST_REPEATS = 4
"""Times that one request is asked again."""
MOST_TIMEOUTS = 1
"""Of these after a timeout: the waiting is already done."""
LONGEST_WAITS_S = 180.0
"""Seconds of all waits of a publication: a job that stands still costs money, and the comment is not worth more."""
SECONDARY_WAIT_S = 60.0
"""Seconds when GitHub does not say: at least a minute, then exponentially (GitHub, rate limits for the REST API)."""

_GIT_OBJECTS = re.compile(r"/git/(blobs|trees|commits)$")
_APPENDS = re.compile(r"/check-runs/[0-9]+$")
_NO_PERMISSION = "resource not accessible"
_LIMITS = ("api rate limit exceeded", "you have exceeded a secondary rate limit")
_LIMIT_ENDS = ("please retry your request again later.", "please wait a few minutes before you try again.")


def reads(method: str, path: str) -> bool:
    """Tell whether a request changes nothing. A POST to GraphQL is a query here, never a mutation."""
    return path.endswith("/graphql") if method == "POST" else method in ("GET", "HEAD")


def repeatable(method: str, path: str) -> bool:
    """Tell whether a request may be carried out twice without harm.

    A PATCH of a check run adds its annotations to those there are. A Git object that nothing refers to is no harm.
    """
    if method == "POST":
        return reads(method, path) or _GIT_OBJECTS.search(path) is not None
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
    text = message.lower()
    if text.startswith(_NO_PERMISSION):
        return None
    asked = retry_after(headers.get("Retry-After"), now)
    exhausted = (headers.get("X-RateLimit-Remaining") or "").strip() == "0"
    limited = text.startswith(_LIMITS) or text.endswith(_LIMIT_ENDS)
    if status != 429 and asked is None and not exhausted and not limited:
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


def _number(value: str | None) -> float | None:
    try:
        number = float((value or "").strip())
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0.0 else None
