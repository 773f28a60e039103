"""Values that represent conversations read from traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

MOST_ATTRIBUTES = 100
"""Maximum number of attributes of a turn."""
LONGEST_ATTRIBUTE = 500
"""Maximum characters of a textual attribute; longer attributes are left out."""


class TraceTurn(Struct, frozen=True, omit_defaults=True):
    """One exchange of a conversation, read from one trace. A value is None if unknown, and empty if known to be absent.

    Attributes:
        trace: id of the trace, in hexadecimal.
        start_ns: start of the exchange, in nanoseconds since 1970.
        end_ns: end of the exchange, in nanoseconds since 1970; less than `start_ns` if unknown.
        input: the user's message.
        output: the answer's text.
        error: the reason why there is no answer; empty if unknown.
        tool_calls: the tool calls in order, as `tool_invocations` of a reply (docs/targets.md).
        retrieved: the retrieved documents in rank order, as `retrieved_chunks` of a reply: `id`, `text` and `score`.
        usage: tokens and cost per model, as `usage` of a reply.
        model: the model that answered, as `provider/name` if prices of the provider are known.
        models: all models that were called.
        tools: the names of the tools that were called, as far as they are known.
        tags: tags of the trace.
        attributes: short textual, numeric and boolean attributes of the trace's spans; outer spans take precedence.
            Attributes of the resource are named `resource.…`.
    """

    trace: str
    start_ns: int
    end_ns: int
    input: str | None = None
    output: str | None = None
    error: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] | None = None
    retrieved: tuple[Mapping[str, Any], ...] | None = None
    usage: tuple[Mapping[str, Any], ...] | None = None
    model: str | None = None
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = {}

    @property
    def duration_ms(self) -> float | None:
        """Duration in milliseconds; None if unknown."""
        return (self.end_ns - self.start_ns) / 1e6 if self.end_ns >= self.start_ns else None


class TraceConversation(Struct, frozen=True):
    """A conversation: the traces of one session, sorted by start, or a single trace without a session.

    `id` is unique among the conversations that were read, and valid as a case id: the id of the session or trace if it
    has the form of a case id, otherwise a digest. `session` is None if the trace names no session.
    """

    id: str
    session: str | None
    turns: tuple[TraceTurn, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """The models that were called, sorted."""
        return tuple(sorted({name for turn in self.turns for name in turn.models}))

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that were called, as far as they are known, sorted."""
        return tuple(sorted({name for turn in self.turns for name in turn.tools}))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of all traces, sorted."""
        return tuple(sorted({tag for turn in self.turns for tag in turn.tags}))
