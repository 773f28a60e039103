"""Downloads of files from URLs, only from IP addresses that are allowed. Files may be kept between runs."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from holodeck_action import __version__
from holodeck_action.record.disk import UNSYNCED_DISK, write_atomically
from holodeck_action.suite.addresses import is_metadata_service, is_public, reachable_addresses

if TYPE_CHECKING:
    import httpx2


def refusal_reason(address: str, *, public_only: bool) -> str | None:
    """Return why downloads from an IP address are refused, as a clause; None if they are allowed.

    Link-local addresses, multicast addresses, and addresses at which clouds serve credentials are always refused.

    Args:
        address: IP address to check.
        public_only: whether to refuse all addresses outside the public internet, too.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return f"{address!r:.80} is not an IP address"
    for each in reachable_addresses(found):
        if each.is_link_local or each.is_multicast or each.is_unspecified:
            return f"{address} is a link-local, multicast or unspecified address"
        if is_metadata_service(each):
            return f"{address} is an address from which clouds serve credentials"
    if public_only and not is_public(found):
        return f"{address} is not a public address; in CI, files are downloaded from public addresses only"
    return None


MOST_BYTES = 25_000_000
"""Maximum bytes of one file."""
MOST_REDIRECTS = 5
_MOST_ADDRESSES = 4
"""Maximum number of IP addresses of a host that are tried."""

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_TRANSIENT = frozenset((408, 425, 429))

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host (name, port), best first; raises OSError if there are none."""


class DownloadError(Exception):
    """A file could not be downloaded.

    Attributes:
        message: the reason as a clause, without the URL.
        transient: whether a retry may help.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.transient = transient


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses to which the system resolves a host name, best first.

    Raises:
        OSError: the host has no address.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class Fetcher:
    """Downloads files from allowed IP addresses, never through a proxy."""

    def __init__(self, *, public_only: bool, resolve: Resolve) -> None:
        """Create the instance; no connection is opened yet.

        Args:
            public_only: whether to refuse addresses outside the public internet (see `refusal_reason`).
            resolve: returns the IP addresses of a host.
        """
        self._public_only = public_only
        self._resolve = resolve
        self._client: httpx2.AsyncClient | None = None

    async def fetch(self, url: str) -> bytes:
        """Download a file in one attempt, and return its bytes; redirects are followed.

        Raises:
            DownloadError: the download failed.
        """
        for _ in range(MOST_REDIRECTS + 1):
            status, moved, body = await self._get(url)
            if moved is None:
                return body
            if not moved:
                raise DownloadError(f"the server answered {status} without a destination")
            try:
                target = urljoin(url, moved)
                downgraded = urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https"
            except ValueError as error:
                raise DownloadError(f"the server redirects to an invalid URL: {error}") from None
            if downgraded:
                raise DownloadError("the server redirects from https to a URL without https")
            url = target
        raise DownloadError(f"the server redirects more than {MOST_REDIRECTS} times")

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _get(self, url: str) -> tuple[int, str | None, bytes]:
        """Return the HTTP status, the URL of a redirect (None if there is no redirect), and the bytes of the file."""
        parts, host, port = _split_url(url)
        addresses = await self._addresses(host, port)
        for last, address in enumerate(addresses, start=1 - len(addresses)):
            try:
                return await self._request(parts, host, port, address)
            except _NotReachedError as error:
                if last == 0:
                    raise DownloadError(f"{host} cannot be reached: {error}", transient=True) from None
        raise DownloadError(f"{host} has no address", transient=True)

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not a host name"
            raise DownloadError(f"{host} cannot be resolved: {reason}", transient=True) from None
        for address in found:
            reason = refusal_reason(address, public_only=self._public_only)
            if reason is not None:
                raise DownloadError(f"nothing is downloaded from {host}: {reason}")
        return found[:_MOST_ADDRESSES]

    async def _request(
        self, split_url: SplitResult, host: str, port: int, address: str
    ) -> tuple[int, str | None, bytes]:
        import httpx2

        client = self._open_client()
        # The URL has the checked address, because resolving the name again could give another address.
        literal = f"[{address}]" if ":" in address else address
        url = urlunsplit((split_url.scheme, f"{literal}:{port}", split_url.path or "/", split_url.query, ""))
        shown = f"[{host}]" if ":" in host else host
        header = shown if port == _PORTS[split_url.scheme] else f"{shown}:{port}"
        try:
            request = client.build_request("GET", url, headers={"host": header}, extensions=_tls_extensions(host))
            response = await client.send(request, stream=True)
            try:
                status = response.status_code
                if status in _REDIRECTS:
                    return status, response.headers.get("location", ""), b""
                if status != 200:
                    raise DownloadError(
                        f"the server answered with status {status}", transient=status >= 500 or status in _TRANSIENT
                    )
                return status, None, await _read_body(response)
            finally:
                await response.aclose()
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise _NotReachedError(str(error) or type(error).__name__) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise DownloadError(
                (f"the server closed the connection early ({type(error).__name__})"), transient=True
            ) from None

    def _open_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            from http.cookiejar import CookieJar, DefaultCookiePolicy

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
                # A proxy would resolve the name itself, and its address would not be checked.
                trust_env=False,
                verify=httpx2.create_ssl_context(),
                # Connections are not reused, because the certificate was checked for one host name only.
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            )
        return self._client


class _NotReachedError(Exception):
    """No connection to an IP address of a host could be made."""


def _split_url(url: str) -> tuple[SplitResult, str, int]:
    """Return the parsed URL, its host and its port.

    Raises:
        DownloadError: the URL is invalid, is not http or https, or contains a user name or password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise DownloadError(f"it is not a URL: {error}") from None
    if parts.scheme not in _PORTS or not host:
        raise DownloadError("only http and https URLs are downloaded")
    if parts.username is not None or parts.password is not None:
        raise DownloadError(
            "a URL with a user name or a password is not downloaded; download the file in an earlier step"
        )
    return parts, host.rstrip("."), port if port is not None else _PORTS[parts.scheme]


def _tls_extensions(host: str) -> dict[str, Any]:
    """Return the request extensions with which TLS checks the certificate for the host name, not the IP address."""
    return {"sni_hostname": host}


async def _read_body(response: httpx2.Response) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MOST_BYTES:
        raise _too_large_error()
    data = bytearray()
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > MOST_BYTES:
                raise _too_large_error()
    return bytes(data)


def _too_large_error() -> DownloadError:
    return DownloadError(f"it is larger than {MOST_BYTES // 1_000_000} MB; download the needed part in an earlier step")


ATTEMPTS = 3
FIRST_PAUSE_S = 1.0
"""Seconds before the second attempt; doubled before the third."""


class Downloads:
    """Downloads the files that cases name by URL. An instance belongs to one event loop."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        timeout_s: float,
        cache: Path | None,
        online: bool,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """Create the instance; nothing is downloaded or written yet.

        Args:
            fetcher: downloads a file in one attempt.
            timeout_s: maximum seconds per file for all attempts together (`execution.download_timeout`).
            cache: folder in which files are kept between runs, named by the SHA-256 of their URLs; None to keep no
                files.
            online: whether files may be downloaded; in a replay (False), only kept files are used.
            pause: waits for a number of seconds between attempts.
        """
        self._fetcher = fetcher
        self._timeout_s = timeout_s
        self._cache = cache
        self._online = online
        self._pause = pause
        self._downloads: dict[tuple[str, bool], asyncio.Task[Path]] = {}
        self._temporary: Path | None = None

    async def path(self, url: str, *, cached: bool) -> Path:
        """Return the path of the local copy of a URL's file, which is downloaded if there is no copy.

        Args:
            url: URL of the file.
            cached: whether to use the copy of an earlier run, and to keep the file for later runs, in the cache folder.

        Raises:
            DownloadError: the download failed.
        """
        key = (url, cached)
        if key not in self._downloads:
            self._downloads[key] = asyncio.create_task(self._fetch_to_disk(url, cached))
        # Shielded, because other callers may wait for the same download.
        try:
            return await asyncio.shield(self._downloads[key])
        except DownloadError:
            # Forgotten, so that the next caller tries again.
            self._downloads.pop(key, None)
            raise

    async def close(self) -> None:
        """Stop downloads in progress and delete files that are not kept."""
        for task in self._downloads.values():
            task.cancel()
        await asyncio.gather(*self._downloads.values(), return_exceptions=True)
        await self._fetcher.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    async def _fetch_to_disk(self, url: str, cached: bool) -> Path:
        name = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
        kept = self._cache / name if cached and self._cache is not None else None
        if kept is not None and kept.is_file():
            return kept
        if not self._online:
            raise DownloadError(
                "a replay downloads nothing, and "
                + (
                    "the folder of execution.cache_dir has no copy of it; keep that folder of the recorded run"
                    if kept is not None
                    else "it is not kept between runs; record with execution.cache_enabled and without `cache: false`"
                )
            )
        data = await self._fetch_in_time(url)
        if kept is None:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="holodeck-action-"))
            kept = self._temporary / name
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(kept, [data], disk=UNSYNCED_DISK)
        except OSError as error:
            raise DownloadError(
                f"it cannot be cached: {error.strerror}; set execution.cache_dir to a writable folder"
            ) from None
        return kept

    async def _fetch_in_time(self, url: str) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._fetch_with_retries(url)
        except TimeoutError:
            raise DownloadError(
                f"it was not downloaded within {self._timeout_s:g} s; raise execution.download_timeout"
            ) from None

    async def _fetch_with_retries(self, url: str) -> bytes:
        for attempt in range(ATTEMPTS):
            if attempt:
                await self._pause(FIRST_PAUSE_S * 2 ** (attempt - 1))
            try:
                return await self._fetcher.fetch(url)
            except DownloadError as error:
                failure = error
                if not error.transient:
                    raise
        raise DownloadError(f"{failure.message} ({ATTEMPTS} attempts)")
