"""Tools of MCP servers. All servers of a suite start once, at the same time, and its conversations share them."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holodeck_action.extensions.mcp.mcp_settings import entry_notices, read_entry
from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.model.tools import HierarchicalDocumentTool, MCPTool, ToolModel, VectorstoreTool
from holodeck_action.targets.own_model.toolbox import (
    Tool,
    ToolContext,
    ToolError,
    Toolkit,
    ToolResult,
    plain_result,
    text_result,
)
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut, excerpt, line_or_length, make_storable, replace_surrogates
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.code_errors import CallError
from holodeck_action.workers.json_values import PlainConverter
from holodeck_action.workers.permission import CodeAllowed

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock
    from mcp_types import Tool as ListedTool

    from holodeck_action.extensions.mcp.mcp_server import McpServer

_MOST_SCHEMA_BYTES = 1_000_000
"""Maximum total size of a tool's schema and description, in bytes."""


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
        """Check the tool entries; no server is started.

        Args:
            tools: all tools of the suite; for tools that are not MCP servers, only the names matter.
            environ: the job's environment, which the servers' processes get without the job's tokens.
            code: permission to start the servers' processes.
            redactor: masks secrets in error messages from servers.

        Raises:
            TargetError: an entry is invalid; the message names the tool and the field.
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
        """Start all servers and return their tools in the suite's order.

        Raises:
            AgentError: `tool_unavailable`: a server or one of its tools cannot be used; the message names every such
                server.
        """
        from holodeck_action.extensions.mcp.mcp_server import McpServer, silence_sdk_logs

        silence_sdk_logs()
        self._servers = [McpServer(plan, self._redactor) for plan in self._plans]
        listings = await asyncio.gather(*(server.list_tools() for server in self._servers), return_exceptions=True)
        try:
            return self._name_tools(listings)
        except AgentError:
            await self.close()
            raise

    async def close(self) -> None:
        """End all servers and all processes that they started."""
        await asyncio.gather(*(server.close() for server in self._servers))

    def _name_tools(self, listings: Sequence[list[ListedTool] | BaseException]) -> list[Tool]:
        found: list[tuple[McpServer, ListedTool]] = []
        troubles: list[AgentError] = []
        for server, listing in zip(self._servers, listings, strict=True):
            try:
                if isinstance(listing, BaseException):
                    raise listing
                found += ((server, tool) for tool in _select_tools(server, listing))
            except AgentError as error:
                troubles.append(error)
        names = visible_names([(server.plan.entry.name, tool.name) for server, tool in found], self._taken)
        tools: list[Tool] = []
        for (server, listed), name in zip(found, names, strict=True):
            try:
                tools.append(McpTool(server, listed.name, _tool_definition(server, listed, name)))
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
    """One tool of an MCP server; `name` is the tool's name on the server."""

    server: McpServer
    name: str
    definition: ToolDefinition

    @property
    def is_retrieval(self) -> bool:
        """Whether the tool's results are retrieved chunks."""
        return self.server.plan.entry.is_retrieval

    @property
    def other_names(self) -> tuple[str, ...]:
        """The tool's names in HoloDeck's Claude runner."""
        return (f"mcp__{self.server.plan.entry.name}", f"mcp__{self.server.plan.entry.name}__{self.name}")

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Call the tool; see `Tool.call`. The entry's `request_timeout` is a further time limit."""
        result = await self.server.call(self.name, args, timeout_s)
        place = f"{self.server.plan.place}.{self.server.short_line(self.name, 80)}"
        return read_result(result, place, max_bytes, self.server.redact, is_retrieval=self.is_retrieval)


def _select_tools(server: McpServer, listing: Sequence[ListedTool]) -> list[ListedTool]:
    """Return the tools of a server that the model may call.

    Raises:
        AgentError: the server has no tools, or `config.allowed_tools` names a tool that it does not have.
    """
    place, allowed = server.plan.place, server.plan.allowed
    listed = {tool.name: tool for tool in listing}
    shown = server.short_line(", ".join(listed)) or "none"
    missing = [name for name in allowed or () if name not in listed]
    if missing:
        raise AgentError(
            f"{place}.config.allowed_tools: the server has no tool {quoted(missing[0])} (it has: {shown})",
            "tool_unavailable",
        )
    if not listed:
        raise AgentError(
            f"{place}: the server lists no tools; set `load_tools: false` to leave it out", "tool_unavailable"
        )
    return [tool for name, tool in listed.items() if allowed is None or name in allowed]


def _tool_definition(server: McpServer, tool: ListedTool, name: str) -> ToolDefinition:
    """Return the definition of a tool that the model receives.

    Raises:
        AgentError: the tool's input schema is invalid; the message suggests leaving the tool out.
    """
    place = f"{server.plan.place}: the server's tool {quoted(server.redact(tool.name))}"
    try:
        schema: dict[str, Any] = make_storable(
            PlainConverter(_MOST_SCHEMA_BYTES).convert(tool.input_schema, "its inputSchema")
        )
        if schema.setdefault("type", "object") != "object":
            raise ValueError("it must be of type object")
        schema.setdefault("properties", {})
        JsonSchema(schema, shorten=server.short_line)
    except (CallError, ValueError) as error:
        reason = error.message if isinstance(error, CallError) else str(error)
        raise AgentError(
            f"{place} has an inputSchema that is not a JSON schema (draft 2020-12): {server.short_line(reason)}; "
            "to leave the tool out, name the others in config.allowed_tools",
            "tool_unavailable",
        ) from None
    description = tool.description or tool.title or tool.name
    return ToolDefinition(name, make_storable(description)[:_MOST_SCHEMA_BYTES], schema)


_LONGEST_NAME = 64
"""Most characters of a tool's name that all providers accept."""
_FOREIGN = lazy_pattern(r"[^a-zA-Z0-9_-]")
_DIGEST = 8
_MODEL_ERROR_LIMIT = 2000
"""Most characters of an error for the model."""
_RECORD_ERROR_LIMIT = 500
"""Most characters of an error in the record."""


def visible_names(tools: Sequence[tuple[str, str]], used_names: Collection[str]) -> list[str]:
    """Return unique names under which the model calls tools: at most 64 letters, digits, `_` and `-`.

    Args:
        tools: pairs of a server's name and the name of one of its tools.
        used_names: names of the suite's other tools.

    Returns:
        For each tool its own name if that is unique, else `mcp__<server>__<tool>`. Characters that providers do not
        accept become `_`; a name that is too long is cut and ends in a digest.
    """
    own = [_provider_name(name) for _, name in tools]
    times = Counter(own)
    used = {*used_names, *(name for name in own if times[name] == 1)}
    names = []
    for (server, tool), name in zip(tools, own, strict=True):
        if times[name] == 1 and name not in used_names:
            names.append(name)
            continue
        full = f"mcp__{server}__{tool}"
        shown = _provider_name(full)
        if shown in used:
            shown = _shorten_with_digest(shown, full)
        used.add(shown)
        names.append(shown)
    return names


def read_result(
    result: CallToolResult, place: str, max_bytes: int, redact: Redact, *, is_retrieval: bool
) -> ToolResult:
    """Convert the result of an MCP tool call.

    Args:
        max_bytes: largest number of bytes of the result.
        redact: removes secrets from error messages and placeholders.
        is_retrieval: whether the result is a list of retrieved chunks.

    Returns:
        The text blocks, joined by line breaks, with other blocks as `[image/png, 1234 bytes]`. If there is no text
        block, the structured result. For a retrieval tool, the list of chunks in the structured result, else the list
        in the only text block, else the list of blocks.

    Raises:
        ToolError: `raised`: the server reports that the call failed; `bad_answer`: the result is invalid.
    """
    parts = [_block_text(block, redact) for block in result.content]
    if result.is_error:
        text = replace_surrogates("\n".join(parts)) or "the tool failed and did not say why"
        words = Foreign.of_text(text).short_line(redact, _RECORD_ERROR_LIMIT)
        raise ToolError(f"{place}: {words}", "raised", for_model=cut(redact(text), _MODEL_ERROR_LIMIT))
    has_text = any(block.type == "text" for block in result.content)
    value: Any = "\n".join(parts)
    if is_retrieval:
        value = _chunks_of_result(parts, result.structured_content)
    elif not has_text and result.structured_content is not None:
        value = result.structured_content
    return _limit_result(value, place, max_bytes)


def _limit_result(value: Any, place: str, max_bytes: int) -> ToolResult:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
        whole = text_result(replace_surrogates(text), max_bytes)
        if whole.cut:
            return whole
        plain = plain_result(value, max_bytes)
    except (CallError, ValueError, RecursionError):
        raise ToolError(f"{place}: the server sent an invalid result", "bad_answer") from None
    return ToolResult(plain, whole.bytes)


def _chunks_of_result(texts: Sequence[str], structured_content: Any) -> Any:
    """Return the chunks in the result of a retrieval tool, in the form that `toolbox.chunks_of` reads."""
    # If the protocol requires an object, servers put their list under a single key.
    inner = (
        next(iter(structured_content.values()))
        if isinstance(structured_content, dict) and len(structured_content) == 1
        else structured_content
    )
    if isinstance(inner, list):
        return inner
    if not texts:
        return structured_content
    if len(texts) == 1:
        return _parse_chunks(texts[0])
    return [_parse_chunk(part) for part in texts]


def _parse_chunks(text: str) -> Any:
    """Parse JSON that is a list or an object with a `text`; return any other string unchanged."""
    if text.lstrip()[:1] == "[":
        try:
            value = parse_json(text)
        except ValueError:
            return text
        return value if isinstance(value, list) else text
    return _parse_chunk(text)


def _parse_chunk(text: str) -> Any:
    """Parse JSON that is an object with a `text`; return any other string unchanged."""
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
    """Return a placeholder with the type and size of Base64 data; its length determines the size (RFC 4648 §4)."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{line_or_length(kind or 'application/octet-stream', 60)}, {size} bytes]"


def _provider_name(name: str) -> str:
    clean = _FOREIGN.sub("_", name)
    return clean if 0 < len(clean) <= _LONGEST_NAME else _shorten_with_digest(clean, name)


def _shorten_with_digest(clean: str, name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{clean[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"


def build(context: ToolContext) -> McpServers:
    """Return the MCP servers of a suite.

    Raises:
        TargetError: an entry is invalid.
    """
    suite = context.suite
    return McpServers(
        suite.agent.tools or (),
        checkout=suite.checkout,
        environ=context.environ,
        code=context.code,
        redactor=context.redactor,
    )
