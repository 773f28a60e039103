"""Agents that are a Python callable of the repository, called in worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.extensions.frameworks.spans.span import TurnSpans, new_traceparent, turn_spans
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, Attempt, Conversation, Reply, Session
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.targets.warm_up import warm_up_request, warmed_up
from holodeck_action.text.plain import cut_before
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import Lease, WorkerPool

if TYPE_CHECKING:
    from holodeck_action.extensions.frameworks.spans.reader import SpanReader

_OUTPUT_SHOWN = 4096
"""Characters of what a failed call printed that its error keeps: the last ones."""


class PythonAgent(Agent):
    """Asks `module.path:callable`, sync or async.

    The callable gets the conversation, `[{role, content}]`, whose last message is the turn's input, and the request
    (see `Conversation.request`) where it has a second parameter without a default. It returns a text or the reply
    mapping, or yields them in pieces. All turns of a conversation run in one process, which serves other conversations
    before and after it.
    """

    def __init__(
        self,
        reference: str,
        pool: WorkerPool,
        max_bytes: int,
        warm_up: str | None = None,
        reader: SpanReader | None = None,
    ) -> None:
        """Prepare the agent; the callable is imported when a turn is about to be asked.

        Args:
            reference: `module.path:callable`, importable from the suite's folder or the current directory.
            pool: the workers it runs in, one per conversation under way; whoever made it closes it.
            max_bytes: most bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            warm_up: what each worker is asked before its first turn; None for nothing.
            reader: reads the spans that the workers collect; None where they collect none.
        """
        self._reader = reader
        self._reference = reference
        self._pool = pool
        self._max_bytes = max_bytes
        self._warm_up = warm_up

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know of the spans."""
        return () if self._reader is None else self._reader.notices

    async def open(self, case: Case, trial: int) -> PythonSession:
        """Start a conversation."""
        conversation = Conversation(case, trial)
        return PythonSession(self._reference, self._pool, conversation, self._max_bytes, self._warm_up, self._reader)


class PythonSession(Session):
    """One conversation."""

    def __init__(
        self,
        reference: str,
        pool: WorkerPool,
        conversation: Conversation,
        max_bytes: int,
        warm_up: str | None,
        reader: SpanReader | None,
    ) -> None:
        self._reader = reader
        self._spans = TurnSpans()
        self._reference = reference
        self._pool = pool
        self._conversation = conversation
        self._max_bytes = max_bytes
        self._warm_up = warm_up
        self._lease: Lease | None = None

    async def prepare(self) -> None:
        """Have a worker ready that has imported the callable, and has answered the warm-up."""
        lease = await self._held()
        try:
            await lease.check(self._reference)
        except UserCodeError as error:
            raise _agent_error(error) from None
        warm = f"warm-up of {self._reference}"
        if self._warm_up is not None and warm not in lease.done:
            await warmed_up(self._ask(warm_up_request(self._warm_up)))
            lease.done.add(warm)

    async def send(self, turn: Turn) -> Reply:
        """Call the callable; a cancelled call ends with its process."""
        self._spans = TurnSpans()
        reply = await self._ask(self._conversation.request(turn))
        if self._reader is not None:
            reply = await self._reader.filled(reply, self._spans)
        self._conversation.add(turn, reply)
        return reply

    def attempt(self) -> Attempt:
        """Tell what the spans of a turn say that failed; none come from a process that was ended."""
        return Attempt() if self._reader is None else self._reader.attempt(self._spans)

    async def _ask(self, request: Mapping[str, Any]) -> Reply:
        lease = await self._held()
        if self._reader is not None:
            request = {**request, "traceparent": new_traceparent()}
        try:
            # The reply's own reader knows the exact limit; this one only keeps a flood inside the worker.
            outcome = await lease.call(
                "ask", self._reference, {"request": request}, None, max_bytes=2 * self._max_bytes
            )
        except UserCodeError as error:
            self._spans = turn_spans(error.spans)
            raise _agent_error(error) from None
        self._spans = turn_spans(outcome.spans)
        try:
            return reply_from_mapping(outcome.value, max_bytes=self._max_bytes)
        except AgentError as error:
            raise AgentError(
                f"{self._reference}: {error.message}", error.code, _facts(error.context, outcome.output)
            ) from None

    async def close(self) -> None:
        """Leave the worker to other conversations."""
        if self._lease is not None:
            lease, self._lease = self._lease, None
            await lease.end()

    async def _held(self) -> Lease:
        if self._lease is None:
            self._lease = await self._pool.lease()
        return self._lease


def _agent_error(error: UserCodeError) -> AgentError:
    return AgentError(error.message, error.code, _facts(error.context, error.output))


def _facts(context: dict[str, object], output: str) -> dict[str, object]:
    return {**context, "output": cut_before(output, _OUTPUT_SHOWN)} if output else context
