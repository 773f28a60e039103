"""Checks whether a server can be reached."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2

from holodeck_action.github.rest.connection import describe_failure, http_client
from holodeck_action.github.rest.objects import ApiError

_TIMEOUT_S = 10.0


def try_address(url: str) -> tuple[bool, str]:
    """Send one GET request without an API key; return whether any response arrived, and a clause that describes it."""
    try:
        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
        http = http_client(url, _TIMEOUT_S)
    except (ValueError, ApiError):
        return False, "cannot be called: correct the address, or HTTPS_PROXY and SSL_CERT_FILE in the environment"
    try:
        with http, http.stream("GET", f"{parts.scheme}://{parts.netloc}{parts.path}") as response:
            status = response.status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        return False, f"{shown} cannot be reached: {describe_failure(error)[0]}; check address, proxy and firewall"
    return True, f"{shown} answers" if status < 300 else f"{shown} answers with HTTP {status}"
