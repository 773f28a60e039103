"""Starting the servers of the tests: as `npx` on the PATH of a run, and over HTTP on loopback."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holodeck_action.extensions.mcp.mcp_tools import McpServers
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.tools import FunctionTool, MCPTool, ToolModel
from holodeck_action.targets.own_model.toolbox import Tool
from holodeck_action.text.redaction import Redactor
from tests.commands.forked import Forked
from tests.targets.conversations import run
from tests.workers.support import CODE, wait_until

HERE = Path(__file__).parent
SHOP, RUDE = str(HERE / "shop.py"), str(HERE / "rude.py")
REQUEST_S = 60.0


def path_with_npx(folder: Path) -> str:
    """Put a program named `npx` into a folder, which runs Python; return the PATH that finds it first."""
    program = folder / "bin" / "npx"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def mcp(name: str, *args: str, **more: Any) -> dict[str, Any]:
    """An entry of a suite for a server over stdio, or with `url=` for another one."""
    started = {} if "url" in more else {"command": "npx", "args": [*args]}
    return {"type": "mcp", "name": name, "description": "A server.", **started, **more}


def servers(folder: Path, *entries: dict[str, Any], secrets: tuple[str, ...] = (), **environ: str) -> McpServers:
    """The servers of entries, in a folder; a call may take 20 s at most, unless an entry says otherwise."""
    tools: list[ToolModel] = [
        FunctionTool(**entry) if entry["type"] == "function" else MCPTool(**{"request_timeout": REQUEST_S, **entry})
        for entry in entries
    ]
    around = {**os.environ, "PATH": path_with_npx(folder), **environ}
    return McpServers(
        tools, checkout=Checkout.of(folder, folder), environ=around, code=CODE, redactor=Redactor(secrets)
    )


def using(kit: McpServers, work: Callable[[dict[str, Tool]], Awaitable[Any]]) -> Any:
    """Open servers, do some work with their tools by name, and close them."""

    async def bounded() -> Any:
        try:
            return await work({tool.definition.name: tool for tool in await kit.open()})
        finally:
            await kit.close()

    return run(bounded())


@dataclass(frozen=True)
class Served:
    """A server over HTTP; `log` holds method and path of its requests."""

    url: str
    _log: Path

    @property
    def log(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@contextmanager
def served(folder: Path, transport: str) -> Iterator[Served]:
    """The shop over `streamable-http`, `sse`, or `sessions` of streamable HTTP, in a process of its own."""
    port_file = folder / f"{transport}.port"
    arguments = (SHOP, transport, str(port_file))
    with Forked(arguments, folder, os.environ, imported=("mcp.server.mcpserver", "uvicorn")) as process:
        try:
            assert wait_until(port_file.exists)
            path = "/sse" if transport == "sse" else "/mcp"
            yield Served(f"http://127.0.0.1:{port_file.read_text()}{path}", port_file.with_suffix(".log"))
        finally:
            process.kill()


Answering = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answering) -> AsyncIterator[str]:
    """A server on loopback that gives each connection its first request's head; return its address."""
    over = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(await reader.readuntil(b"\r\n\r\n"), writer)
            await writer.drain()
            await over.wait()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
    finally:
        over.set()
        server.close()
