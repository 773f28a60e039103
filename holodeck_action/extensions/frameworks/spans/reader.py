"""Completes replies with data from spans, and reports unusable spans in notices."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.frameworks.spans.reading import fill_reply, reply_parts
from holodeck_action.extensions.frameworks.spans.span import TurnSpans, new_traceparent, read_turn_spans
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.targets.protocol import PartialTurn, Reply
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.workers.code_errors import MAX_SENT_CHARS

_LONGEST_FAILURE = 300
"""Longest message of a failed instrumentation, in characters."""


class SpanReader:
    """Completes replies with data from their spans. No turn fails because of its spans."""

    def __init__(self, max_bytes: int, redact: Redact) -> None:
        """Create a reader.

        Args:
            max_bytes: maximum bytes that spans may add to a reply (`limits.max_response_bytes`).
            redact: removes secrets from messages of instrumentations.
        """
        self._redact = redact
        self._max_bytes = max_bytes
        self._turns = 0
        self._silent = 0
        self._unread = 0
        self._unusable = 0
        self._failed: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the spans read so far, one sentence each."""
        found = [f"spans: the instrumentation {name} could not be started" for name in self._failed]
        if self._silent:
            turns = "any turn" if self._silent == self._turns else f"{self._silent:,} of {self._turns:,} turns"
            found.append(
                f"spans: the target sent no spans of model calls, tools or agents in {turns}, so only its reply "
                "counts there; instrument its framework to record them"
            )
        if self._unread:
            found.append(
                f"spans: {self._unread:,} of the spans could not be read or were too many, so tool calls, chunks and "
                "tokens of their turns are not taken from spans"
            )
        if self._unusable:
            turns = "1 turn" if self._unusable == 1 else f"{self._unusable:,} turns"
            found.append(f"spans: the spans of {turns} do not fit into a reply and are ignored")
        return tuple(found)

    def new_traceparent(self) -> str:
        """Return the header `traceparent` of a new turn."""
        return new_traceparent()

    def parse_spans(self, spans: Any) -> TurnSpans:
        """Read the spans that a worker process collected; user code may have forged them."""
        return read_turn_spans(spans)

    async def fill_reply(self, reply: Reply, turn: TurnSpans) -> Reply:
        """Return a reply with missing data filled in from the turn's spans, which are read in a thread."""
        self._turns += 1
        self._unread += turn.unread
        for message in turn.failed:
            self._failed[Foreign.of_text(message, MAX_SENT_CHARS).short_line(self._redact, _LONGEST_FAILURE)] = None
        found = await asyncio.to_thread(_fill, reply, turn, self._max_bytes)
        self._silent += found.no_data
        return self._unwrap_reply(found)

    def partial_turn(self, turn: TurnSpans) -> PartialTurn:
        """Return the tool calls and usage of a turn without an answer."""
        reply = self._unwrap_reply(_fill(Reply(""), turn, self._max_bytes))
        return PartialTurn(reply.tool_invocations, reply.usage)

    def _unwrap_reply(self, reply: _FilledReply) -> Reply:
        self._unusable += not reply.usable
        return reply.reply


class _FilledReply(Struct, frozen=True):
    """A completed reply; `no_data`: the spans contain no data for it; `usable`: the spans' data, if any, are valid."""

    reply: Reply
    no_data: bool
    usable: bool = True


def _fill(reply: Reply, turn: TurnSpans, max_bytes: int) -> _FilledReply:
    parts = reply_parts(turn.spans)
    if turn.unread:
        # Unread spans may contain calls, documents or tokens, so lists and sums are incomplete.
        parts = {name: value for name, value in parts.items() if name == "model"}
    no_data = not parts and not turn.unread
    try:
        return _FilledReply(fill_reply(reply, parts, max_bytes), no_data)
    except AgentError:
        return _FilledReply(reply, no_data, usable=False)
