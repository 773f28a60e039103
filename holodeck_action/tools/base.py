"""What a tool is: a name and a schema for the model, and something that can be called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holodeck_action.llm.chat import ToolDefinition


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave.

    Attributes:
        value: a JSON value; the beginning of its text, or of a list, where `cut`.
        bytes: size of the whole text in UTF-8: the value itself when it is a text, else as JSON.
        cut: `value` is not all of it.
        duration_ms: how long the tool worked, without waiting for its turn; None when the call took exactly as long.
        shown: what the model reads; None for the value, a text as it is and anything else as JSON.
    """

    value: Any
    bytes: int
    cut: bool = False
    duration_ms: float | None = None
    shown: str | None = None


class ToolError(Exception):
    """A tool call that gave no result: the model's problem to see and ours to record, never the run's end.

    Attributes:
        message: one sentence for the record: what happened and where.
        code: stable snake_case code, such as `raised`, `timeout`, `bad_arguments`, `unknown_tool`.
        shown: what the model reads: the same without places in files, which are nothing to it.
        duration_ms: how long the tool worked; None when it never began, or the call took exactly as long.
    """

    def __init__(self, message: str, code: str, *, shown: str | None = None, duration_ms: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.shown = message if shown is None else shown
        self.duration_ms = duration_ms


class Tool(Protocol):
    """Something the model can call; one object serves all conversations."""

    @property
    def definition(self) -> ToolDefinition:
        """How the model sees it."""
        ...

    @property
    def is_retrieval(self) -> bool:
        """Whether its results are retrieval context."""
        ...

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Call it.

        Args:
            args: JSON values that fit the definition's schema.
            session: which conversation asks; what a tool remembers stays within one.
            max_bytes: most bytes of the result's text to hand over; the rest is only counted.
            timeout_s: seconds it may work; None for no limit.

        Raises:
            ToolError: it gave no result.
            ModelCallError: a model that it needs could not be asked: the turn's error, since an answer without the
                result would be scored as if the agent had given it.
        """
        ...


class Toolkit(Protocol):
    """All tools of one kind that a suite has, with what they hold: processes, connections, indexes."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know about them, each one sentence; known once they are built."""
        ...

    async def open(self) -> Sequence[Tool]:
        """Start what the tools need; called once, in the loop in which they are used, before the first turn.

        Raises:
            AgentError: `tool_unavailable`, they cannot be used.
        """
        ...

    async def end(self, session: str) -> None:
        """Release what a conversation held that is over."""
        ...

    async def close(self) -> None:
        """Release everything; safe after a failed or cancelled `open`."""
        ...
