"""The last link: sends a request once and reads its whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from urllib.parse import urlsplit

import httpx2

from holodeck_action.llm.calls import Account, Answer, Call, WireError
from holodeck_action.llm.outcomes import check, parse

ATTEMPT_S = 300.0
"""Seconds that one attempt may take where no deadline is nearer: reasoning models think for minutes."""
CONNECT_S = 10.0
"""Seconds to reach the provider."""
MAX_BODY_BYTES = 64_000_000
"""Bytes of one answer, unpacked: 2,048 embeddings of 3,072 numbers, the most a provider gives, are below it."""

# The answer is handed on whole and unpacked: what these say of its form is no longer true.
_FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"})


def account_label(account: Account) -> str:
    """Return who is asked, for messages: provider and host, without path, user and password."""
    parts = urlsplit(account.base_url)
    host = parts.hostname or "?"
    try:
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        port = ""
    return f"{account.provider} ({host}{port})"


class Connections:
    """The connections of one account, each with a transport of its own: whoever sends borrows one.

    A transport with many connections looks at each of them with every request, which takes longer than all the rest.
    """

    def __init__(self, make: Callable[[], httpx2.AsyncBaseTransport]) -> None:
        """Prepare; nothing is opened.

        Args:
            make: returns a new transport.
        """
        self._make = make
        self._all: list[httpx2.AsyncBaseTransport] = []
        self._idle: list[httpx2.AsyncBaseTransport] = []

    @contextmanager
    def one(self) -> Iterator[httpx2.AsyncBaseTransport]:
        """Borrow the transport that was used last, a new one where none is idle."""
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
        for transport in self._all:
            await transport.aclose()


Lends = Callable[[], AbstractContextManager[httpx2.AsyncBaseTransport]]
"""Lends what sends a request, until its answer is read."""


class Network:
    """Sends requests of one account."""

    def __init__(self, account: Account, lends: Lends, monotonic: Callable[[], float]) -> None:
        self._label = account_label(account)
        self._lends = lends
        self._monotonic = monotonic

    async def __call__(self, call: Call) -> Answer:
        """Send the request once.

        Raises:
            WireError: `connect`, `disconnected`, `timeout`, `too_large`, `malformed`, `truncated`, `stream_error`.
        """
        call.attempts += 1
        request = call.request
        request.extensions = {"timeout": {"connect": CONNECT_S, "read": None, "write": None, "pool": None}}
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
            reason = str(error) or "no connection in time"
            raise WireError(f"{self._label} cannot be reached: {reason}", "connect", retry_worthy=True) from None
        except httpx2.DecodingError:
            message = f"{self._label} answered with a broken compressed body"
            raise WireError(message, "malformed", retry_worthy=True) from None
        except httpx2.RequestError as error:
            # The texts of protocol errors may quote what was sent, header values too.
            message = f"{self._label} broke off the exchange ({type(error).__name__})"
            retry = not isinstance(error, (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError))
            raise WireError(message, "disconnected", retry_worthy=retry) from None
        latency = self._monotonic() - started
        kind = response.headers.get("content-type", "")
        if 200 <= response.status_code < 300:
            payload = check(kind, body, self._label)
        else:
            try:
                payload = parse(kind, body)
            except (ValueError, RecursionError):
                payload = None
        headers = tuple((name, value) for name, value in response.headers.items() if name not in _FRAMING)
        return Answer(response.status_code, headers, body, payload, latency)

    async def _read(self, response: httpx2.Response) -> bytes:
        data = bytearray()
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                data += chunk
                if len(data) > MAX_BODY_BYTES:
                    raise WireError(f"{self._label} answered with more than {MAX_BODY_BYTES} bytes", "too_large")
        return bytes(data)
