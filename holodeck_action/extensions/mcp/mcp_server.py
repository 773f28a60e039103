"""Runs one MCP server: starts it, calls its tools, restarts it after a failure, and makes sure that it ends."""

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
    ServerOutput,
    Streams,
    http_streams,
    sse_streams,
    stdio_streams,
)
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.hosts import url_without_secrets
from holodeck_action.targets.own_model.toolbox import ToolError
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult, Tool

T = TypeVar("T")

MOST_STARTS = 3
"""Maximum number of consecutive starts of a server without an answered call; then it is not started again."""

MOST_TOOLS = 1000
"""Most tools that one server may list; providers accept far fewer."""

_CLOSING_S = 5.0
"""Seconds that a server has to end before its connection is aborted."""

_ENDED_S = 1.0
"""Seconds to wait, after a connection has closed, until the reason for its end is known."""

_STATUS_ONLY = frozenset({"Not Found", "Server returned an error response"})
"""Error texts of the SDK for a failed HTTP response without a message from the server."""

_SESSION_GONE = "Session terminated"
"""The SDK's text if the server no longer knows the session (HTTP 404)."""


class ServerError(Exception):
    """A server cannot be used. The message is a clause such as `it exited with code 1 …`, and `code` is a code of
    `ToolError`.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class McpServer:
    """An MCP server of the suite, which all conversations share."""

    def __init__(self, plan: ServerPlan, redactor: Redactor) -> None:
        self.plan = plan
        self.redact = redactor.text
        self._connection: _Connection | None = None
        self._starts = 0
        self._closed = False
        self._calls: set[asyncio.Task[Any]] = set()

    async def list_tools(self) -> list[Tool]:
        """Start the server and return its tools.

        Raises:
            AgentError: `tool_unavailable`: the server cannot be started, or does not list its tools in time.
        """
        try:
            connection, session = await self._open_session()
            return await self._run_with_limit(
                self._list_pages(connection, session), self.plan.entry.request_timeout, "list its tools"
            )
        except ServerError as error:
            stderr = "" if self._connection is None else self._connection.output.stderr
            context: dict[str, object] = {"stderr": stderr} if stderr else {}
            raise AgentError(f"{self.plan.place}: {self._error_text(error)}", "tool_unavailable", context) from None

    async def call(self, name: str, args: dict[str, Any], timeout_s: float | None) -> CallToolResult:
        """Call a tool of the server.

        Args:
            timeout_s: time limit in seconds, if it is less than `request_timeout`; None if only `request_timeout`
                applies.

        Raises:
            ToolError: the server gave no result; the code is `timeout`, `crashed`, `disconnected`, `too_large`,
                `refused` or similar.
        """
        limit = (
            self.plan.entry.request_timeout if timeout_s is None else min(self.plan.entry.request_timeout, timeout_s)
        )
        try:
            result = await self._run_with_limit(self._call(name, args), limit, "answer")
        except ServerError as error:
            raise ToolError(f"{self.plan.place}: {self._error_text(error)}", error.code) from None
        self._starts = 0
        return result

    async def close(self) -> None:
        """End the server and all processes that it started; calls in progress fail."""
        self._closed = True
        for task in self._calls:
            task.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def _list_pages(self, connection: _Connection, session: ClientSession) -> list[Tool]:
        from mcp_types import PaginatedRequestParams

        found: list[Tool] = []
        cursor = None
        while True:
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            page = await self._await_answer(connection, session.list_tools(params=params))
            found += page.tools
            cursor = page.next_cursor
            if len(found) > MOST_TOOLS or (cursor is not None and not page.tools):
                raise ServerError(
                    f"the server lists more than {MOST_TOOLS} tools, or lists them without end", "bad_answer"
                )
            if cursor is None:
                return found

    async def _call(self, name: str, args: dict[str, Any]) -> CallToolResult:
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

        connection, session = await self._open_session()
        # Not `call_tool`, which checks results against the server's own schema, with patterns that may run for ever.
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=args))
        return await self._await_answer(connection, session.send_request(request, CallToolResult))

    async def _open_session(self) -> tuple[_Connection, ClientSession]:
        """Return an open connection and its session; connect if there is no connection or it has ended.

        Raises:
            ServerError: the server cannot be started or reached, or has failed too often.
        """
        connection = self._connection
        if connection is None or connection.has_ended:
            if self._closed:
                raise ServerError("the server was stopped because the run ended", "closed")
            if connection is not None and self._starts == MOST_STARTS:
                why = self._end_clause(connection)
                raise ServerError(
                    f"the server failed {MOST_STARTS} times in a row and is not started again ({why})", "crashed"
                )
            self._starts += 1
            connection = self._connection = _Connection(self.plan, self.redact)
        session = await connection.wait_ready()
        if session is None:
            raise self._connection_error(connection)
        return connection, session

    async def _run_with_limit(self, coroutine: Coroutine[Any, Any, T], limit: float, action: str) -> T:
        """Run a coroutine. After `limit` seconds it is abandoned, since its cancellation could hang.

        Raises:
            ServerError: the coroutine did not finish in time; the message is `the server did not {action} within …`.
        """
        task = asyncio.create_task(coroutine)
        self._calls.add(task)
        task.add_done_callback(self._discard_call)
        try:
            await asyncio.wait({task}, timeout=limit)
        finally:
            task.cancel()
        if not task.done():
            raise ServerError(f"the server did not {action} within {limit:g} s", "timeout")
        if task.cancelled():
            raise ServerError("the server was stopped before it had answered because the run ended", "closed")
        return task.result()

    async def _await_answer(self, connection: _Connection, request: Awaitable[T]) -> T:
        """Wait for the server's answer to a request, and return it.

        Raises:
            ServerError: the connection ended, the server refused, or its answer is invalid.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        try:
            return await request
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await connection.wait(_ENDED_S)
                if connection.has_ended:
                    raise self._connection_error(connection) from None
                raise ServerError(
                    f"the server aborted its answer: {self.short_line(error.message)}", "disconnected"
                ) from None
            if error.message == _SESSION_GONE:
                await connection.close()
                raise ServerError(
                    "the server no longer knows the session; the next call starts a new one", "disconnected"
                ) from None
            raise ServerError(f"the server refused: {_server_message(error, connection.output)}", "refused") from None
        except (ValueError, RuntimeError) as error:
            # Validation messages quote what was sent.
            raise ServerError(f"the server sent an invalid answer ({type(error).__name__})", "bad_answer") from None

    def _connection_error(self, connection: _Connection) -> ServerError:
        error = connection.failure
        code = {"too_large": "too_large", "crashed": "crashed", "timeout": "timeout"}.get(
            error.code if isinstance(error, AgentError) else "", "disconnected"
        )
        if isinstance(error, OSError) and self.plan.process is not None:
            code = "cannot_start"
        if isinstance(error, TimeoutError):
            code = "timeout"
        return ServerError(self._end_clause(connection), code)

    def _end_clause(self, connection: _Connection) -> str:
        """Return a clause that explains why a connection ended or could not be opened."""
        from mcp.shared.exceptions import MCPError

        output, error = connection.output, connection.failure
        match error:
            case AgentError(code="too_large"):
                return f"the server sent a message of more than {MAX_MESSAGE} bytes; the connection was ended"
            case AgentError():
                return error.message.replace("the command", "its process").replace(" without answering", "")
            case TimeoutError():
                clause = f"the server was not ready within {self.plan.entry.request_timeout:g} s (request_timeout)"
                if output.stray is not None:
                    words = output.stray.short_line(output.redact)
                    clause += f"; its output, which may contain only messages, contains: {words}"
                return f"{clause}{output.stderr_clause}"
            case httpx2.HTTPStatusError():
                return f"the server answered with HTTP {error.response.status_code}"
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                return f"the server cannot be reached: {self.short_line(str(error)) or 'no connection in time'}"
            case httpx2.HTTPError():
                return f"the server closed the connection early ({type(error).__name__})"
            case MCPError():
                return f"the server refused: {_server_message(error, output)}"
            case OSError():
                return f"the server cannot be started: {error.strerror or type(error).__name__}"
            case None:
                return "the connection was closed"
            case _:
                return f"the server does not speak the protocol: {self.short_line(str(error)) or type(error).__name__}"

    def short_line(self, text: str, limit: int = 200) -> str:
        """Return the start of a server's text as one line without secrets, for a message."""
        return Foreign.of_text(text).short_line(self.redact, limit)

    def _error_text(self, error: ServerError) -> str:
        place = f" {url_without_secrets(str(self.plan.entry.url))}" if self.plan.process is None else ""
        return self.redact(f"MCP server{place}: {error}")

    def _discard_call(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()


class _Connection:
    """A connection to a server. It runs in its own task, since the task that enters the SDK's contexts must also leave
    them.

    Attributes:
        output: output of the server other than protocol messages.
        failure: error that ended the connection; None while it is open, or if this side closed it.
    """

    def __init__(self, plan: ServerPlan, redact: Redact) -> None:
        self.output = ServerOutput(redact)
        self.failure: BaseException | None = None
        self._plan = plan
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    @property
    def has_ended(self) -> bool:
        """Whether the connection has ended or is being closed."""
        return self._task.done() or self._stop.is_set()

    async def wait_ready(self) -> ClientSession | None:
        """Wait until the connection is open and return its session; None if it ended first, with the error in
        `failure`.
        """
        waited: set[asyncio.Future[Any]] = {self._task, self._ready}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        return None if self._task.done() or not self._ready.done() else self._ready.result()

    async def wait(self, seconds: float) -> None:
        """Wait until the connection has ended, for at most `seconds`."""
        await asyncio.wait({self._task}, timeout=seconds)

    async def close(self) -> None:
        """Close the connection gracefully if it is open; cancel it if it is not open yet, or does not close in time."""
        if self._ready.done():
            self._stop.set()
            await self.wait(_CLOSING_S)
        self._task.cancel()
        await self.wait(_CLOSING_S)

    async def _run(self) -> None:
        from mcp.client import Client
        from mcp_types import Implementation

        info = Implementation(name="holodeck-action", version=__version__)
        try:
            async with asyncio.timeout(self._plan.entry.request_timeout) as limit:
                # The client asks for the stateless protocol first, and shakes hands with servers that do not know it.
                async with Client(self._open_streams(), client_info=info, mode="auto", cache=None) as client:
                    limit.reschedule(None)
                    self._ready.set_result(client.session)
                    await self._stop.wait()
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - the next call reports whatever ended the connection
            self.failure = _first_cause(error)

    def _open_streams(self) -> AbstractAsyncContextManager[Streams]:
        if self._plan.process is not None:
            return stdio_streams(self._plan.process, self.output)
        return (sse_streams if self._plan.entry.transport == "sse" else http_streams)(self._plan.entry, self.output)


def silence_sdk_logs() -> None:
    """Keep the SDK's log messages off standard error, since they quote data from servers."""
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _server_message(error: MCPError, output: ServerOutput) -> str:
    """Return the error message of a server, with the HTTP status if the message is one of the SDK's general texts."""
    text = Foreign.of_text(error.message).short_line(output.redact, 500)
    return f"{text} (HTTP {output.status})" if output.status is not None and error.message in _STATUS_ONLY else text


def _first_cause(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
