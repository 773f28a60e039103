"""Files of URLs on disk: every address checked, downloaded once per run, and kept between runs where that is wanted."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from holodeck_action import __version__
from holodeck_action.suite.addresses import is_machine_service, is_public, reached

if TYPE_CHECKING:
    import httpx2


def refusal(address: str, *, public_only: bool) -> str | None:
    """Say why nothing is downloaded from an address; None when it may be.

    Args:
        public_only: refuse everything that is not on the public internet. Addresses where clouds keep the credentials
            of their machines, and groups of machines, are refused everywhere.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return f"{address!r:.80} is no address"
    for each in reached(found):
        if each.is_link_local or each.is_multicast or each.is_unspecified:
            return f"{address} is a link-local, multicast or unspecified address"
        if is_machine_service(each):
            return f"{address} is where a cloud serves the credentials of its machines"
    if public_only and not is_public(found):
        return f"{address} is no public address, and CI is set"
    return None


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
            public_only: refuse addresses that are not on the public internet (see `refusal`).
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
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length) > MOST_BYTES:
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


ATTEMPTS = 3
FIRST_PAUSE_S = 1.0
"""Seconds before the second attempt, doubled before the third."""


class Downloads:
    """The files of the URLs that cases name; used within one event loop."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        timeout_s: float,
        cache: Path | None,
        online: bool,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """Prepare; nothing is downloaded or written yet.

        Args:
            timeout_s: seconds one file may take, with all attempts (`execution.download_timeout`).
            cache: folder in which files are kept between runs, under the SHA-256 of their URLs; None keeps none.
            online: False in a replay, where only kept files are used.
        """
        self._fetcher = fetcher
        self._timeout_s = timeout_s
        self._cache = cache
        self._online = online
        self._pause = pause
        self._fetching: dict[tuple[str, bool], asyncio.Task[Path]] = {}
        self._temporary: Path | None = None

    async def path(self, url: str, *, cached: bool) -> Path:
        """Return the file of a URL.

        Args:
            cached: use and keep a copy between runs, if there is a folder for that.

        Raises:
            DownloadError: it cannot be had.
        """
        key = (url, cached)
        if key not in self._fetching:
            self._fetching[key] = asyncio.create_task(self._fetched(url, cached))
        # Others may wait for it, too: whoever gives up waiting does not end it.
        try:
            return await asyncio.shield(self._fetching[key])
        except DownloadError:
            # Whoever needs it next may be luckier.
            self._fetching.pop(key, None)
            raise

    async def close(self) -> None:
        """End downloads under way and remove what is not kept."""
        for task in self._fetching.values():
            task.cancel()
        await asyncio.gather(*self._fetching.values(), return_exceptions=True)
        await self._fetcher.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    async def _fetched(self, url: str, cached: bool) -> Path:
        name = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
        kept = self._cache / name if cached and self._cache is not None else None
        if kept is not None and kept.is_file():
            return kept
        if not self._online:
            raise DownloadError(
                "a replay downloads nothing, and "
                + (
                    "the folder of execution.cache_dir has no copy of it; take that folder along from the recorded run"
                    if kept is not None
                    else "it is not kept between runs; record with execution.cache_enabled and without `cache: false`"
                )
            )
        data = await self._within_time(url)
        if kept is None:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="holodeck-action-"))
            kept = self._temporary / name
        try:
            _write(kept, data)
        except OSError as error:
            raise DownloadError(
                f"it cannot be kept: {error.strerror}; set execution.cache_dir to a folder that can be written"
            ) from None
        return kept

    async def _within_time(self, url: str) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._tried(url)
        except TimeoutError:
            raise DownloadError(
                f"it was not downloaded within {self._timeout_s:g} s; raise execution.download_timeout"
            ) from None

    async def _tried(self, url: str) -> bytes:
        for attempt in range(ATTEMPTS - 1):
            try:
                return await self._fetcher.fetch(url)
            except DownloadError as error:
                if not error.transient:
                    raise
            await self._pause(FIRST_PAUSE_S * 2**attempt)
        try:
            return await self._fetcher.fetch(url)
        except DownloadError as error:
            raise DownloadError(f"{error.message}{f' ({ATTEMPTS} attempts)' if error.transient else ''}") from None


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, so that nobody ever finds half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".download.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
