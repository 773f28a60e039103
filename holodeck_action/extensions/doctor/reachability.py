"""Checks whether a server can be reached."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import httpx2

from holodeck_action.github.rest.answers import TooLargeError, TooSlowError, describe_failure
from holodeck_action.github.rest.connection import Connection, UnsuccessfulError
from holodeck_action.github.rest.objects import ApiError


def try_address(url: str) -> tuple[bool, str]:
    """Send one GET request without an API key; return whether any response arrived, and a clause that describes it."""
    try:
        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
        connection = Connection(url, timeout_s=10.0, monotonic=time.monotonic)
    except (ValueError, ApiError):
        return False, "cannot be called: correct the address, or HTTPS_PROXY and SSL_CERT_FILE in the environment"
    try:
        connection.request("GET", parts.path, None, {})
    except UnsuccessfulError as error:
        return True, f"{shown} answers with HTTP {error.status}"
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, TooLargeError, TooSlowError) as error:
        return False, f"{shown} cannot be reached: {describe_failure(error)[0]}; check address, proxy and firewall"
    finally:
        connection.close()
    return True, f"{shown} answers"
