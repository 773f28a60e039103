"""Connections over TLS, through proxies, closed by the other side, and with large bodies, to servers on loopback."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import os
import re
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import httpx2
import pytest

from holodeck_action.llm.calls import WireError
from holodeck_action.llm.connections import Routes, Transport
from tests.llm.models import FakeModels
from tests.llm.wiring import account, chat, opened, post, run
from tests.targets.attachments.site import certified

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers every request with its own body; `closing` ends the connection after an answer, without saying so."""

    def __init__(self, *, closing: bool = False, packed: bool = False) -> None:
        self.connections = 0
        self.ended = asyncio.Event()
        self._closing, self._packed = closing, packed

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            body = await reader.readexactly(size)
            more = b"content-encoding: gzip\r\n" if self._packed else b""
            body = gzip.compress(body) if self._packed else body
            length = f"content-length: {len(body)}\r\n".encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + length + more + b"\r\n" + body)
            await writer.drain()
            if self._closing:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
                self.ended.set()
                return


@pytest.fixture(autouse=True)
def forget_servers() -> Iterator[None]:
    """Collect what servers of tests leave of connections that were broken off while they were accepted."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@asynccontextmanager
async def listening(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    talking: set[asyncio.Task[None]] = set()

    async def safely(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        task.add_done_callback(talking.discard)
        with suppress(OSError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(safely, "127.0.0.1", 0, ssl=tls, limit=1 << 23)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await settled()
        if talking:
            await asyncio.wait(talking, timeout=60)


async def settled() -> None:
    """Let both ends of connections, which are in one loop, see what the other has done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Connect to what is asked for, wherever it says it is, on this machine."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"Proxy-Authorization: Basic dXNlcjpwYXNz" in head
    port = int(head.split(b" ")[1].rpartition(b":")[2])
    there, out = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while part := await source.read(65536):
                target.write(part)
                await target.drain()
        target.close()

    await asyncio.gather(pump(reader, out), pump(there, writer))


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    context, certificate = certified(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return context


@pytest.mark.parametrize("packed", [False, True])
def test_one_connection_serves_calls_one_after_the_other(tls: ssl.SSLContext, packed: bool) -> None:
    async def work() -> None:
        server = Server(packed=packed)
        async with listening(server.talk, tls) as port, opened() as wire:
            for size in (1, 300_000, 10):
                asked = chat("é" * size)
                answer = await post(wire, account(f"https://localhost:{port}/v1"), asked)
                assert answer.json() == asked
        assert server.connections == 1

    run(work)


@pytest.mark.parametrize("secured", [False, True])
def test_a_connection_that_was_closed_meanwhile_is_not_used_again(tls: ssl.SSLContext, secured: bool) -> None:
    async def work() -> None:
        server = Server(closing=True)
        scheme = "https" if secured else "http"
        async with listening(server.talk, tls if secured else None) as port, opened() as wire:
            for number in range(3):
                answer = await post(wire, account(f"{scheme}://localhost:{port}/v1"), chat(str(number)))
                assert answer.status_code == 200
                await server.ended.wait()
                server.ended.clear()
                await settled()
            assert wire.counts.requests == 3
        assert server.connections == 3

    run(work)


def test_a_certificate_of_another_name_is_told(tls: ssl.SSLContext) -> None:
    async def work() -> None:
        async with listening(Server().talk, tls) as port, opened() as wire:
            with pytest.raises(WireError, match="certificate verify failed") as caught:
                await post(wire, account(f"https://127.0.0.1:{port}/v1"), chat())
            assert caught.value.code == "connect"

    run(work)


def test_a_proxy_is_asked_for_a_tunnel(tls: ssl.SSLContext) -> None:
    async def work() -> None:
        server = Server()
        async with listening(server.talk, tls) as port, listening(proxy) as at:
            transport = Transport(httpx2.create_ssl_context(), f"http://user:pass@127.0.0.1:{at}")
            for number in range(2):
                request = httpx2.Request("POST", f"https://localhost:{port}/v1", json={"number": number})
                answer = await transport.handle_async_request(request)
                assert json.loads(await answer.aread()) == {"number": number}
                await answer.aclose()
            await transport.aclose()
        assert server.connections == 1

    run(work)


@pytest.mark.full
def test_a_call_that_is_given_up_while_it_connects_leaves_nothing_open() -> None:
    async def work() -> None:
        before = len(os.listdir("/proc/self/fd"))
        context, random = httpx2.create_ssl_context(), Random(7)
        async with listening(Server().talk) as port:
            for _ in range(100):
                transport = Transport(context, None)
                request = httpx2.Request("POST", f"http://localhost:{port}/v1", content=b"{}")
                call = asyncio.create_task(transport.handle_async_request(request))
                # Until the name is found, and the connection open, the loop turns some hundred times.
                for _ in range(random.randrange(600)):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                await transport.aclose()
            await settled()
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before + 5

    run(work)


def test_an_address_of_another_protocol_is_refused() -> None:
    async def work() -> None:
        transport = Transport(httpx2.create_ssl_context(), None)
        with pytest.raises(httpx2.UnsupportedProtocol):
            await transport.handle_async_request(httpx2.Request("POST", "ftp://localhost/v1", content=b"x"))
        await transport.aclose()

    run(work)


@pytest.mark.parametrize("steps", range(12))
def test_a_call_that_is_given_up_leaves_no_socket_open(steps: int) -> None:
    with FakeModels() as models:
        request = httpx2.Request("POST", f"{models.openai_url}/chat/completions", content=b"{}")
        request.extensions = {"timeout": {"connect": 60.0}}

        async def give_up() -> None:
            connections = Routes({}).connections(models.openai_url)

            async def send() -> None:
                with connections.borrow() as transport:
                    await transport.handle_async_request(request)

            sending = asyncio.create_task(send())
            for _ in range(steps):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await connections.close()

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            asyncio.run(give_up())
            gc.collect()
        # The server of this test closes its own end when it likes.
        its = f"laddr=('127.0.0.1', {urlsplit(models.openai_url).port})"
        left = [(re.findall(r"fd=(\d+)", str(each.message)), str(each.message)) for each in caught]
        served = [descriptors for descriptors, message in left if its in message]
        assert [message for descriptors, message in left if descriptors not in served] == []
