"""Tools of MCP servers: started once for a suite, all at the same time, and shared by its conversations."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.extensions.mcp.mcp_settings import entry_notices, read_entry
from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.tools import HierarchicalDocumentTool, MCPTool, ToolModel, VectorstoreTool
from holodeck_action.targets.own_model.schemas import JsonSchema
from holodeck_action.targets.own_model.toolbox import (
    Tool,
    ToolError,
    Toolkit,
    ToolResult,
    ToolSurroundings,
    plain_result,
    text_result,
)
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import cut, excerpt, storable, storable_text, whole
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.code_errors import CallError
from holodeck_action.workers.json_values import Plain
from holodeck_action.workers.permission import CodeAllowed

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ListedTool

    from holodeck_action.extensions.mcp.mcp_server import McpServer

_LARGEST_SCHEMA = 1_000_000
"""Bytes of a tool's schema and description."""


class McpServers(Toolkit):
    """The MCP servers of a suite."""

    def __init__(
        self,
        tools: Sequence[ToolModel],
        *,
        checkout: Checkout,
        environ: Mapping[str, str],
        code: CodeAllowed,
        redactor: Redactor,
    ) -> None:
        """Check the entries; nothing is started.

        Args:
            tools: all tools of the suite; of those that are no MCP servers only the names count.
            environ: the job's environment; the servers' processes see it without the job's tokens.
            code: the permission to start them.
            redactor: masks secrets in what servers say of their trouble.

        Raises:
            TargetError: an entry cannot work; names the tool and the field.
        """
        entries = [tool for tool in tools if isinstance(tool, MCPTool)]
        self._plans = [read_entry(entry, checkout, environ, code) for entry in entries if entry.load_tools]
        self.notices = tuple(notice for entry in entries for notice in entry_notices(entry))
        self._taken = {
            f"{tool.name}_search" if isinstance(tool, VectorstoreTool | HierarchicalDocumentTool) else tool.name
            for tool in tools
            if not isinstance(tool, MCPTool)
        }
        self._redactor = redactor
        self._servers: list[McpServer] = []

    async def open(self) -> Sequence[Tool]:
        """Start all servers, and list their tools in the suite's order.

        Raises:
            AgentError: `tool_unavailable`, naming every server that cannot be used.
        """
        from holodeck_action.extensions.mcp.mcp_server import McpServer, silence

        silence()
        self._servers = [McpServer(plan, self._redactor) for plan in self._plans]
        listings = await asyncio.gather(*(server.list_tools() for server in self._servers), return_exceptions=True)
        try:
            return self._named(listings)
        except AgentError:
            await self.close()
            raise

    async def close(self) -> None:
        """End all servers, with every process they have started."""
        await asyncio.gather(*(server.close() for server in self._servers))

    def _named(self, listings: Sequence[list[ListedTool] | BaseException]) -> list[Tool]:
        found: list[tuple[McpServer, ListedTool]] = []
        troubles: list[AgentError] = []
        for server, listing in zip(self._servers, listings, strict=True):
            try:
                if isinstance(listing, BaseException):
                    raise listing
                found += ((server, tool) for tool in _selected(server, listing))
            except AgentError as error:
                troubles.append(error)
        names = visible_names([(server.plan.entry.name, tool.name) for server, tool in found], self._taken)
        tools: list[Tool] = []
        for (server, listed), name in zip(found, names, strict=True):
            try:
                tools.append(McpTool(server, listed.name, _definition(server, listed, name)))
            except AgentError as error:
                troubles.append(error)
            if name != listed.name:
                notice = (
                    f"{server.plan.place}: the model sees the tool {quoted(server.redact(listed.name))} as {name}, "
                    "because of its characters or because another tool has its name"
                )
                self.notices = (*self.notices, notice)
        if troubles:
            context = {key: value for error in troubles for key, value in error.context.items()}
            raise AgentError(cut("; ".join(error.message for error in troubles), 2000), "tool_unavailable", context)
        return tools


class McpTool(Struct, frozen=True):
    """One tool of a server; `name` is what the server calls it."""

    server: McpServer
    name: str
    definition: ToolDefinition

    @property
    def is_retrieval(self) -> bool:
        """Whether its results are retrieval context."""
        return self.server.plan.entry.is_retrieval

    @property
    def other_names(self) -> tuple[str, ...]:
        """Names by which HoloDeck's Claude runner knows it."""
        return (f"mcp__{self.server.plan.entry.name}", f"mcp__{self.server.plan.entry.name}__{self.name}")

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Call it (see `Tool.call`); `request_timeout` bounds it, too."""
        result = await self.server.call(self.name, args, timeout_s)
        place = f"{self.server.plan.place}.{self.server.words(self.name, 80)}"
        return read_result(result, place, max_bytes, self.server.redact, is_retrieval=self.is_retrieval)


def _selected(server: McpServer, listing: Sequence[ListedTool]) -> list[ListedTool]:
    """Return the tools the model may see.

    Raises:
        AgentError: there are none, or `config.allowed_tools` names one that is not there.
    """
    place, allowed = server.plan.place, server.plan.allowed
    listed = {tool.name: tool for tool in listing}
    shown = server.words(", ".join(listed)) or "none"
    missing = [name for name in allowed or () if name not in listed]
    if missing:
        raise AgentError(
            f"{place}.config.allowed_tools: the server has no tool {quoted(missing[0])} (it has: {shown})",
            "tool_unavailable",
        )
    if not listed:
        raise AgentError(
            f"{place}: the server lists no tools; with `load_tools: false` it is not started", "tool_unavailable"
        )
    return [tool for name, tool in listed.items() if allowed is None or name in allowed]


def _definition(server: McpServer, listed: ListedTool, name: str) -> ToolDefinition:
    """Return a tool as the model sees it.

    Raises:
        AgentError: its schema is none; whoever writes the suite can leave the tool out.
    """
    place = f"{server.plan.place}: the server's tool {quoted(server.redact(listed.name))}"
    try:
        schema: dict[str, Any] = storable(Plain(_LARGEST_SCHEMA).convert(listed.input_schema, "its inputSchema"))
        if schema.setdefault("type", "object") != "object":
            raise ValueError("it must be of type object")
        schema.setdefault("properties", {})
        JsonSchema(schema, words=server.words)
    except (CallError, ValueError) as error:
        reason = error.message if isinstance(error, CallError) else str(error)
        raise AgentError(
            f"{place} has an inputSchema that is no JSON schema (draft 2020-12): {server.words(reason)}; "
            "leave the tool out by naming the others in config.allowed_tools",
            "tool_unavailable",
        ) from None
    description = listed.description or listed.title or listed.name
    return ToolDefinition(name, storable(description)[:_LARGEST_SCHEMA], schema)


_LONGEST_NAME = 64
"""Characters of a tool's name that all providers take."""
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8
_LONGEST_ERROR = 2000
"""Characters of an error that the model reads."""
_SHORTEST_ERROR = 500
"""Characters of an error that the record keeps in its sentence."""


def visible_names(found: Sequence[tuple[str, str]], taken: Collection[str]) -> list[str]:
    """Return the names by which the model sees tools: letters, digits, `_` and `-`, at most 64, each once.

    Args:
        taken: names of the suite's other tools.

    Returns:
        A tool's own name where no other tool has it, else `mcp__<server>__<tool>`. Characters that providers do not
        take become `_`, and what is too long is cut and ends in a digest.
    """
    own = [_fitting(name) for _, name in found]
    times = Counter(own)
    used = {*taken, *(name for name in own if times[name] == 1)}
    names = []
    for (server, tool), name in zip(found, own, strict=True):
        if times[name] == 1 and name not in taken:
            names.append(name)
            continue
        full = f"mcp__{server}__{tool}"
        shown = _fitting(full)
        if shown in used:
            shown = _digested(shown, full)
        used.add(shown)
        names.append(shown)
    return names


def read_result(
    result: CallToolResult, place: str, max_bytes: int, redact: Redact, *, is_retrieval: bool
) -> ToolResult:
    """Read what a tool gave.

    Args:
        max_bytes: most bytes of the result's text to hand over.
        redact: removes secrets from what is cut.
        is_retrieval: whether chunks are told apart.

    Returns:
        The text blocks, joined by line ends, others as `[image/png, 1234 bytes]`; the structured result where there is
        no text. Of a retrieval tool, a list of chunks where there are several: the structured result's list, else the
        list that the only text is, else one for each block.

    Raises:
        ToolError: `raised`, the server says that the call failed; `bad_answer`, what it sent is no result.
    """
    parts = [_block_text(block, redact) for block in result.content]
    if result.is_error:
        text = storable_text("\n".join(parts)) or "the tool failed and did not say why"
        words = Foreign.of_text(text).words(redact, _SHORTEST_ERROR)
        raise ToolError(f"{place}: {words}", "raised", for_model=cut(redact(text), _LONGEST_ERROR))
    has_text = any(block.type == "text" for block in result.content)
    value: Any = "\n".join(parts)
    if is_retrieval:
        value = _chunks(parts, result.structured_content)
    elif not has_text and result.structured_content is not None:
        value = result.structured_content
    return _limited(value, place, max_bytes)


def _limited(value: Any, place: str, max_bytes: int) -> ToolResult:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
        whole = text_result(storable_text(text), max_bytes)
        if whole.cut:
            return whole
        plain = plain_result(value, max_bytes)
    except (CallError, ValueError, RecursionError):
        raise ToolError(f"{place}: the server sent what no result can be", "bad_answer") from None
    return ToolResult(plain, whole.bytes)


def _chunks(parts: Sequence[str], structured: Any) -> Any:
    """Return the chunks of a result as `toolbox.chunks_of` reads them."""
    # Servers that must send an object put their list under one key.
    inner = next(iter(structured.values())) if isinstance(structured, dict) and len(structured) == 1 else structured
    if isinstance(inner, list):
        return inner
    if not parts:
        return structured
    if len(parts) == 1:
        return _parsed(parts[0])
    return [_chunk(part) for part in parts]


def _parsed(text: str) -> Any:
    """Return the list or the chunk that a text is, else the text."""
    if text.lstrip()[:1] == "[":
        try:
            value = parse_json(text)
        except ValueError:
            return text
        return value if isinstance(value, list) else text
    return _chunk(text)


def _chunk(text: str) -> Any:
    """Return the object with a `text` that a text is, else the text."""
    if text.lstrip()[:1] != "{":
        return text
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) and isinstance(value.get("text"), str) else text


def _block_text(block: ContentBlock, redact: Redact) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return _placeholder(block.mime_type, block.data)
        case "resource_link":
            return f"[{excerpt(redact(block.uri))}]"
        case "resource":
            resource = block.resource
            text = getattr(resource, "text", None)
            if isinstance(text, str):
                return text
            return _placeholder(resource.mime_type, getattr(resource, "blob", ""))


def _placeholder(kind: str | None, data: str) -> str:
    """Name what is no text by its type and its size, which Base64 tells (RFC 4648 §4)."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{whole(kind or 'application/octet-stream', 60)}, {size} bytes]"


def _fitting(name: str) -> str:
    clean = _FOREIGN.sub("_", name)
    return clean if 0 < len(clean) <= _LONGEST_NAME else _digested(clean, name)


def _digested(clean: str, name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{clean[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"


def build(given: ToolSurroundings) -> McpServers:
    """Build the tools.

    Raises:
        TargetError: an entry cannot be used.
    """
    suite = given.suite
    return McpServers(
        suite.agent.tools or (),
        checkout=suite.checkout,
        environ=given.environ,
        code=given.code,
        redactor=given.redactor,
    )
