"""A server of the Model Context Protocol, made with its SDK: `shop.py [KIND [PORT_FILE]]`.

A kind is `stdio`, `streamable-http`, `sessions` (the same without the stateless protocol) or `sse`. Over HTTP it takes
a free port, which it writes into a file, and answers only who sends the header `x-shop: open`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

server = MCPServer("shop")


@server.tool(structured_output=False)
def find_order(order: str) -> str:
    """Say where an order is."""
    return f"{order} is in Leeds"


@server.tool(structured_output=False)
def broken(order: str) -> str:
    raise ValueError(f"no such order: {order}")


@server.tool(structured_output=False)
def variable(of: str) -> str:
    """Return a variable of the environment."""
    return os.environ.get(of, "(not set)")


@server.tool(structured_output=False)
def place() -> str:
    return json.dumps({"folder": os.getcwd(), "arguments": sys.argv[1:], "pid": os.getpid()})


@server.tool()
def search(query: str) -> list[dict[str, Any]]:
    """Search the shop's pages."""
    return [{"id": "faq#1", "text": f"About {query}", "score": 0.9}, {"id": "faq#2", "text": "Returns", "score": 0.25}]


@server.tool(structured_output=False)
def pages(query: str) -> list[TextContent]:
    return [TextContent(text=f"About {query}"), TextContent(text='{"id": 7, "text": "Returns"}')]


@server.tool(structured_output=False)
def mixed() -> CallToolResult:
    return CallToolResult(
        content=[
            TextContent(text="A picture:"),
            ImageContent(data="AAECAw==", mime_type="image/png"),
            AudioContent(data="AAEC", mime_type="audio/wav"),
            ResourceLink(name="list", uri="shop://list"),
            EmbeddedResource(resource=TextResourceContents(uri="shop://a", text="embedded")),
            EmbeddedResource(resource=BlobResourceContents(uri="shop://b", blob="AAE=")),
        ]
    )


@server.tool(structured_output=False)
def structured() -> CallToolResult:
    return CallToolResult(content=[], structured_content={"found": 2, "names": ["a", "ü"]})


@server.tool(structured_output=False)
def large(size: int) -> str:
    return "ü" * (size // 2)


@server.tool(structured_output=False)
async def slow(seconds: float) -> str:
    import anyio

    await anyio.sleep(seconds)
    return "done"


@server.tool(structured_output=False)
def end() -> str:
    """End the server at once."""
    print("the shop burned down", file=sys.stderr, flush=True)
    os._exit(3)


def serve(transport: str, port_file: Path) -> None:
    """Serve over HTTP to those who send the header."""
    import socket

    import uvicorn

    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    log = port_file.with_suffix(".log")

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            with log.open("a") as file:
                file.write(f"{scope['method']} {scope['path']}\n")
            if transport == "sessions" and (b"mcp-protocol-version", b"2026-07-28") in scope["headers"]:
                await send({"type": "http.response.start", "status": 400, "headers": []})
                await send({"type": "http.response.body", "body": b"unknown version"})
                return
            if (b"x-shop", b"open") not in scope["headers"]:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b"closed"})
                return
        await app(scope, receive, send)

    listening = socket.create_server(("127.0.0.1", 0))
    partial = port_file.with_suffix(".part")
    partial.write_text(str(listening.getsockname()[1]))
    partial.rename(port_file)
    config = uvicorn.Config(guarded, log_level="error", timeout_graceful_shutdown=0)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "stdio"
    if kind in ("sse", "streamable-http", "sessions"):
        serve(kind, Path(sys.argv[2]))
    else:
        server.run("stdio")
