"""Connections to the host of one account, one per concurrent request, over asyncio's streams.

The HTTP library's connections, proxies and parsing are used, but not its connection pool and streams, which took a
third of the time of a call: the pool examines all connections for every request, and the streams pass all data through
two more layers.
"""

from __future__ import annotations

import asyncio
import ssl
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from holodeck_action.suite.hosts import is_loopback

KEEP_S = 5.0
"""Seconds for which an idle connection is reused."""
_SECOND_ADDRESS_S = 0.25
"""Seconds after which the next IP address of a host is tried in parallel."""
_CLOSE_S = 1.0
"""Seconds for which closing waits for connections that are still being opened."""


class Routes:
    """Decides whether a host is reached directly or through a proxy."""

    def __init__(self, proxies: Mapping[str, str] | None) -> None:
        """Create the instance; nothing is opened yet.

        Args:
            proxies: proxy URLs by scheme, and under `no` the hosts without a proxy; None to read the environment.
        """
        self._proxies = proxies

    @cached_property
    def _ssl(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()

    def connections(self, base_url: str) -> Connections:
        """Return the connections to the host of a URL; none is opened yet."""
        proxy = self.proxy(base_url)
        # Plain HTTP needs no certificates, and loading them takes tens of milliseconds.
        plain = proxy is None and urlsplit(base_url).scheme == "http"
        return Connections(partial(Transport, None if plain else self._ssl, proxy))

    def proxy(self, base_url: str) -> str | None:
        """Return the proxy's URL for a base URL; None if the connection is direct. Connections to loopback addresses
        are always direct.
        """
        url = httpx2.URL(base_url)
        if is_loopback(url.host):
            return None
        proxies = urllib.request.getproxies() if self._proxies is None else dict(self._proxies)
        # The function exists on every platform, but the type stubs omit it.
        if urllib.request.proxy_bypass_environment(url.netloc.decode(), proxies):  # type: ignore[attr-defined]
            return None
        return proxies.get(url.scheme) or proxies.get("all")


class Connections:
    """The transports of one account. Each transport has one connection, and each request borrows a transport."""

    def __init__(self, make_transport: Callable[[], httpx2.AsyncBaseTransport]) -> None:
        """Create the instance; nothing is opened yet.

        Args:
            make_transport: creates a transport.
        """
        self._make = make_transport
        self._all: list[httpx2.AsyncBaseTransport] = []
        self._idle: list[httpx2.AsyncBaseTransport] = []

    @contextmanager
    def borrow(self) -> Iterator[httpx2.AsyncBaseTransport]:
        """Borrow the most recently used idle transport, or a new transport if all are in use."""
        if not self._idle:
            self._idle.append(self._make())
            self._all.append(self._idle[-1])
        transport = self._idle.pop()
        try:
            yield transport
        finally:
            self._idle.append(transport)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(transport.aclose() for transport in self._all))


class Transport(httpx2.AsyncBaseTransport):
    """Sends one request at a time to one host, reusing the connection if possible."""

    def __init__(self, context: ssl.SSLContext | None, proxy: str | None) -> None:
        """Create the instance; nothing is opened yet.

        Args:
            context: TLS settings; None to use plain HTTP.
            proxy: URL of a proxy, with user and password if required; None if the connection is direct.
        """
        self._context = context
        self._backend = _Backend()
        self._connection: httpcore2.AsyncHTTPConnection | None = None
        self._proxied: httpcore2.AsyncConnectionPool | None = None
        if proxy is not None:
            self._proxied = httpcore2.AsyncConnectionPool(
                context, _core_proxy(httpx2.Proxy(proxy)), keepalive_expiry=KEEP_S, network_backend=self._backend
            )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request whose body is in memory, and return the response with an unread body.

        Raises:
            httpx2.TransportError: there is no response.
        """
        url = request.url
        sent = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.content,
            extensions=request.extensions,
        )
        with _translate_errors():
            if url.scheme not in ("http", "https"):
                raise httpcore2.UnsupportedProtocol(f"unsupported protocol {url.scheme!r}: use http or https")
            sends = self._proxied or await self._direct_connection(sent.url.origin)
            answer = await sends.handle_async_request(sent)
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))

    async def _direct_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncHTTPConnection:
        """Return the current connection if it can be reused; otherwise a new one."""
        known = self._connection
        if known is not None and known.is_idle() and not known.has_expired() and known.can_handle_request(origin):
            return known
        await self._close_direct()
        self._connection = httpcore2.AsyncHTTPConnection(
            origin, self._context, keepalive_expiry=KEEP_S, network_backend=self._backend
        )
        return self._connection

    async def _close_direct(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def aclose(self) -> None:
        """Close the connection."""
        await self._close_direct()
        if self._proxied is not None:
            await self._proxied.aclose()
        await self._backend.wait_closed()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translate_errors():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        with _translate_errors():
            await self._answer.aclose()


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert exceptions of httpcore2 to the exceptions of httpx2 with the same names."""
    try:
        yield
    except (
        httpcore2.NetworkError,
        httpcore2.ProtocolError,
        httpcore2.ProxyError,
        httpcore2.TimeoutException,
        httpcore2.UnsupportedProtocol,
    ) as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error


def _core_proxy(proxy: httpx2.Proxy) -> httpcore2.Proxy:
    url = proxy.url
    return httpcore2.Proxy(
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        auth=proxy.raw_auth,
        headers=proxy.headers.raw,
    )


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._unused: set[asyncio.Task[_Stream]] = set()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        # If this were cancelled just when the connection opens, asyncio would leak the connection.
        opening = asyncio.create_task(_open(host, port, timeout))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._unused.add(opening)
            opening.add_done_callback(_close_unused)
            opening.add_done_callback(self._unused.discard)
            raise

    async def wait_closed(self) -> None:
        """Wait until abandoned connections are closed; they would stay open if the event loop ended first."""
        if self._unused:
            await asyncio.wait(self._unused, timeout=_CLOSE_S)


async def _open(host: str, port: int, timeout: float | None) -> _Stream:  # noqa: ASYNC109 - as above
    with _translate_connect_errors():
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port, happy_eyeballs_delay=_SECOND_ADDRESS_S)
    return _Stream(reader, writer)


def _close_unused(connecting: asyncio.Task[_Stream]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().abort()


class _Stream(httpcore2.AsyncNetworkStream):
    """A stream that buffers written data and sends it when a response is read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._unsent: list[bytes] = []

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the library's interface
        # A server that closes the connection while it receives may still have sent a response.
        with suppress(OSError):
            await self._send()
        try:
            return await self._reader.read(max_bytes)
        except OSError as error:
            raise httpcore2.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's interface
        self._unsent.append(buffer)

    async def aclose(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Close the stream without waiting for the peer."""
        self._writer.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
    ) -> httpcore2.AsyncNetworkStream:
        with _translate_connect_errors():
            async with asyncio.timeout(timeout):
                await self._writer.start_tls(ssl_context, server_hostname=server_hostname)
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._reader.at_eof() or self._reader.exception() is not None
        return self._writer.get_extra_info(info)

    async def _send(self) -> None:
        if self._unsent:
            self._writer.write(b"".join(self._unsent))
            self._unsent.clear()
            await self._writer.drain()


@contextmanager
def _translate_connect_errors() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise httpcore2.ConnectTimeout(str(error)) from error
    # Includes rejected certificates.
    except OSError as error:
        raise httpcore2.ConnectError(str(error)) from error
