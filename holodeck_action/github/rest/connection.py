"""The connection over which PyGithub sends its requests: httpx2, with limits on the responses.

PyGithub's own connections read a body of any size for any time. PyGithub repeats a request endlessly while GitHub
computes the response (202), and follows a 301. PyGithub therefore gets only successes; for any other response, this
module raises an error.

This module imports httpx2 and requests, which PyGithub needs: import it only where GitHub is called.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx2
from msgspec import Struct
from requests import Session

from holodeck_action.github.rest.answers import error_message, read_body
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.text.foreign import Foreign

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes of a decompressed response; 100 comments of 65,536 characters of 4 bytes take 26 MB."""

_BODY_TIMEOUTS = 4


class Reply(Struct, frozen=True):
    """A successful response, with the methods that PyGithub calls on a response."""

    status: int
    text: str
    link: str

    def getheaders(self) -> list[tuple[str, str]]:
        """Return only the `link` header, since PyGithub fails on rate-limit headers that are not numbers."""
        return [("link", self.link)] if self.link else []

    def read(self) -> str:
        """Return the body."""
        return self.text


class UnsuccessfulError(Exception):
    """A response is not a success; the message is untrusted text."""

    def __init__(self, response: httpx2.Response, message: str = "") -> None:
        super().__init__(message)
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers


class RefusedError(UnsuccessfulError):
    """GitHub refused a request, failed, or is still computing the response."""


class RedirectedError(UnsuccessfulError):
    """The response redirects to another URL."""


def http_client(url: str, timeout_s: float) -> httpx2.Client:
    """Return a client for the host of a URL, with the proxy and the certificates that the environment names.

    The variables are those of httpx and requests: `HTTPS_PROXY`, `NO_PROXY`, …; `SSL_CERT_FILE` or `SSL_CERT_DIR`
    instead of the system's certificates, and `REQUESTS_CA_BUNDLE` for further ones.

    Raises:
        ApiError: the environment names a proxy or certificates that cannot be used.
    """
    parts = urlsplit(url)
    verify: ssl.SSLContext | bool = False
    try:
        # Certificates, which take longer to read than a request, are for HTTPS.
        if parts.scheme == "https":
            verify = httpx2.create_ssl_context()
            bundle = Session().merge_environment_settings(url, {}, None, None, None)["verify"]
            if isinstance(bundle, str):
                verify.load_verify_locations(**{"capath" if os.path.isdir(bundle) else "cafile": bundle})
        # A proxy cannot reach this machine.
        return httpx2.Client(timeout=timeout_s, trust_env=not is_loopback(parts.hostname or ""), verify=verify)
    except (ImportError, OSError, ValueError, httpx2.InvalidURL):
        problem = "the proxy or the certificates that the environment names cannot be used"
        raise ApiError(f"GitHub cannot be called: {problem}", "invalid", None) from None


class Connection:
    """Sends requests to one server, one at a time, with the methods that PyGithub calls on a connection.

    Args:
        base: URL of the API.
        timeout_s: timeout in seconds for a connection, and for each read of a response.
        monotonic: returns monotonic seconds.

    Raises:
        ApiError: the environment names a proxy or certificates that cannot be used.
    """

    def __init__(self, base: str, timeout_s: float, monotonic: Callable[[], float]) -> None:
        parts = urlsplit(base)
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._timeout_s, self._monotonic = timeout_s, monotonic
        self._http = http_client(base, timeout_s)
        self._reply: Reply | None = None

    def close(self) -> None:
        """Close the sockets."""
        self._http.close()

    def request(
        self, method: str, path: str, content: str | None, headers: Mapping[str, str], stream: bool = False
    ) -> None:
        """Send a request, and read the whole response.

        Raises:
            RefusedError, RedirectedError: the response is not a success.
            TooLargeError, TooSlowError: the body exceeds its limits.
            httpx2.RequestError, httpx2.InvalidURL, httpx2.StreamError: there is no response.
        """
        # The slash ends the name of the host: nothing in a path can lead the token elsewhere.
        url = f"{self._server}/{path.removeprefix('/')}"
        with self._http.stream(method, url, content=content, headers=headers) as response:
            status = response.status_code
            # With 202 GitHub says that it is still computing the answer.
            if status >= 400 or (status == 202 and method == "GET"):
                raise RefusedError(response, error_message(response, self._monotonic))
            body = Foreign(read_body(response, MOST_BYTES, _BODY_TIMEOUTS * self._timeout_s, self._monotonic))
            if status >= 300:
                raise RedirectedError(response)
            # Half a character in a text costs that character, not the answer.
            self._reply = Reply(status, body.lossy_text(), response.headers.get("link", ""))

    def getresponse(self) -> Reply:
        """Return the response to the last request."""
        assert self._reply is not None
        return self._reply
