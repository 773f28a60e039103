"""The last link of the chain: sends a request once and reads the complete answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from contextlib import AbstractContextManager, aclosing
from functools import cache

import httpx2

from holodeck_action.llm.calls import Account, Answer, Call, HttpRequest, WireError
from holodeck_action.llm.outcomes import parse, parse_complete

ATTEMPT_S = 300.0
"""Maximum seconds of one attempt if no deadline is earlier; reasoning models think for minutes."""
CONNECT_S = 10.0
"""Maximum seconds to connect to the provider."""
MAX_BODY_BYTES = 64_000_000
"""Maximum bytes of one decompressed answer; the largest known one, 2,048 embeddings of 3,072 numbers, is smaller."""

# Dropped, because the answer is passed on complete and decompressed.
_DROPPED_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"})
_HEADERS = dict(httpx2.AsyncClient(transport=httpx2.AsyncBaseTransport(), trust_env=False).headers)
"""The HTTP library's default headers, which include the compressions that it supports."""
_EXTENSIONS = {"timeout": {"connect": CONNECT_S, "read": None, "write": None, "pool": None}}
_url = cache(httpx2.URL)


TransportLender = Callable[[], AbstractContextManager[httpx2.AsyncBaseTransport]]
"""Returns a context manager that lends a transport for one request, until the answer is read."""


class Network:
    """Sends the requests of one account."""

    def __init__(self, account: Account, lend_transport: TransportLender, monotonic: Callable[[], float]) -> None:
        self._label = account.label
        self._lends = lend_transport
        self._monotonic = monotonic

    async def __call__(self, call: Call) -> Answer:
        """Send the request once.

        Raises:
            WireError: `connect`, `disconnected`, `timeout`, `too_large`, `malformed`, `truncated`, `stream_error`.
        """
        call.attempts += 1
        request = self._build_request(call.request)
        call.lost += 1
        started = self._monotonic()
        try:
            with self._lends() as transport:
                async with asyncio.timeout(ATTEMPT_S):
                    response = await transport.handle_async_request(request)
                    response.request = request
                    try:
                        body = await self._read(response)
                    finally:
                        await response.aclose()
        except TimeoutError:
            message = f"{self._label} did not answer within {ATTEMPT_S:g} s"
            raise WireError(message, "timeout", retry_worthy=True) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            call.lost -= 1
            reason = str(error) or "no connection in time"
            raise WireError(f"{self._label} cannot be reached: {reason}", "connect", retry_worthy=True) from None
        except httpx2.DecodingError:
            message = f"{self._label} answered with a broken compressed body"
            raise WireError(message, "malformed", retry_worthy=True) from None
        except httpx2.RequestError as error:
            # Messages of protocol errors may quote the request, including header values.
            message = f"{self._label} closed the connection early ({type(error).__name__})"
            retry = not isinstance(error, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError))
            raise WireError(message, "disconnected", retry_worthy=retry) from None
        latency = self._monotonic() - started
        kind = response.headers.get("content-type", "")
        if 200 <= response.status_code < 300:
            payload = parse_complete(kind, body, self._label)
        else:
            try:
                payload = parse(kind, body)
            except ValueError:
                payload = None
        headers = tuple((name, value) for name, value in response.headers.items() if name not in _DROPPED_HEADERS)
        call.lost -= 1
        return Answer(response.status_code, headers, body, payload, latency)

    def _build_request(self, call: HttpRequest) -> httpx2.Request:
        try:
            url = _url(call.url)
        except httpx2.InvalidURL as error:
            raise WireError(f"{self._label} cannot be reached: {error}", "connect") from None
        return httpx2.Request(
            "POST", url, headers={**_HEADERS, **call.headers}, content=call.content, extensions=_EXTENSIONS
        )

    async def _read(self, response: httpx2.Response) -> bytes:
        stream = response.stream
        if "content-encoding" not in response.headers and isinstance(stream, httpx2.AsyncByteStream):
            # An uncompressed body needs no decoder of the library.
            return await self._join(stream)
        async with aclosing(response.aiter_bytes()) as chunks:
            return await self._join(chunks)

    async def _join(self, chunks: AsyncIterable[bytes]) -> bytes:
        data = bytearray()
        async for chunk in chunks:
            data += chunk
            if len(data) > MAX_BODY_BYTES:
                raise WireError(f"{self._label} answered with more than {MAX_BODY_BYTES} bytes", "too_large")
        return bytes(data)
