"""Downloads files that GitHub stores outside of its API, without the token, with limits on size and time.

This module imports httpx2: import it only where a file is fetched.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx2

from holodeck_action.github.rest.connection import TooLargeError, TooSlowError, http_client, read_body
from holodeck_action.github.rest.objects import ApiError

MOST_SECONDS = 300.0
"""Time limit of one attempt, in seconds: the largest accepted file takes this long at two megabits per second."""
_ATTEMPTS = 3


class _TemporaryError(Exception):
    """An attempt failed, perhaps only temporarily."""


def fetch(address: str, label: str, max_bytes: int, *, pause: Callable[[float], None], timeout_s: float) -> bytes:
    """Return the content of a file.

    Args:
        address: URL of the file; it grants access, so no message contains it.
        label: description of the file for messages.
        max_bytes: maximum number of bytes.
        pause: waits for a number of seconds before another attempt.
        timeout_s: timeout in seconds for a connection, and for each read.

    Raises:
        ApiError: the file cannot be downloaded or is larger than `max_bytes` bytes.
    """
    with http_client(address, timeout_s) as http:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return _attempt(http, address, label, max_bytes)
            except httpx2.InvalidURL:
                raise ApiError(f"{label} cannot be downloaded: its address is not a URL", "unavailable", None) from None
            except TooLargeError:
                problem = f"it is larger than {max_bytes:,} bytes"
                raise ApiError(f"{label} cannot be used: {problem}", "invalid", None) from None
            except TooSlowError:
                reason = f"it did not arrive within {MOST_SECONDS:.0f} seconds"
            except _TemporaryError as error:
                reason = str(error)
            except httpx2.RequestError:
                reason = "the connection ended early"
            if attempt < _ATTEMPTS:
                pause(2.0**attempt)
    raise ApiError(f"{label} cannot be downloaded: {reason}", "unavailable", None)


def _attempt(http: httpx2.Client, address: str, label: str, max_bytes: int) -> bytes:
    with http.stream("GET", address, headers={"accept-encoding": "identity"}) as response:
        if response.status_code == 200:
            return read_body(response, max_bytes, MOST_SECONDS, time.monotonic)
        problem = f"its storage answered {response.status_code}"
        if response.status_code == 429 or response.status_code >= 500:
            raise _TemporaryError(problem)
        raise ApiError(f"{label} cannot be downloaded: {problem}", "unavailable", response.status_code)
