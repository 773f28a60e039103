"""One file from one URL: every address checked, redirects too, within a size."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from holodeck_action import __version__
from holodeck_action.targets.attachments.addresses import refusal

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 25_000_000
"""Most bytes of one file."""
MOST_REDIRECTS = 5
_MOST_ADDRESSES = 4
"""Addresses of one name that are tried."""

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_TRANSIENT = frozenset((408, 425, 429))

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses, best first; raises OSError."""


class DownloadError(Exception):
    """A file that could not be downloaded.

    Attributes:
        message: one clause without the URL, which its reader knows.
        transient: whether trying again may help.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.transient = transient


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, best first, as the system knows them.

    Raises:
        OSError: there are none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class Fetcher:
    """Fetches files; connects only to addresses that were checked, through no proxy."""

    def __init__(self, *, public_only: bool, resolve: Resolve) -> None:
        """Prepare; nothing is connected yet.

        Args:
            public_only: refuse addresses that are not on the public internet (see `addresses.refusal`).
            resolve: finds the addresses of a name.
        """
        self._public_only = public_only
        self._resolve = resolve
        self._client: httpx2.AsyncClient | None = None

    async def fetch(self, url: str) -> bytes:
        """Fetch a file once, following redirects.

        Raises:
            DownloadError: it cannot be had.
        """
        for _ in range(MOST_REDIRECTS + 1):
            status, moved, body = await self._get(url)
            if moved is None:
                return body
            if not moved:
                raise DownloadError(f"the server answered {status} without saying where to")
            try:
                target = urljoin(url, moved)
                downgraded = urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https"
            except ValueError as error:
                raise DownloadError(f"the server redirects to what is no URL: {error}") from None
            if downgraded:
                raise DownloadError("the server redirects from https to an address that is not")
            url = target
        raise DownloadError(f"the server redirects more than {MOST_REDIRECTS} times")

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _get(self, url: str) -> tuple[int, str | None, bytes]:
        """Return status, where the file has moved to, and its bytes."""
        parts, host, port = _split(url)
        addresses = await self._addresses(host, port)
        for last, address in enumerate(addresses, start=1 - len(addresses)):
            try:
                return await self._ask(parts, host, port, address)
            except _NotReachedError as error:
                if last == 0:
                    raise DownloadError(f"{host} cannot be reached: {error}", transient=True) from None
        raise DownloadError(f"{host} has no address", transient=True)

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no name of a host"
            raise DownloadError(f"{host} cannot be resolved: {reason}", transient=True) from None
        for address in found:
            reason = refusal(address, public_only=self._public_only)
            if reason is not None:
                raise DownloadError(f"nothing is downloaded from {host}: {reason}")
        return found[:_MOST_ADDRESSES]

    async def _ask(self, parts: SplitResult, host: str, port: int, address: str) -> tuple[int, str | None, bytes]:
        import httpx2

        client = self._opened()
        # The checked address, not the name: a second look at it might give another one.
        literal = f"[{address}]" if ":" in address else address
        url = urlunsplit((parts.scheme, f"{literal}:{port}", parts.path or "/", parts.query, ""))
        shown = f"[{host}]" if ":" in host else host
        header = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
        try:
            request = client.build_request("GET", url, headers={"host": header}, extensions=_named(host))
            response = await client.send(request, stream=True)
            try:
                status = response.status_code
                if status in _REDIRECTS:
                    return status, response.headers.get("location", ""), b""
                if status != 200:
                    raise DownloadError(
                        f"the server answered with status {status}", transient=status >= 500 or status in _TRANSIENT
                    )
                return status, None, await _body(response)
            finally:
                await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise _NotReachedError(str(error) or type(error).__name__) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise DownloadError(f"the server broke off ({type(error).__name__})", transient=True) from None

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2

            self._client = httpx2.AsyncClient(
                headers={
                    "accept": "*/*",
                    "accept-encoding": "identity",
                    "user-agent": f"holodeck-action/{__version__}",
                },
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                timeout=None,
                follow_redirects=False,
                # A proxy would look the name up itself; certificates are those that the job trusts.
                trust_env=False,
                verify=httpx2.create_ssl_context(),
                # Two names may share an address, but not a connection: its certificate was checked for one of them.
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            )
        return self._client


class _NotReachedError(Exception):
    """One address of a host does not answer."""


def _split(url: str) -> tuple[SplitResult, str, int]:
    """Return the parts of a URL, its host and its port.

    Raises:
        DownloadError: it is none to download from.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise DownloadError(f"it is no URL: {error}") from None
    if parts.scheme not in _PORTS or not host:
        raise DownloadError("only http and https URLs are downloaded")
    if parts.username is not None or parts.password is not None:
        raise DownloadError("a URL with a user name or a password is not downloaded; download it in a step before")
    return parts, host.rstrip("."), port if port is not None else _PORTS[parts.scheme]


def _named(host: str) -> dict[str, Any]:
    """Tell the name that the certificate must have."""
    return {"sni_hostname": host}


async def _body(response: httpx2.Response) -> bytes:
    told = response.headers.get("content-length", "")
    if told.isdecimal() and int(told) > MOST_BYTES:
        raise _too_large()
    data = bytearray()
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > MOST_BYTES:
                raise _too_large()
    return bytes(data)


def _too_large() -> DownloadError:
    return DownloadError(f"it is larger than {MOST_BYTES // 1_000_000} MB; download what is needed of it before")
