"""The spans of a target's turns read one after the other, and what its reader should know of them."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from holodeck_action.extensions.frameworks.spans.reading import filled, reply_parts
from holodeck_action.extensions.frameworks.spans.span import TurnSpans
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.targets.protocol import Attempt, Reply
from holodeck_action.text.foreign import Foreign, Redact
from holodeck_action.workers.code_errors import SENT_WORDS

_LONGEST_FAILURE = 300
"""Characters of what an instrumentation raises."""


class SpanReader:
    """Fills replies with what their spans tell; whatever spans hold, no turn fails because of them."""

    def __init__(self, max_bytes: int, redact: Redact) -> None:
        """Begin with nothing read.

        Args:
            max_bytes: most bytes that the spans of a turn may add to its reply (`limits.max_response_bytes`).
            redact: removes secrets from what instrumentations raise.
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
        """What the reader should know, each one sentence."""
        found = [f"spans: the instrumentation {name} could not be started" for name in self._failed]
        if self._silent:
            turns = "any turn" if self._silent == self._turns else f"{self._silent:,} of {self._turns:,} turns"
            found.append(
                f"spans: the target sent none of model calls, tools or agents in {turns}, so that its reply alone "
                "counts there; is its framework instrumented?"
            )
        if self._unread:
            found.append(
                f"spans: {self._unread:,} could not be read, or were too many: tool calls, chunks and tokens of their "
                "turns are not known from spans"
            )
        if self._unusable:
            turns = "1 turn" if self._unusable == 1 else f"{self._unusable:,} turns"
            found.append(f"spans: those of {turns} do not fit into a reply, and do not count")
        return tuple(found)

    async def filled(self, reply: Reply, turn: TurnSpans) -> Reply:
        """Return a reply with what it does not say itself, as far as its spans do; read in a thread, for the loop."""
        self._turns += 1
        self._unread += turn.unread
        for said in turn.failed:
            self._failed[Foreign.of_text(said, SENT_WORDS).words(self._redact, _LONGEST_FAILURE)] = None
        found = await asyncio.to_thread(_filled, reply, turn, self._max_bytes)
        self._silent += found.silent
        return self._usable(found)

    def attempt(self, turn: TurnSpans) -> Attempt:
        """Return what a turn did that got no answer."""
        told = self._usable(_filled(Reply(""), turn, self._max_bytes))
        return Attempt(told.tool_invocations, told.usage)

    def _usable(self, found: _Filled) -> Reply:
        self._unusable += not found.usable
        return found.reply


class _Filled(Struct, frozen=True):
    """A reply, whether spans of agents tell anything, and whether what they tell fits into it."""

    reply: Reply
    silent: bool
    usable: bool = True


def _filled(reply: Reply, turn: TurnSpans, max_bytes: int) -> _Filled:
    parts = reply_parts(turn.spans)
    if turn.unread:
        # Any of them may tell of a call, of documents or of tokens: no list and no sum is whole.
        parts = {name: value for name, value in parts.items() if name == "model"}
    silent = not parts and not turn.unread
    try:
        return _Filled(filled(reply, parts, max_bytes), silent)
    except AgentError:
        return _Filled(reply, silent, usable=False)
