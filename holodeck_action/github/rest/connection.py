"""Connections to GitHub, and to the storage of its files: certificates, bodies within limits, and failures.

This module imports httpx2: import it only where GitHub is called.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2

from holodeck_action.github.rest.objects import ApiError
from holodeck_action.suite.hosts import is_loopback


class TooLargeError(Exception):
    """The body is longer than its limit."""


class TooSlowError(Exception):
    """The body did not arrive within its time limit."""


def http_client(url: str, timeout_s: float) -> httpx2.Client:
    """Return a client for the host of a URL, with the proxy and the certificates that the environment names.

    The variables are those of httpx and requests: `HTTPS_PROXY`, `NO_PROXY`, …; `SSL_CERT_FILE` or `SSL_CERT_DIR`
    instead of the system's certificates, and `REQUESTS_CA_BUNDLE` or `CURL_CA_BUNDLE` for further ones.

    Raises:
        ApiError: the environment names a proxy or certificates that cannot be used.
    """
    parts = urlsplit(url)
    verify: ssl.SSLContext | bool = False
    try:
        # Certificates, which take longer to read than a request, are for HTTPS.
        if parts.scheme == "https":
            verify = httpx2.create_ssl_context()
            # As requests does, which only the extra `github` has.
            bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
            if bundle:
                verify.load_verify_locations(**{"capath" if os.path.isdir(bundle) else "cafile": bundle})
        # A proxy cannot reach this machine.
        return httpx2.Client(timeout=timeout_s, trust_env=not is_loopback(parts.hostname or ""), verify=verify)
    except (ImportError, OSError, ValueError, httpx2.InvalidURL):
        problem = "the proxy or the certificates that the environment names cannot be used"
        raise ApiError(f"GitHub cannot be called: {problem}", "invalid", None) from None


def read_body(response: httpx2.Response, max_bytes: int, within_s: float, monotonic: Callable[[], float]) -> bytes:
    """Return the decompressed body of a response.

    Args:
        response: the response, whose body is not read yet.
        max_bytes: maximum number of bytes.
        within_s: time limit for the whole body in seconds, since a body with a limit only per read could arrive
            endlessly slowly.
        monotonic: returns monotonic seconds.

    Raises:
        TooLargeError: the body is longer than `max_bytes` bytes.
        TooSlowError: the body takes longer than `within_s`.
    """
    data = bytearray()
    end = monotonic() + within_s
    for piece in response.iter_bytes():
        data += piece
        if len(data) > max_bytes:
            raise TooLargeError
        if monotonic() > end:
            raise TooSlowError
    return bytes(data)


def describe_failure(error: Exception) -> tuple[str, bool]:
    """Return a clause on why a request got no response, and whether GitHub may have received the request."""
    if isinstance(error, httpx2.ProxyError):
        return "the proxy cannot be used", False
    if is_certificate_error(error):
        return "its certificate is not trusted here", False
    if isinstance(error, httpx2.ConnectTimeout):
        return "no connection could be made in time", False
    if isinstance(error, httpx2.ConnectError):
        return "no connection could be made", False
    if isinstance(error, httpx2.TimeoutException | TooSlowError):
        return "the answer did not arrive in time", True
    return "the connection ended early before the answer", True


def is_certificate_error(error: BaseException | None) -> bool:
    """Return whether a connection failed because its certificate is not trusted."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None
