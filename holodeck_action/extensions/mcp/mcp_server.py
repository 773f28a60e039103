"""One MCP server: started, asked, started again after it broke down, and ended for sure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2

from holodeck_action import __version__
from holodeck_action.extensions.mcp.mcp_settings import ServerPlan
from holodeck_action.extensions.mcp.mcp_streams import (
    MAX_MESSAGE,
    Heard,
    Streams,
    http_streams,
    sse_streams,
    stdio_streams,
)
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.hosts import shown_url
from holodeck_action.targets.own_model.toolbox import ToolError
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult, Tool

T = TypeVar("T")

MOST_STARTS = 3
"""Starts in a row without an answered call, after which a server is not started again."""

MOST_TOOLS = 1000
"""Tools one server may list; providers take far fewer."""

_CLOSING_S = 5.0
"""How long a server may take over its own end before its connection is broken off."""

_ENDED_S = 1.0
"""How long to wait for the reason after a connection has closed."""

_STATUS_ONLY = frozenset({"Not Found", "Server returned an error response"})
"""What the SDK says of an HTTP status without a message of the server."""

_SESSION_GONE = "Session terminated"
"""What the SDK says when a server no longer knows the session (HTTP 404)."""


class ServerError(Exception):
    """A server cannot be used; `str` is a clause such as `it exited with code 1 …`, `code` as of `ToolError`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer:
    """A server of the suite, shared by all conversations."""

    def __init__(self, plan: ServerPlan, redactor: Redactor) -> None:
        self.plan = plan
        self.redact = redactor.text
        self._connection: _Connection | None = None
        self._starts = 0
        self._closed = False
        self._calls: set[asyncio.Task[Any]] = set()

    async def list_tools(self) -> list[Tool]:
        """Start the server, and ask for its tools.

        Raises:
            AgentError: `tool_unavailable`.
        """
        try:
            connection, session = await self._session()
            return await self._bounded(
                self._pages(connection, session), self.plan.entry.request_timeout, "list its tools"
            )
        except ServerError as error:
            stderr = "" if self._connection is None else self._connection.heard.stderr
            context: dict[str, object] = {"stderr": stderr} if stderr else {}
            raise AgentError(f"{self.plan.place}: {self._shown(error)}", "tool_unavailable", context) from None

    async def call(self, name: str, args: dict[str, Any], timeout_s: float | None) -> CallToolResult:
        """Call one of its tools.

        Args:
            timeout_s: seconds it may take, if they are fewer than `request_timeout`; None for no further limit.

        Raises:
            ToolError: `timeout`, `crashed`, `disconnected`, `too_large`, `refused` and the like: no result came.
        """
        limit = (
            self.plan.entry.request_timeout if timeout_s is None else min(self.plan.entry.request_timeout, timeout_s)
        )
        try:
            result = await self._bounded(self._call(name, args), limit, "answer")
        except ServerError as error:
            raise ToolError(f"{self.plan.place}: {self._shown(error)}", error.code) from None
        self._starts = 0
        return result

    async def close(self) -> None:
        """End the server with everything it has started; calls under way fail."""
        self._closed = True
        for task in self._calls:
            task.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def _pages(self, connection: _Connection, session: ClientSession) -> list[Tool]:
        from mcp_types import PaginatedRequestParams

        found: list[Tool] = []
        cursor = None
        while True:
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            page = await self._answered(connection, session.list_tools(params=params))
            found += page.tools
            cursor = page.next_cursor
            if len(found) > MOST_TOOLS or (cursor is not None and not page.tools):
                raise ServerError(f"it lists more than {MOST_TOOLS} tools, or lists them without end", "bad_answer")
            if cursor is None:
                return found

    async def _call(self, name: str, args: dict[str, Any]) -> CallToolResult:
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

        connection, session = await self._session()
        # Not `call_tool`: it checks results against the server's own schema, whose patterns nobody bounds.
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=args))
        return await self._answered(connection, session.send_request(request, CallToolResult))

    async def _session(self) -> tuple[_Connection, ClientSession]:
        """Return a connection that is ready, with its session; started if there is none or the last one has ended."""
        connection = self._connection
        if connection is None or connection.ended:
            if self._closed:
                raise ServerError("it was ended, because the run ended", "closed")
            if connection is not None and self._starts == MOST_STARTS:
                raise ServerError(
                    f"it broke down {MOST_STARTS} times in a row and is not started again ({self._clause(connection)})",
                    "crashed",
                )
            self._starts += 1
            connection = self._connection = _Connection(self.plan, self.redact)
        session = await connection.ready()
        if session is None:
            raise self._trouble(connection)
        return connection, session

    async def _bounded(self, work: Coroutine[Any, Any, T], limit: float, what: str) -> T:
        """Do some work, and leave it alone at its limit: a server that hangs may hang its cancellation, too.

        Raises:
            ServerError: it gave nothing.
        """
        task = asyncio.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._forget)
        try:
            await asyncio.wait({task}, timeout=limit)
        finally:
            task.cancel()
        if not task.done():
            raise ServerError(f"it did not {what} within {limit:g} s", "timeout")
        if task.cancelled():
            raise ServerError("it was ended before it had answered, because the run ended", "closed")
        return task.result()

    async def _answered(self, connection: _Connection, request: Awaitable[T]) -> T:
        """Wait for an answer.

        Raises:
            ServerError: none came: the connection ended, the server refused, or what it sent is none.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        try:
            return await request
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await connection.wait(_ENDED_S)
                if connection.ended:
                    raise self._trouble(connection) from None
                raise ServerError(f"it broke off its answer: {self.words(error.message)}", "disconnected") from None
            if error.message == _SESSION_GONE:
                await connection.close()
                raise ServerError(
                    "it no longer knows the session; the next call starts a new one", "disconnected"
                ) from None
            raise ServerError(f"it refused: {_said(error, connection.heard)}", "refused") from None
        except (ValueError, RuntimeError) as error:
            # Texts of validation repeat what was sent.
            raise ServerError(f"it sent what no answer can be ({type(error).__name__})", "bad_answer") from None

    def _trouble(self, connection: _Connection) -> ServerError:
        error = connection.trouble
        code = {"too_large": "too_large", "crashed": "crashed", "timeout": "timeout"}.get(
            error.code if isinstance(error, AgentError) else "", "disconnected"
        )
        if isinstance(error, OSError) and self.plan.process is not None:
            code = "cannot_start"
        if isinstance(error, TimeoutError):
            code = "timeout"
        return ServerError(self._clause(connection), code)

    def _clause(self, connection: _Connection) -> str:
        """Say why a connection ended or did not come about."""
        from mcp.shared.exceptions import MCPError

        heard, error = connection.heard, connection.trouble
        match error:
            case AgentError(code="too_large"):
                return f"it sent a message of more than {MAX_MESSAGE} bytes; the connection was ended"
            case AgentError():
                return error.message.replace("the command", "its process").replace(" without answering", "")
            case TimeoutError():
                clause = f"it was not ready within {self.plan.entry.request_timeout:g} s (request_timeout)"
                if heard.stray is not None:
                    words = heard.stray.words(heard.redact)
                    clause += f"; its output, which is for messages alone, holds: {words}"
                return f"{clause}{heard.last_words}"
            case httpx2.HTTPStatusError():
                return f"it answered with HTTP {error.response.status_code}"
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return f"it cannot be reached: {self.words(str(error)) or 'no connection in time'}"
            case httpx2.HTTPError():
                return f"it broke off the exchange ({type(error).__name__})"
            case MCPError():
                return f"it refused: {_said(error, heard)}"
            case OSError():
                return f"it cannot be started: {error.strerror or type(error).__name__}"
            case None:
                return "its connection was closed"
            case _:
                return f"it does not speak the protocol: {self.words(str(error)) or type(error).__name__}"

    def words(self, text: str, limit: int = 200) -> str:
        """Return the beginning of what the server said as one line without secrets, for a message."""
        return Foreign.of_text(text).words(self.redact, limit)

    def _shown(self, error: ServerError) -> str:
        place = f" {shown_url(str(self.plan.entry.url))}" if self.plan.process is None else ""
        return self.redact(f"MCP server{place}: {error}")

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()


class _Connection:
    """One connection, held by a task of its own: the SDK's contexts must be left by the task that entered them.

    Attributes:
        heard: what the server said beside its messages.
        trouble: why it ended; None while it lasts, or when it was closed from here.
    """

    def __init__(self, plan: ServerPlan, redact: Redact) -> None:
        self.heard = Heard(redact)
        self.trouble: BaseException | None = None
        self._plan = plan
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold())

    @property
    def ended(self) -> bool:
        """Whether nothing can come of it any more."""
        return self._task.done() or self._stop.is_set()

    async def ready(self) -> ClientSession | None:
        """Return the session once it is ready; None when the connection ended before, and `trouble` says why."""
        waited: set[asyncio.Future[Any]] = {self._task, self._ready}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return None if self._task.done() or not self._ready.done() else self._ready.result()

    async def wait(self, seconds: float) -> None:
        """Wait for its end."""
        await asyncio.wait({self._task}, timeout=seconds)

    async def close(self) -> None:
        """End it: in order when it is ready, at once when it is not or when that takes too long."""
        if self._ready.done():
            self._stop.set()
            await self.wait(_CLOSING_S)
        self._task.cancel()
        await self.wait(_CLOSING_S)

    async def _hold(self) -> None:
        from mcp.client.session import ClientSession
        from mcp_types import Implementation

        try:
            async with asyncio.timeout(self._plan.entry.request_timeout) as limit:
                async with (
                    self._streams() as (incoming, outgoing),
                    ClientSession(
                        incoming, outgoing, client_info=Implementation(name="holodeck-action", version=__version__)
                    ) as session,
                ):
                    await _agree(session)
                    limit.reschedule(None)
                    self._ready.set_result(session)
                    await self._stop.wait()
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - whatever ends a connection is told to who asks next
            self.trouble = _cause(error)

    def _streams(self) -> AbstractAsyncContextManager[Streams]:
        if self._plan.process is not None:
            return stdio_streams(self._plan.process, self.heard)
        return (sse_streams if self._plan.entry.transport == "sse" else http_streams)(self._plan.entry, self.heard)


def silence() -> None:
    """Keep the SDK's logging, which quotes what servers send, out of the error output."""
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
        logger.propagate = False


async def _agree(session: ClientSession) -> None:
    """Agree on a version: by the handshake, which nearly all servers speak, else by discovery."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

    try:
        await session.initialize()
    except MCPError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()


def _said(error: MCPError, heard: Heard) -> str:
    """Return what a server says is wrong, and the HTTP status where that is all it says."""
    text = Foreign.of_text(error.message).words(heard.redact, 500)
    return f"{text} (HTTP {heard.status})" if heard.status is not None and error.message in _STATUS_ONLY else text


def _cause(error: BaseException) -> BaseException:
    """Return the first error that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
