"""All tools of one conversation, called by name; every call is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holodeck_action.llm.chat import ToolDefinition
from holodeck_action.results.record import RetrievedChunk, ToolInvocation
from holodeck_action.text.json_values import unknown_key
from holodeck_action.text.plain import MARK, excerpt
from holodeck_action.tools.arguments import ArgumentSchema, read_arguments
from holodeck_action.tools.base import Tool, ToolError, ToolResult
from holodeck_action.tools.retrieval import chunks_of
from holodeck_action.tracing.spans import Span, span

_BROKEN_OFF = "it was broken off, because the turn had ended"


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """The calls of a turn, as `Reply` wants them.

    Attributes:
        invocations: in the order the model asked for them.
        retrieved_chunks: what retrieval tools returned, in the same order; None when there are no such tools.
    """

    invocations: tuple[ToolInvocation, ...]
    retrieved_chunks: tuple[RetrievedChunk, ...] | None

    @property
    def retrieval_context(self) -> tuple[str, ...] | None:
        """Texts of the chunks."""
        if self.retrieved_chunks is None:
            return None
        return tuple(chunk.text for chunk in self.retrieved_chunks if chunk.text is not None)


class ToolSet:
    """The tools of a suite with their schemas compiled, shared by all conversations."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Compile the schemas.

        Args:
            tools: with different names.

        Raises:
            ValueError: two have one name, or a definition's parameters are no JSON schema.
        """
        self.tools = {tool.definition.name: tool for tool in tools}
        if len(self.tools) < len(tools):
            raise ValueError("two tools have one name: tool names must differ")
        self.schemas = {name: _compiled(tool.definition) for name, tool in self.tools.items()}
        self.definitions = tuple(tool.definition for tool in tools)
        self.retrieves = any(tool.is_retrieval for tool in tools)


class ToolBox:
    """The tools of one conversation.

    Calls may run at the same time; they are recorded in the order in which they were asked for.
    """

    def __init__(
        self,
        tools: ToolSet | Sequence[Tool],
        *,
        max_bytes: int,
        timeout_s: float | None,
        clock: Callable[[], float],
        session: str,
    ) -> None:
        """Prepare the box.

        Args:
            tools: the tools; as a `ToolSet` their schemas are compiled once for all conversations.
            max_bytes: most bytes of arguments, and of a result, that one call may hold; longer results are cut.
            timeout_s: seconds one call may work; None for no limit.
            clock: monotonic seconds.
            session: which conversation this is; unique among those under way.
        """
        self._set = tools if isinstance(tools, ToolSet) else ToolSet(tools)
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._clock = clock
        self._session = session
        self._invocations: list[ToolInvocation] = []
        self._chunks: list[tuple[RetrievedChunk, ...]] = []

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model may call, in the suite's order."""
        return self._set.definitions

    async def call(self, name: str, args: str | Mapping[str, Any]) -> str:
        """Call a tool; fails by cancellation, or where a model that the tool needs cannot be asked (`ModelCallError`).

        Args:
            name: as the model wrote it.
            args: JSON text as the model wrote it, or what was read from it.

        Returns:
            What the model reads: a text as it is, any other result as JSON, trouble as `Error: …`.
        """
        shown_name = excerpt(name) or "(no name)"
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": shown_name,
            "gen_ai.tool.type": "function",
        }
        with span(f"execute_tool {shown_name}", attributes) as traced:
            return await self._call(name, shown_name, args, traced)

    async def _call(self, name: str, shown_name: str, args: str | Mapping[str, Any], traced: Span) -> str:
        # Taken before anything can run in between: parallel calls keep their order.
        invocations, chunks, slot = self._invocations, self._chunks, len(self._invocations)
        invocations.append(ToolInvocation(shown_name, error=_BROKEN_OFF))
        chunks.append(())
        started = self._clock()
        read: dict[str, Any] = {}
        try:
            read = read_arguments(args, self._max_bytes)
            traced.set_content("gen_ai.tool.call.arguments", read)
            invocations[slot] = ToolInvocation(shown_name, read, error=_BROKEN_OFF)
            tool = self._checked(name, read)
            result = await tool.call(read, self._session, max_bytes=self._max_bytes, timeout_s=self._timeout_s)
        except ToolError as error:
            invocations[slot] = ToolInvocation(
                shown_name, read, duration_ms=self._duration(error.duration_ms, started), error=error.message
            )
            traced.fail(error.code)
            return f"Error: {error.shown}"
        # Without a mark, a piece of a secret at the cut would pass for something else.
        value = f"{result.value}{MARK}" if result.cut else result.value
        traced.set_content("gen_ai.tool.call.result", value)
        invocations[slot] = ToolInvocation(
            shown_name, read, value, result.bytes, self._duration(result.duration_ms, started)
        )
        if tool.is_retrieval:
            chunks[slot] = chunks_of(result.value)
        return _text_of(result)

    def take(self) -> ToolCalls:
        """Return the calls since the last time, and forget them; calls still under way count as broken off."""
        chunks = tuple(chunk for found in self._chunks for chunk in found)
        calls = ToolCalls(tuple(self._invocations), chunks if self._set.retrieves else None)
        # New lists: a call that is still under way writes into the old ones.
        self._invocations, self._chunks = [], []
        return calls

    def _checked(self, name: str, args: Mapping[str, Any]) -> Tool:
        tool = self._set.tools.get(name)
        if tool is None:
            known = unknown_key(name, tuple(self._set.tools)).removeprefix("unknown key ")
            raise ToolError(f"there is no tool {known}", "unknown_tool")
        self._set.schemas[name].check(args)
        return tool

    def _duration(self, measured_ms: float | None, started: float) -> float:
        return (self._clock() - started) * 1000.0 if measured_ms is None else measured_ms


def _compiled(definition: ToolDefinition) -> ArgumentSchema:
    try:
        return ArgumentSchema(definition.parameters)
    except ValueError as error:
        raise ValueError(f"the parameters of the tool {definition.name} are no JSON schema: {error}") from None


def _text_of(result: ToolResult) -> str:
    text = result.shown
    if text is None:
        text = result.value if isinstance(result.value, str) else json.dumps(result.value, ensure_ascii=False)
    if not result.cut:
        return text
    above = len(text.encode())
    return f"{text}{MARK}\n[The result was cut here: it holds {result.bytes} bytes, of which {above} are above.]"
