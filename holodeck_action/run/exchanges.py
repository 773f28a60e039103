"""The turns, answers and tool calls of a trial's conversation so far."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from holodeck_action.record.evaluation import ErrorInfo, Evaluation
from holodeck_action.record.facts import Fact, Nothing, join_facts, list_fact
from holodeck_action.record.record import RetrievedChunk, Timing, ToolAssertion, ToolInvocation
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.values import Turn
from holodeck_action.targets.protocol import PartialTurn, Reply


class Conversation(Struct):
    """The data of all turns of a session so far; `trial` is the trial's index.

    `calls`, `texts` and `chunks` are each unknown if any turn does not report them.
    """

    trial: int
    calls: Fact[tuple[ToolInvocation, ...]] = Nothing()
    texts: Fact[tuple[str, ...]] = Nothing()
    chunks: Fact[tuple[RetrievedChunk, ...]] = Nothing()
    answers: tuple[Answer, ...] = ()

    def add(self, reply: Reply) -> None:
        """Add the tool calls, texts and chunks of a reply."""
        self.calls = join_facts(self.calls, list_fact(reply.tool_invocations))
        self.texts = join_facts(self.texts, list_fact(reply.retrieval_context))
        self.chunks = join_facts(self.chunks, list_fact(reply.retrieved_chunks))


class Exchange(Struct, frozen=True):
    """One turn of a conversation; `grading` is the task that scores the answer, None if there is no answer.

    `attempt` has the calls and usage of a turn that failed to give an answer.
    """

    turn: Turn
    reply: Reply | None = None
    context: tuple[str, ...] | None = None
    chunks: tuple[RetrievedChunk, ...] | None = None
    error: ErrorInfo | None = None
    skipped: str | None = None
    timing: Timing | None = None
    grading: asyncio.Task[tuple[tuple[Evaluation, ...], tuple[ToolAssertion, ...]]] | None = None
    texts: tuple[str, ...] | None = None
    attempt: PartialTurn | None = None
