"""Downloads files that GitHub stores outside of its API, without the token, with limits on size and time.

This module imports httpx2: import it only where a file is fetched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import BinaryIO
from urllib.parse import urlsplit

import httpx2

from holodeck_action.github.rest.objects import ApiError
from holodeck_action.suite.hosts import is_loopback

MOST_SECONDS = 300.0
"""Time limit of one attempt, in seconds: the largest accepted file takes this long at two megabits per second."""
_ATTEMPTS = 3


class _TemporaryError(Exception):
    """An attempt failed, perhaps only temporarily."""


def fetch(
    address: str, label: str, max_bytes: int, output: BinaryIO, *, pause: Callable[[float], None], timeout_s: float
) -> None:
    """Download a file.

    Args:
        address: URL of the file; it grants access, so no message contains it.
        label: description of the file for messages.
        max_bytes: maximum number of bytes.
        output: file to write to, from its current position; after an error it may contain a part of the download.
        pause: waits for a number of seconds before another attempt.
        timeout_s: timeout in seconds for a connection, and for each read.

    Raises:
        ApiError: the file cannot be downloaded or is larger than `max_bytes` bytes.
    """
    start = output.tell()
    local = is_loopback(urlsplit(address).hostname or "")
    with httpx2.Client(
        headers={"accept-encoding": "identity"},
        timeout=timeout_s,
        trust_env=not local,
        verify=not local or address.startswith("https:"),
    ) as http:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _attempt(http, address, label, max_bytes, output)
            except httpx2.InvalidURL:
                raise ApiError(f"{label} cannot be downloaded: its address is not a URL", "unavailable", None) from None
            except (httpx2.RequestError, _TemporaryError) as error:
                if attempt == _ATTEMPTS:
                    reason = str(error) if isinstance(error, _TemporaryError) else "the connection ended early"
                    raise ApiError(f"{label} cannot be downloaded: {reason}", "unavailable", None) from None
            else:
                return
            output.seek(start)
            output.truncate()
            pause(2.0**attempt)


def _attempt(http: httpx2.Client, address: str, label: str, max_bytes: int, output: BinaryIO) -> None:
    end = time.monotonic() + MOST_SECONDS
    size = 0
    with http.stream("GET", address) as response:
        if response.status_code != 200:
            if response.status_code == 429 or response.status_code >= 500:
                raise _TemporaryError(f"its storage answered {response.status_code}")
            text = f"{label} cannot be downloaded: its storage answered {response.status_code}"
            raise ApiError(text, "unavailable", response.status_code)
        # As it is stored: what is packed is unpacked where its size is watched.
        for piece in response.iter_raw():
            size += len(piece)
            if size > max_bytes:
                raise ApiError(f"{label} cannot be used: it is larger than {max_bytes:,} bytes", "invalid", None)
            if time.monotonic() > end:
                raise _TemporaryError(f"it did not arrive within {MOST_SECONDS:.0f} seconds")
            output.write(piece)
