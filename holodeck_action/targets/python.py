"""Targets that are a Python callable of the repository. It is called in worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, Conversation, PartialTurn, Reply, Session
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.targets.warm_up import await_warm_up, warm_up_request
from holodeck_action.text.plain import cut_start
from holodeck_action.workers.code_errors import UserCodeError
from holodeck_action.workers.pool import Lease, WorkerPool

if TYPE_CHECKING:
    from holodeck_action.targets.spans import SpanReader

_OUTPUT_SHOWN = 4096
"""Maximum characters of a failed call's printed output in its error; the last characters are kept."""


class PythonAgent(Agent):
    """Calls a sync or async callable `module.path:callable`.

    The callable receives the conversation, `[{role, content}]`, whose last message is the turn's input. If it has a
    second parameter without a default, it also receives the request (see `Conversation.request`). It returns a string
    or a reply object, or yields the reply in parts. All turns of a conversation run in one process, which is reused for
    other conversations.
    """

    def __init__(
        self,
        reference: str,
        pool: WorkerPool,
        max_bytes: int,
        warm_up: str | None = None,
        reader: SpanReader | None = None,
    ) -> None:
        """Create the agent; the callable is imported before the first turn.

        Args:
            reference: `module.path:callable`, importable from the suite's folder or the current directory.
            pool: the workers, one per conversation in progress; the caller closes the pool.
            max_bytes: maximum bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            warm_up: input of the warm-up request that each worker gets first; None if there is no warm-up.
            reader: reads the spans that the workers collect; None if spans are off.
        """
        self.reader = reader
        self.reference = reference
        self.pool = pool
        self.max_bytes = max_bytes
        self.warm_up = warm_up

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the received spans, one sentence each."""
        return () if self.reader is None else self.reader.notices

    async def open(self, case: Case, trial: int) -> PythonSession:
        """Return a new conversation."""
        return PythonSession(self, Conversation(case, trial))


class PythonSession(Session):
    """A conversation with the callable."""

    def __init__(self, agent: PythonAgent, conversation: Conversation) -> None:
        self._agent = agent
        self._spans: Any = None
        self._conversation = conversation
        self.session_id = conversation.session
        self._lease: Lease | None = None

    async def prepare(self) -> None:
        """Wait for a free worker that has imported the callable and has answered the warm-up request."""
        lease = await self._get_lease()
        try:
            await lease.check(self._agent.reference)
        except UserCodeError as error:
            raise _agent_error(error) from None
        warm = f"warm-up of {self._agent.reference}"
        if self._agent.warm_up is not None and warm not in lease.finished_work:
            await await_warm_up(self._send_request(warm_up_request(self._agent.warm_up)))
            lease.finished_work.add(warm)

    async def send(self, turn: Turn) -> Reply:
        """Call the callable. If this is cancelled, the process is killed."""
        self._spans, reader = None, self._agent.reader
        reply = await self._send_request(self._conversation.request(turn))
        if reader is not None:
            reply = await reader.fill_reply(reply, reader.parse_spans(self._spans))
        self._conversation.add(turn, reply)
        return reply

    def partial_turn(self) -> PartialTurn:
        """Return the data in the spans of a failed turn; the spans of a killed process are lost."""
        reader = self._agent.reader
        return PartialTurn() if reader is None else reader.partial_turn(reader.parse_spans(self._spans))

    async def _send_request(self, request: Mapping[str, Any]) -> Reply:
        lease = await self._get_lease()
        if self._agent.reader is not None:
            request = {**request, "traceparent": self._agent.reader.new_traceparent()}
        try:
            # `reply_from_mapping` checks the exact limit; this limit only stops huge replies in the worker.
            outcome = await lease.call(
                "ask", self._agent.reference, {"request": request}, None, max_bytes=2 * self._agent.max_bytes
            )
        except UserCodeError as error:
            self._spans = error.spans
            raise _agent_error(error) from None
        self._spans = outcome.spans
        try:
            return reply_from_mapping(outcome.value, max_bytes=self._agent.max_bytes)
        except AgentError as error:
            raise AgentError(
                f"{self._agent.reference}: {error.message}", error.code, _add_output(error.context, outcome.output)
            ) from None

    async def close(self) -> None:
        """Return the worker to the pool."""
        if self._lease is not None:
            lease, self._lease = self._lease, None
            await lease.end()

    async def _get_lease(self) -> Lease:
        if self._lease is None:
            self._lease = await self._agent.pool.lease()
        return self._lease


def _agent_error(error: UserCodeError) -> AgentError:
    return AgentError(error.message, error.code, _add_output(error.context, error.output))


def _add_output(context: dict[str, object], output: str) -> dict[str, object]:
    return {**context, "output": cut_start(output, _OUTPUT_SHOWN)} if output else context
